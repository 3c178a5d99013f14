// SPDX-License-Identifier: Apache-2.0
#include "compiler/user_functions/sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <charconv>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

bool begins_word(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool in_word(char c) {
    return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
    return text;
}

std::vector<std::string_view> parts_of(std::string_view list) {
    std::vector<std::string_view> parts;
    if (trimmed(list).empty()) return parts;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t comma = std::min(list.find(',', begin), list.size());
        parts.push_back(trimmed(list.substr(begin, comma - begin)));
        begin = comma + 1;
    }
    return parts;
}

// Sums of products of numbers, letters and parentheses.
class SizeReader {
  public:
    SizeReader(std::string_view text, const Sizes* sizes) : text_(text), sizes_(sizes) {}

    // What it is; none where a letter has no value.
    std::optional<std::int64_t> read() {
        const std::optional<std::int64_t> value = sum();
        skip();
        if (at_ != text_.size()) valid_ = false;
        return valid_ ? value : std::nullopt;
    }
    bool valid() const { return valid_; }
    const std::vector<std::string>& letters() const { return letters_; }

  private:
    void skip() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    }

    bool accept(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    std::optional<std::int64_t> sum() {
        std::optional<std::int64_t> value = product();
        while (valid_) {
            const bool plus = accept('+');
            if (!plus && !accept('-')) break;
            const std::optional<std::int64_t> other = product();
            std::int64_t result = 0;
            if (!value || !other ||
                (plus ? __builtin_add_overflow(*value, *other, &result)
                      : __builtin_sub_overflow(*value, *other, &result)))
                value = std::nullopt;
            else
                value = result;
        }
        return value;
    }

    std::optional<std::int64_t> product() {
        std::optional<std::int64_t> value = factor();
        while (valid_) {
            const bool times = accept('*');
            if (!times && !accept('/')) break;
            const std::optional<std::int64_t> other = factor();
            std::int64_t result = 0;
            if (!value || !other || (times && __builtin_mul_overflow(*value, *other, &result)) ||
                (!times && (*other == 0 || *value % *other != 0)))
                value = std::nullopt;
            else
                value = times ? result : *value / *other;
        }
        return value;
    }

    std::optional<std::int64_t> factor() {
        skip();
        if (accept('(')) {
            const std::optional<std::int64_t> value = sum();
            if (!accept(')')) valid_ = false;
            return value;
        }
        if (at_ < text_.size() && begins_word(text_[at_])) {
            const std::size_t begin = at_;
            while (at_ < text_.size() && in_word(text_[at_])) ++at_;
            letters_.emplace_back(text_.substr(begin, at_ - begin));
            if (sizes_ == nullptr) return std::nullopt;
            const auto known = sizes_->letters.find(letters_.back());
            return known == sizes_->letters.end() ? std::nullopt : std::optional(known->second);
        }
        std::int64_t number = 0;
        const char* begin = text_.data() + at_;
        const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), number);
        if (error != std::errc() || stop == begin) {
            valid_ = false;
            return std::nullopt;
        }
        at_ += static_cast<std::size_t>(stop - begin);
        return number;
    }

    std::string_view text_;
    const Sizes* sizes_;
    std::size_t at_ = 0;
    bool valid_ = true;
    std::vector<std::string> letters_;
};

constexpr const char* types_help =
    "a type is written \"f32[..., C]\": f32, i64, i32 or bool, and in brackets its dimensions, which are letters, "
    "numbers or made of them (2*C); \"...\" in front stands for any number of dimensions";

}  // namespace

