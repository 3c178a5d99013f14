// SPDX-License-Identifier: Apache-2.0
// Beside what tiktoken made of the same texts with the same ranks (scripts/make_tokenizer_fixtures.py).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "tokenizers/tokenizer.h"

namespace thunderc {
namespace {

const std::string fixtures_of_ranks = FIXTURES "/tokenizers/";

thunder::Json recorded_json(const std::string& path) {
    const thunder::MappedFile file(path);
    return thunder::parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

TEST(Tiktoken, GivesItsIds) {
    const std::vector<thunder::Json> texts = recorded_json(fixtures_of_ranks + "texts.json").array;
    for (const std::string& name : {std::string("cl100k_base"), std::string("o200k_base")}) {
        const Tokenizer tokenizer = read_tokenizer(fixtures_of_ranks + "ranks.tiktoken", name);
        Encoder encoder(tokenizer);
        const thunder::Json recorded = recorded_json(fixtures_of_ranks + name + ".ids");
        const std::vector<thunder::Json>& expected = recorded.find("texts")->array;
        ASSERT_EQ(texts.size(), expected.size());
        for (std::size_t i = 0; i < texts.size(); ++i) {
            std::vector<std::uint32_t> ids, theirs;
            encoder.encode(texts[i].string, ids);
            for (const thunder::Json& id : expected[i].find("ids")->array)
                theirs.push_back(static_cast<std::uint32_t>(id.integer));
            EXPECT_EQ(ids, theirs) << name << ", text " << i << ": " << texts[i].string;
            EXPECT_EQ(tokenizer.decode(theirs), expected[i].find("text")->string) << name << ", text " << i;
        }
        EXPECT_EQ(tokenizer.text(*tokenizer.find("<|endofprompt|>")), "<|endofprompt|>");
    }
}

std::string error_of_ranks(const std::string& text, const std::string& pattern) {
    try {
        parse_tiktoken(text, "x.tiktoken", pattern);
    } catch (const thunder::Error& error) {
        return error.what();
    }
    return "";
}

TEST(Tiktoken, RefusesWhatItDoesNotKnow) {
    const std::string good = "YQ== 0\nYg== 1\r\nYWI= 2\n";
    EXPECT_TRUE(is_tiktoken(good));
    EXPECT_FALSE(is_tiktoken("two words\n"));
    EXPECT_FALSE(is_tiktoken(""));
    EXPECT_EQ(error_of_ranks(good, "gpt2"), "");
    EXPECT_EQ(error_of_ranks(good, "\\w+|\\s+"), "");
    EXPECT_EQ(
        error_of_ranks(good, ""),
        "error: x.tiktoken has ranks of tokens, and does not say how texts are cut\nhelp: --pattern gpt2, cl100k_base, "
        "o200k_base, llama3, qwen2, or a regular expression");
    EXPECT_EQ(error_of_ranks(good + "Yw== 2\n", "gpt2"),
              "error: x.tiktoken:4: another token has the rank 2\nhelp: use the file as it was published");
    EXPECT_EQ(error_of_ranks(good + "Yw 9999999999\n", "gpt2"),
              "error: x.tiktoken:4 is no token in base64 and its rank\nhelp: use the file as it was published");
    // A file that was cut within its last line.
    EXPECT_EQ(error_of_ranks(good + "\r\n\n", "gpt2"), "");
    for (const char* cut : {"Yw", "Yw==", "Yw== "})
        EXPECT_EQ(error_of_ranks(good + cut, "gpt2"),
                  "error: x.tiktoken:4 is no token in base64 and its rank\nhelp: use the file as it was published");
    EXPECT_EQ(error_of_ranks(good + "Y!== 3\n", "gpt2"),
              "error: x.tiktoken:4 is no base64\nhelp: use the file as it was published");
}

}  // namespace
}  // namespace thunderc
