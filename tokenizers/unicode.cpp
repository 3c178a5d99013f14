// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "support/error.h"

namespace thunderc {

namespace {

utf8proc_category_t category_of(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_letter(char32_t c) {
    const auto category = category_of(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// Bytes of the longest beginning of a code point at `at`, and whether it is a whole one.
struct Beginning {
    std::size_t bytes;
    bool whole;
};
Beginning beginning_at(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {1, true};
    const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4) return {1, false};
    // Overlong forms, surrogates and too large numbers are told by the second byte.
    const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (std::size_t i = 1; i < size; ++i) {
        if (at + i >= text.size()) return {i, false};
        const unsigned next = byte(i);
        if (next < (i == 1 ? least : 0x80) || next > (i == 1 ? most : 0xbf)) return {i, false};
    }
    return {size, true};
}

// Characters with a normal form or an order of marks of their own that the tables of the `tokenizers` package, of an
// older Unicode, do not have: what was trained with it has seen them as they are. Where the package's and these differ
// at all was asked of every character.
constexpr std::pair<char32_t, char32_t> younger_than_the_packages_tables[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x107ba},
    {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
    {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11938, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c},
    {0x1fbf0, 0x1fbf9}};

bool is_younger(char32_t c) {
    constexpr char32_t first = 0x7fd;
    if (c < first) return false;
    const auto* const range =
        std::lower_bound(std::begin(younger_than_the_packages_tables), std::end(younger_than_the_packages_tables), c,
                         [](const auto& r, char32_t value) { return r.second < value; });
    return range != std::end(younger_than_the_packages_tables) && range->first <= c;
}

void append_normal_form(std::string_view text, int options, std::string& normal) {
    if (text.empty()) return;
    utf8proc_uint8_t* result = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &result, static_cast<utf8proc_option_t>(options));
    if (size < 0) thunder::fail("a text cannot be normalised: " + std::string(utf8proc_errmsg(size)));
    normal.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(size));
    std::free(result);
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

void append_utf8(std::string& text, char32_t c) {
    const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xc0 | c >> 6);
        put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        put(0xe0 | c >> 12);
        put(0x80 | (c >> 6 & 0x3f));
        put(0x80 | (c & 0x3f));
    } else {
        put(0xf0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3f));
        put(0x80 | (c >> 6 & 0x3f));
        put(0x80 | (c & 0x3f));
    }
}

std::u32string code_points(std::string_view text) {
    std::u32string points;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint c = code_point_at(text, at);
        points.push_back(c.value);
        at += c.bytes;
    }
    return points;
}

std::size_t valid_utf8(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        if (static_cast<unsigned char>(text[at]) < 0x80) {
            ++at;
            continue;
        }
        const Beginning part = beginning_at(text, at);
        if (!part.whole) return at;
        at += part.bytes;
    }
    return at;
}

std::string replace_invalid_utf8(std::string_view text) {
    std::string valid;
    valid.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t good = valid_utf8(text.substr(at));
        valid.append(text, at, good);
        at += good;
        if (at == text.size()) break;
        valid += "\xef\xbf\xbd";
        at += beginning_at(text, at).bytes;
    }
    return valid;
}

bool is_whitespace(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_number(char32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    const auto category = category_of(c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t c) {
    const auto category = category_of(c);
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) {
    return category_of(c) == UTF8PROC_CATEGORY_MN;
}

bool is_punctuation(char32_t c) {
    if (c < 0x80)
        return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
    const auto category = category_of(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_other(char32_t c) {
    const auto category = category_of(c);
    return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

bool is_word(char32_t c) {
    if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const auto category = category_of(c);
    // Letter-like numbers and circled letters are alphabetic without being letters.
    const bool alphabetic = is_letter(c) || category == UTF8PROC_CATEGORY_NL || (c >= 0x24b6 && c <= 0x24e9) ||
                            (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
                            (c >= 0x1f170 && c <= 0x1f189);
    return alphabetic || is_mark(c) || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_PC ||
           c == 0x200c || c == 0x200d;
}

void append_lowercase(std::string& text, char32_t c) {
    if (c == 0x130) {  // the one whose lower case has two
        append_utf8(text, U'i');
        append_utf8(text, 0x307);
    } else {
        append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
}

std::string normal_form(std::string_view text, NormalForm form) {
    if (is_ascii(text)) return std::string(text);
    int options = UTF8PROC_STABLE;
    if (form == NormalForm::nfc || form == NormalForm::nfkc) options |= UTF8PROC_COMPOSE;
    if (form == NormalForm::nfd || form == NormalForm::nfkd) options |= UTF8PROC_DECOMPOSE;
    if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
    std::string normal;
    normal.reserve(text.size());
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const CodePoint c = code_point_at(text, at);
        if (is_younger(c.value)) {  // nothing is put together or in order across it
            append_normal_form(text.substr(begin, at - begin), options, normal);
            normal.append(text, at, c.bytes);
            begin = at + c.bytes;
        }
        at += c.bytes;
    }
    append_normal_form(text.substr(begin), options, normal);
    return normal;
}

std::size_t grapheme_end(std::string_view text, std::size_t from) {
    CodePoint c = code_point_at(text, from);
    utf8proc_int32_t state = 0;
    while (from + c.bytes < text.size()) {
        const CodePoint next = code_point_at(text, from + c.bytes);
        if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.value),
                                             static_cast<utf8proc_int32_t>(next.value), &state))
            break;
        from += c.bytes;
        c = next;
    }
    return from + c.bytes;
}

}  // namespace thunderc
