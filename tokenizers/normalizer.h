// SPDX-License-Identifier: Apache-2.0
// What a tokenizer makes of a text before it looks for words in it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/regex.h"
#include "tokenizers/unicode.h"

namespace thunderc {

class Normalizer {
  public:
    Normalizer() = default;
    Normalizer(const Normalizer&) = delete;
    Normalizer& operator=(const Normalizer&) = delete;
    virtual ~Normalizer() = default;

    // `at_start`: whether the first character comes from where the text began, as the `tokenizers` package follows
    // characters; false once those before it were taken away. (Not followed: what one normalizer puts in and another
    // takes away again.)
    virtual void apply(std::string& text, bool& at_start) const = 0;
};
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

std::unique_ptr<Normalizer> make_normal_form(NormalForm form);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_strip_accents();
std::unique_ptr<Normalizer> make_strip(bool left, bool right);
std::unique_ptr<Normalizer> make_replace(Regex what, std::string by);
std::unique_ptr<Normalizer> make_prepend(std::string text);
std::unique_ptr<Normalizer> make_nmt();
std::unique_ptr<Normalizer> make_byte_letters();

struct BertNormalizerSpec {
    bool clean_text = true, handle_chinese_chars = true, lowercase = true;
    std::optional<bool> strip_accents;  // nothing: as lowercase
};
std::unique_ptr<Normalizer> make_bert_normalizer(const BertNormalizerSpec& spec);

// SentencePiece's map of characters (charsmap.cpp); fails where it is damaged. `by_grapheme`: as the `tokenizers`
// package applies it, whole short grapheme clusters first; else the longest text that the map knows, as SentencePiece.
std::unique_ptr<Normalizer> make_charsmap(std::string map, bool by_grapheme);

// GPT-2's letters for bytes: a character of a single code point for each, none of them a space or a control.
char32_t letter_of_byte(unsigned char byte);
std::optional<unsigned char> byte_of_letter(char32_t letter);
// The bytes that a text of such letters stands for; nothing where it has others.
std::optional<std::string> bytes_of_letters(std::string_view text);

}  // namespace thunderc
