// SPDX-License-Identifier: Apache-2.0
// Small tokenizers with the pipelines of well-known models beside what the `tokenizers` package made of the same texts
// (scripts/make_tokenizer_fixtures.py).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/file.h"
#include "support/json.h"
#include "tokenizers/tokenizer.h"

namespace thunderc {
namespace {

const std::string folder = FIXTURES "/tokenizers/";

thunder::Json read_json(const std::string& path) {
    const thunder::MappedFile file(path);
    return thunder::parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

std::vector<std::uint32_t> ids_of(const thunder::Json& list) {
    std::vector<std::uint32_t> ids;
    for (const thunder::Json& id : list.array) ids.push_back(static_cast<std::uint32_t>(id.integer));
    return ids;
}

class TokenizerFixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerFixtures, GiveThePackagesIds) {
    const std::string name = folder + GetParam();
    const Tokenizer tokenizer = read_tokenizer(name + ".json");
    Encoder encoder(tokenizer);
    const std::vector<thunder::Json> texts = read_json(folder + "texts.json").array;
    const thunder::Json recorded = read_json(name + ".ids");
    const std::vector<thunder::Json>& expected = recorded.find("texts")->array;
    ASSERT_EQ(texts.size(), expected.size());
    // Twice: what the encoder has seen, it looks up.
    for (int round = 0; round < 2; ++round)
        for (std::size_t i = 0; i < texts.size(); ++i) {
            std::vector<std::uint32_t> ids;
            encoder.encode(texts[i].string, ids);
            EXPECT_EQ(ids, ids_of(*expected[i].find("ids"))) << "text " << i << ": " << texts[i].string;
        }
    for (std::size_t i = 0; i < texts.size(); ++i)
        EXPECT_EQ(tokenizer.decode(ids_of(*expected[i].find("ids"))), expected[i].find("text")->string) << "text " << i;
}

TEST_P(TokenizerFixtures, PutSpecialTokensAroundATextAsThePackage) {
    const std::string name = folder + GetParam();
    const Tokenizer tokenizer = read_tokenizer(name + ".json");
    std::vector<std::uint32_t> ids(tokenizer.before().begin(), tokenizer.before().end());
    Encoder(tokenizer).encode("Hello", ids);
    ids.insert(ids.end(), tokenizer.behind().begin(), tokenizer.behind().end());
    EXPECT_EQ(ids, ids_of(*read_json(name + ".ids").find("special")));
}

TEST(SmallTokenizers, GiveThePackagesIds) {
    for (const thunder::Json& small : read_json(folder + "small.json").array) {
        SCOPED_TRACE(small.find("about")->string);
        const Tokenizer tokenizer(parse_tokenizer_json(small.find("tokenizer")->string, "small.json"), "small", 0);
        Encoder encoder(tokenizer);
        for (const thunder::Json& one : small.find("cases")->array) {
            std::vector<std::uint32_t> ids;
            encoder.encode(one.find("text")->string, ids);
            EXPECT_EQ(ids, ids_of(*one.find("ids"))) << one.find("text")->string;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFixtures,
                         ::testing::Values("gpt2", "llama3", "qwen2", "tekken", "llama2", "mistral", "gemma", "t5",
                                           "xlnet", "bert", "odds"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace thunderc
