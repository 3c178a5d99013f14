// SPDX-License-Identifier: Apache-2.0
#include "support/text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <vector>

namespace thunder {

namespace {

// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before = last;
        last = row;
    }
    return last[b.size()];
}

}  // namespace

TextPiece::TextPiece(double number) : begin_(own_) {
    size_ = static_cast<std::size_t>(std::to_chars(own_, own_ + sizeof own_, number).ptr - own_);
}
TextPiece::TextPiece(float number) : begin_(own_) {
    size_ = static_cast<std::size_t>(std::to_chars(own_, own_ + sizeof own_, number).ptr - own_);
}
void TextPiece::write(std::int64_t number) {
    size_ = static_cast<std::size_t>(std::to_chars(own_, own_ + sizeof own_, number).ptr - own_);
}
void TextPiece::write(std::uint64_t number) {
    size_ = static_cast<std::size_t>(std::to_chars(own_, own_ + sizeof own_, number).ptr - own_);
}

std::string join(std::initializer_list<TextPiece> pieces) {
    std::size_t size = 0;
    for (const TextPiece& piece : pieces) size += piece.text().size();
    std::string text;
    text.reserve(size);
    for (const TextPiece& piece : pieces) text += piece.text();
    return text;
}

std::string digits(const char* format, double number) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, format, number);
    return buffer;
}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return text + "]";
}

std::string count_text(std::uint64_t count, std::string_view noun) {
    return cat(count, " ", noun, count == 1 ? "" : "s");
}

std::string bytes_text(std::uint64_t bytes) {
    if (bytes < 1000) return count_text(bytes, "byte");
    const char* const units[] = {"kB", "MB", "GB", "TB"};
    double amount = static_cast<double>(bytes) / 1000;
    std::size_t unit = 0;
    for (; amount >= 999.95 && unit < 3; ++unit) amount /= 1000;
    return cat(digits("%.1f", amount), " ", units[unit]);
}

std::string list_text(std::span<const std::string> names, std::size_t limit) {
    std::string text;
    const std::size_t shown = names.size() > limit + 1 ? limit : names.size();
    for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
    if (shown < names.size()) text += cat(" and ", names.size() - shown, " more");
    return text;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
    std::string best;
    // Farther off is another word, not a slip.
    std::size_t best_distance = std::max<std::size_t>(1, (word.size() + 1) / 3) + 1;
    for (const std::string& candidate : candidates) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace thunder