SizedType parse_sized_type(std::string_view text, const std::string& what) {
    const std::size_t open = std::min(text.find('['), text.size());
    SizedType out;
    const std::optional<DType> dtype = parse_dtype(trimmed(text.substr(0, open)));
    if (!dtype || *dtype == DType::u8 || is_code(*dtype))
        fail(fmt::format("{}: {} is no type", what, text), types_help);
    if (*dtype == DType::f64 || is_narrow(*dtype))
        fail(fmt::format("{}: functions that users bring take and give no {}", what, name_of(*dtype)),
             "write f32: where a program computes in a narrow type, thunderc converts what such a function is given");
    out.dtype = *dtype;
    if (open == text.size()) return out;
    const std::size_t close = text.rfind(']');
    if (close == std::string_view::npos || close < open || !trimmed(text.substr(close + 1)).empty())
        fail(fmt::format("{}: {} has no bracket at its end", what, text), types_help);
    bool first = true;
    for (const std::string_view part : parts_of(text.substr(open + 1, close - open - 1))) {
        if (first && part == "...") {
            out.leading = true;
        } else {
            letters_of(part, fmt::format("{}: {}", what, text));  // which refuses what is no size
            out.dims.emplace_back(part);
        }
        first = false;
    }
    return out;
}

std::optional<std::int64_t> evaluate_size(std::string_view text, const Sizes& sizes) {
    return SizeReader(text, &sizes).read();
}

std::vector<std::string> letters_of(std::string_view size, const std::string& what) {
    SizeReader reader(size, nullptr);
    reader.read();
    if (!reader.valid()) fail(fmt::format("{}: \"{}\" is no size", what, size), types_help);
    return reader.letters();
}

bool is_letter(std::string_view size) {
    if (size.empty() || !begins_word(size.front())) return false;
    for (const char c : size)
        if (!in_word(c)) return false;
    return true;
}

bool bind_sizes(const SizedType& type, const Type& actual, Sizes& sizes) {
    if (!actual.is_tensor() || actual.dims.size() < type.dims.size()) return false;
    const std::size_t leading = actual.dims.size() - type.dims.size();
    if (!type.leading && leading > 0) return false;
    if (type.leading) {
        const Dims dims(actual.dims.begin(), actual.dims.begin() + static_cast<std::ptrdiff_t>(leading));
        if (sizes.leading && *sizes.leading != dims) return false;
        sizes.leading = dims;
    }
    for (std::size_t d = 0; d < type.dims.size(); ++d) {
        if (!is_letter(type.dims[d])) continue;
        const auto [at, fresh] = sizes.letters.emplace(type.dims[d], actual.dims[leading + d]);
        if (!fresh && at->second != actual.dims[leading + d]) return false;
    }
    return true;
}

std::optional<Type> type_of(const SizedType& type, const Sizes& sizes) {
    Dims dims;
    if (type.leading) {
        if (!sizes.leading) return std::nullopt;
        dims = *sizes.leading;
    }
    for (const std::string& size : type.dims) {
        const std::optional<std::int64_t> value = evaluate_size(size, sizes);
        if (!value || *value < 0) return std::nullopt;
        dims.push_back(*value);
    }
    return Type::tensor(type.dtype, std::move(dims));
}

std::string with_sizes(std::string_view text, const Sizes& sizes) {
    std::string out;
    while (!text.empty()) {
        const std::size_t open = std::min(text.find('['), text.size());
        // Brackets of a comment are none of sizes.
        if (const std::size_t comment = text.find("//"); comment < open) {
            const std::size_t end = std::min(text.find('\n', comment), text.size());
            out += text.substr(0, end);
            text.remove_prefix(end);
            continue;
        }
        out += text.substr(0, std::min(open + 1, text.size()));
        text.remove_prefix(std::min(open + 1, text.size()));
        if (text.empty()) break;
        const std::size_t close = std::min(text.find(']'), text.size());
        std::string list;
        for (const std::string_view part : parts_of(text.substr(0, close))) {
            std::string piece(part);
            if (part == "..." && sizes.leading)
                piece = to_string(*sizes.leading);
            else if (const std::optional<std::int64_t> value = evaluate_size(part, sizes))
                piece = std::to_string(*value);
            if (piece.empty()) continue;  // no leading dimension
            list += (list.empty() ? "" : ",") + piece;
        }
        out += list;
        text.remove_prefix(close);
    }
    return out;
}

std::string to_string(const SizedType& type) {
    std::vector<std::string> dims = type.dims;
    if (type.leading) dims.insert(dims.begin(), "...");
    return fmt::format("{}[{}]", name_of(type.dtype), fmt::join(dims, ", "));
}

}  // namespace thunderc
