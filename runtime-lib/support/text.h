// Text for messages, without streams.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace thunder {

// One piece of a message as text. Floating point numbers get the digits that tell them from their neighbours, no more.
inline std::string piece(std::string_view text) {
    return std::string(text);
}
inline std::string piece(char c) {
    return std::string(1, c);
}
template <std::integral T>
std::string piece(T number) {
    return std::to_string(number);
}
std::string piece(double number);
std::string piece(float number);

// cat("step ", 3, " of ", 10)
template <typename... Pieces>
std::string cat(const Pieces&... pieces) {
    std::string text;
    ((text += piece(pieces)), ...);
    return text;
}

// A number as printf writes it: digits("%.2f", 1.5).
std::string digits(const char* format, double number);

// "[2, 32]"
std::string shape_text(std::span<const std::int64_t> shape);

// "1 step", "2 steps"
std::string count_text(std::uint64_t count, std::string_view noun);

// "12.3 MB", in powers of 1000.
std::string bytes_text(std::uint64_t bytes);

// At most `limit` of them, joined by commas: "a, b, c and 17 more".
std::string list_text(std::span<const std::string> names, std::size_t limit = 8);

// The candidate that `word` was probably meant to be, or "": for "did you mean".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace thunder
