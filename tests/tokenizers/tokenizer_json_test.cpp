// SPDX-License-Identifier: Apache-2.0
// Files that are no tokenizers, or hold what is not known: refused by name, whatever is wrong with them.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/file.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/unicode.h"

namespace thunderc {
namespace {

std::string error_of_json(const std::string& text) {
    try {
        parse_tokenizer_json(text, "t.json");
    } catch (const thunder::Error& error) {
        return error.what();
    }
    return "";
}

std::string with_model(const std::string& model, const std::string& more = "") {
    return "{\"model\": " + model + more + "}";
}

const std::string bpe = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})";
const std::string published = "\nhelp: use the file as it was published";

TEST(TokenizerJson, RefusesWhatIsNotKnownByName) {
    const std::string npy =
        " that is not known here\nhelp: tokenize the text with the tokenizer's own package, and pack the ids: "
        "--format npy";
    EXPECT_EQ(error_of_json(with_model(bpe)), "");
    EXPECT_EQ(error_of_json(with_model(R"({"type": "Magic"})")), "error: t.json has a model Magic" + npy);
    const auto with = [&](const std::string& part, const std::string& value) {
        return error_of_json(with_model(bpe, ", \"" + part + "\": " + value));
    };
    EXPECT_EQ(with("normalizer", R"({"type": "Sequence", "normalizers": [{"type": "Rot13"}]})"),
              "error: t.json has a normalizer Rot13" + npy);
    EXPECT_EQ(with("pre_tokenizer", R"({"type": "UnicodeScripts"})"),
              "error: t.json has a pre_tokenizer UnicodeScripts" + npy);
    EXPECT_EQ(with("post_processor", R"({"type": "Mystery"})"), "error: t.json has a post_processor Mystery" + npy);
    EXPECT_EQ(with("decoder", R"({"type": "CTC"})"), "error: t.json has a decoder CTC" + npy);
    EXPECT_EQ(
        with("pre_tokenizer", R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Twice", "invert": false})"),
        "error: t.json has a pre_tokenizer Split with the behaviour Twice" + npy);
    EXPECT_EQ(error_of_json(with_model(R"({"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []})")),
              "error: t.json has a model BPE with dropout, which gives other tokens each time," + npy);
    const auto split = [&](const std::string& pattern) {
        return with("pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": ")" + pattern +
                                         R"("}, "behavior": "Isolated", "invert": false})");
    };
    const std::string package =
        ", which is not read here\nhelp: tokenize the text with the tokenizer's own package, and pack the "
        "ids: --format npy";
    EXPECT_EQ(split("\\\\bword"), "error: the regular expression \\bword has \\b" + package);
    EXPECT_EQ(split("[a-z&&[^b]]"),
              "error: the regular expression [a-z&&[^b]] has an intersection of classes (&&)" + package);
    EXPECT_EQ(split("[[:alpha:]]"), "error: the regular expression [[:alpha:]] has a class within a class" + package);
    EXPECT_EQ(split("\\\\p{Nothing}"), "error: the regular expression \\p{Nothing} has the property Nothing" + package);
    EXPECT_NE(split("(a"), "");
}

TEST(TokenizerJson, RefusesVocabulariesAndMergesThatDoNotFit) {
    EXPECT_EQ(
        error_of_json(with_model(R"({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]})")),
        "error: the tokenizer's merge 0, of \"a\" and \"b\", needs \"ab\", which is not in its vocabulary" + published);
    EXPECT_EQ(
        error_of_json(with_model(R"({"type": "BPE", "vocab": {"a": 0, "ab": 1}, "merges": [["a", "b"]]})")),
        "error: the tokenizer's merge 0, of \"a\" and \"b\", needs \"b\", which is not in its vocabulary" + published);
    EXPECT_EQ(error_of_json(with_model(R"({"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []})")),
              "error: t.json is no tokenizer as it should be: the id 0 of both \"a\" and \"b\"" + published);
    EXPECT_EQ(error_of_json(with_model(R"({"type": "BPE", "vocab": {"a": 5000000}, "merges": []})")),
              "error: t.json is no tokenizer as it should be: the id of \"a\"" + published);
    EXPECT_EQ(error_of_json(with_model(R"({"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 7})")),
              "error: the tokenizer's unknown token is 7, and its vocabulary has 1" + published);
    EXPECT_EQ(error_of_json(with_model(bpe, R"(, "added_tokens": [{"id": 9, "content": "<x>"}])")),
              "error: t.json: the added token \"<x>\" has the id 9, and the tokenizers package gives it 3\nhelp: load "
              "it with that "
              "package and save it again");
    EXPECT_EQ(error_of_json("{}"), "error: t.json is no tokenizer as it should be: tokenizer: \"model\"" + published);
    EXPECT_NE(error_of_json(std::string(100000, '[')), "");
    EXPECT_NE(error_of_json(with_model(bpe).substr(0, 40)), "");
}

// Bytes of real files, changed: an error or a tokenizer that gives ids of its vocabulary, never anything else.
TEST(TokenizerJson, WithstandsDamage) {
    std::mt19937 random(1);
    const std::string texts[] = {"Hello, world! 12345\n\n  caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac <s>",
                                 std::string(300, 'a')};
    int read = 0;
    for (const char* name : {"llama3", "t5", "bert", "odds"}) {
        const thunder::MappedFile file(std::string(FIXTURES "/tokenizers/") + name + ".json");
        const std::string whole(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
        for (int round = 0; round < 40; ++round) {
            std::string changed = whole;
            for (int k = 0; k < 1 + round % 3; ++k) {
                const std::size_t at = random() % changed.size();
                if (round % 4 == 0) {
                    changed[at] = static_cast<char>(random());
                } else if (round % 4 == 1) {
                    changed.erase(at, random() % 30);
                } else if (round % 4 == 2) {
                    changed.insert(at, changed.substr(random() % changed.size(), random() % 30));
                } else {  // figures and letters alone, which mostly leave it JSON
                    const std::size_t figure = changed.find_first_of("0123456789ru", at);
                    if (figure != std::string::npos) changed[figure] = "0179rn"[random() % 6];
                }
            }
            try {
                const Tokenizer tokenizer(parse_tokenizer_json(changed, "t.json"), "t.json", 0);
                Encoder encoder(tokenizer);
                for (const std::string& text : texts) {
                    std::vector<std::uint32_t> ids;
                    encoder.encode(text, ids);
                    for (const std::uint32_t id : ids) EXPECT_LT(id, tokenizer.vocabulary());
                    const std::string decoded = tokenizer.decode(ids);
                }
                ++read;
            } catch (const thunder::Error&) {
            }
        }
    }
    EXPECT_GT(read, 5);
}

TEST(Unicode, TellsWhereUtf8EndsToBeValid) {
    EXPECT_EQ(valid_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 10U);
    for (const char* bad :
         {"\x80", "\xc0\xaf", "\xc3", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff"}) {
        EXPECT_EQ(valid_utf8(std::string("ab") + bad), 2U);
        EXPECT_EQ(valid_utf8(replace_invalid_utf8(std::string("ab") + bad + "c")),
                  replace_invalid_utf8(std::string("ab") + bad + "c").size());
    }
    // Every code point there and back.
    for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
        if (c >= 0xd800 && c < 0xe000) continue;
        std::string text;
        append_utf8(text, c);
        ASSERT_EQ(valid_utf8(text), text.size());
        ASSERT_EQ(code_point_at(text, 0).value, c);
        ASSERT_EQ(code_point_at(text, 0).bytes, text.size());
    }
}

}  // namespace
}  // namespace thunderc
