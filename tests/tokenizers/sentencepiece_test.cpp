// SPDX-License-Identifier: Apache-2.0
// Beside what SentencePiece made of the same texts with the same models (scripts/make_tokenizer_fixtures.py).
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "tokenizers/tokenizer.h"

namespace thunderc {
namespace {

const std::string fixtures_of_models = FIXTURES "/tokenizers/";

std::string text_of_file(const std::string& path) {
    const thunder::MappedFile file(path);
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(SentencePiece, GivesItsIds) {
    const auto texts = thunder::parse_json(text_of_file(fixtures_of_models + "texts.json"), "texts").array;
    for (const std::string& name : {std::string("spm_bpe"), std::string("spm_unigram")}) {
        const Tokenizer tokenizer = read_tokenizer(fixtures_of_models + name + ".model");
        Encoder encoder(tokenizer);
        const thunder::Json recorded = thunder::parse_json(text_of_file(fixtures_of_models + name + ".ids"), name);
        const std::vector<thunder::Json>& expected = recorded.find("texts")->array;
        ASSERT_EQ(texts.size(), expected.size());
        int compared = 0;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const thunder::Json& list = *expected[i].find("ids");
            if (list.is(thunder::Json::Kind::null)) continue;
            std::vector<std::uint32_t> ids, theirs;
            encoder.encode(texts[i].string, ids);
            for (const thunder::Json& id : list.array) theirs.push_back(static_cast<std::uint32_t>(id.integer));
            EXPECT_EQ(ids, theirs) << name << ", text " << i << ": " << texts[i].string;
            ++compared;
        }
        EXPECT_GT(compared, 40);
    }
}

TEST(SentencePiece, ControlSymbolsAreTokensAndTextComesBack) {
    const Tokenizer tokenizer = read_tokenizer(fixtures_of_models + "spm_bpe.model");
    std::vector<std::uint32_t> ids;
    Encoder(tokenizer).encode("a  caf\xc3\xa9 \xf0\x9f\x98\x80</s>", ids);
    EXPECT_EQ(ids.back(), tokenizer.find("</s>"));
    EXPECT_EQ(tokenizer.decode(ids), "a  caf\xc3\xa9 \xf0\x9f\x98\x80</s>");
}

TEST(SentencePiece, WithstandsDamage) {
    std::mt19937 random(2);
    for (const char* name : {"spm_bpe.model", "spm_unigram.model"}) {
        const std::string whole = text_of_file(fixtures_of_models + name);
        for (int round = 0; round < 150; ++round) {
            std::string changed = whole;
            if (round % 3 == 0) changed.resize(random() % changed.size());
            for (int k = 0; k < 4 && !changed.empty(); ++k)
                changed[random() % changed.size()] = static_cast<char>(random());
            try {
                const Tokenizer tokenizer(parse_sentencepiece(changed, "x.model"), "x.model", 0);
                std::vector<std::uint32_t> ids;
                Encoder(tokenizer).encode("Hello \xc3\xa9, 12", ids);
                for (const std::uint32_t id : ids) EXPECT_LT(id, tokenizer.vocabulary());
            } catch (const thunder::Error&) {
            }
        }
    }
}

}  // namespace
}  // namespace thunderc
