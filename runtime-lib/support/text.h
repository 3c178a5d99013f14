// SPDX-License-Identifier: Apache-2.0
// Text for messages, without streams.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace thunder {

// One piece of a message. Floating point numbers get the digits that tell them from their neighbours, no more.
// It has no destructor, and numbers are written elsewhere: what makes messages is compiled in every program, often.
class TextPiece {
  public:
    TextPiece(const char* text) : TextPiece(std::string_view(text)) {}
    TextPiece(const std::string& text) : TextPiece(std::string_view(text)) {}
    TextPiece(std::string_view text) : begin_(text.data()), size_(text.size()) {}
    TextPiece(char c) : begin_(own_), size_(1) { own_[0] = c; }
    TextPiece(double number);
    TextPiece(float number);
    template <std::integral T>
    TextPiece(T number) : begin_(own_) {
        if constexpr (std::is_signed_v<T>) {
            write(static_cast<std::int64_t>(number));
        } else {
            write(static_cast<std::uint64_t>(number));
        }
    }
    TextPiece(const TextPiece&) = delete;  // it may point into itself
    TextPiece& operator=(const TextPiece&) = delete;

    std::string_view text() const { return {begin_, size_}; }

  private:
    void write(std::int64_t number);
    void write(std::uint64_t number);

    const char* begin_;
    std::size_t size_ = 0;
    char own_[32];
};

std::string join(std::initializer_list<TextPiece> pieces);

// cat("step ", 3, " of ", 10)
template <typename... Pieces>
std::string cat(const Pieces&... pieces) {
    return join({TextPiece(pieces)...});
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
