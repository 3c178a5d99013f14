// SPDX-License-Identifier: Apache-2.0
// A tokenizer: from text to ids and back, as the file that it was read from has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/added_tokens.h"
#include "tokenizers/decoder.h"
#include "tokenizers/model.h"
#include "tokenizers/normalizer.h"
#include "tokenizers/pre_tokenizer.h"

namespace thunderc {

// What readers of files fill in.
struct TokenizerParts {
    std::vector<AddedToken> added;
    Normalizers normalizers;
    PreTokenizers pre_tokenizers;
    std::unique_ptr<Model> model;
    std::vector<std::uint32_t> before, behind;  // special tokens of a text, where they are asked for
    Decoders decoders;
    bool joined_by_spaces = false;   // tokens become text with a space between them, where no decoder does
    std::vector<std::string> texts;  // of each id; "" of ids that have none
};

class Tokenizer {
  public:
    // `name` and `hash` say in a corpus which tokenizer it was.
    Tokenizer(TokenizerParts parts, std::string name, std::uint64_t hash);

    // Ids are below it.
    std::uint32_t vocabulary() const { return static_cast<std::uint32_t>(parts_.texts.size()); }
    // The id of a token by its whole text, an added one first.
    std::optional<std::uint32_t> find(std::string_view token) const;
    // "" where there is no such token.
    const std::string& text(std::uint32_t id) const;
    std::span<const std::uint32_t> before() const { return parts_.before; }
    std::span<const std::uint32_t> behind() const { return parts_.behind; }

    // What a reader may look at: special tokens are spelled.
    std::string decode(std::span<const std::uint32_t> ids) const;

    // "tokenizer.json 0123456789abcdef"
    const std::string& description() const { return description_; }

  private:
    friend class Encoder;

    TokenizerParts parts_;
    AddedTokenFinder raw_, normalized_;
    std::string description_;
};

// Encodes texts for one thread: it keeps the ids of words that it has seen.
class Encoder {
  public:
    explicit Encoder(const Tokenizer& tokenizer);
    Encoder(const Encoder&) = delete;
    Encoder& operator=(const Encoder&) = delete;
    ~Encoder();

    // Appends the ids of a text, which is valid UTF-8, without special tokens around it.
    void encode(std::string_view text, std::vector<std::uint32_t>& ids);

  private:
    class ModelSink;
    void encode_part(std::string_view part, bool at_start, std::vector<std::uint32_t>& ids);

    const Tokenizer& tokenizer_;
    std::unique_ptr<ModelSink> sink_;
    std::vector<std::unique_ptr<PieceSink>> stages_;
    PieceSink* first_ = nullptr;
    std::string normal_;
};

// Reads a tokenizer: a tokenizer.json of Hugging Face, a folder with one, a SentencePiece model or tiktoken's ranks,
// told apart by what they hold. `pattern` is tiktoken's (tiktoken.cpp): a name that is known, or a regular expression;
// "" where the file says all. Fails by name where it has what is not known here.
Tokenizer read_tokenizer(const std::string& path, const std::string& pattern = "");

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& path);

// A model of SentencePiece, whose ids these are; its control symbols are special tokens, though, which it does not look
// for in texts itself.
bool is_sentencepiece(std::string_view text);
TokenizerParts parse_sentencepiece(std::string_view text, const std::string& path);

// Lines of a token in base64 and its rank.
bool is_tiktoken(std::string_view text);
TokenizerParts parse_tiktoken(std::string_view text, const std::string& path, const std::string& pattern);
std::vector<std::string> tiktoken_pattern_names();

// The token that ends documents, as tokenizer_config.json beside a tokenizer names it; nothing where it does not.
std::optional<std::string> end_token_beside(const std::string& path);

}  // namespace thunderc
