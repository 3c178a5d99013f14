// SPDX-License-Identifier: Apache-2.0
// Text as code points, and what Unicode says of them, as tokenizers ask for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thunderc {

// One code point of UTF-8 that is known to be valid (valid_utf8), and how many bytes it has.
struct CodePoint {
    char32_t value = 0;
    std::size_t bytes = 1;
};
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
    const char32_t first = byte(0);
    if (first < 0x80) return {first, 1};
    if (first < 0xe0) return {(first & 0x1f) << 6 | (byte(1) & 0x3f), 2};
    if (first < 0xf0) return {(first & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
    return {(first & 7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

inline bool continues_code_point(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

void append_utf8(std::string& text, char32_t code_point);
std::u32string code_points(std::string_view text);

// The byte at which UTF-8 stops being valid; the text's length where all of it is. Surrogates, overlong forms and what
// is beyond U+10FFFF are not.
std::size_t valid_utf8(std::string_view text);

// The text with U+FFFD for what is not valid, as Python's errors="replace" puts them: one for each longest beginning of
// a code point.
std::string replace_invalid_utf8(std::string_view text);

bool is_whitespace(char32_t c);  // White_Space
bool is_number(char32_t c);      // Nd, Nl, No
bool is_mark(char32_t c);        // Mn, Mc, Me
bool is_nonspacing_mark(char32_t c);
bool is_punctuation(char32_t c);  // P*, and the signs of ASCII that are no letters, digits or spaces
bool is_other(char32_t c);        // Cc, Cf, Co, Cs
bool is_word(char32_t c);         // letters, marks, decimal digits, connectors, joiners: \w of most regular expressions

// Full mapping, which for one code point gives two.
void append_lowercase(std::string& text, char32_t c);

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };
// The text in this form. Fails where there is no memory for it.
std::string normal_form(std::string_view text, NormalForm form);

// Where the grapheme cluster that begins at `from` ends.
std::size_t grapheme_end(std::string_view text, std::size_t from);

}  // namespace thunderc
