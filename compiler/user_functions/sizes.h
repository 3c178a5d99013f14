// SPDX-License-Identifier: Apache-2.0
// Sizes by letters, as functions that users bring are declared with: "f32[..., C]", "f32[B, 2*C]".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/type.h"

namespace thunderc {

// What the letters stand for in one call.
struct Sizes {
    std::map<std::string, std::int64_t, std::less<>> letters;
    std::optional<Dims> leading;  // what "..." stands for

    std::int64_t rows() const { return leading ? element_count(*leading) : 1; }
};

// A type whose dimensions are letters, numbers, or made of both by + - * / and parentheses; "..." in front stands for
// any number of dimensions, the same wherever it is written.
struct SizedType {
    DType dtype = DType::f32;
    bool leading = false;
    std::vector<std::string> dims;
};

// Throws UserError, which says of what it is the type.
SizedType parse_sized_type(std::string_view text, const std::string& what);

// The value of one dimension; nullopt where a letter is not known or a division leaves a rest.
std::optional<std::int64_t> evaluate_size(std::string_view text, const Sizes& sizes);
// The letters in it, in order; throws UserError where it is not one.
std::vector<std::string> letters_of(std::string_view size, const std::string& what);
bool is_letter(std::string_view size);  // a letter alone, as "C" or "heads": what an argument's dimension gives a value

// Gives letters and "..." the values that they have in `actual`. False where the two do not fit; sizes that are made of
// letters are not looked at (see type_of).
bool bind_sizes(const SizedType& type, const Type& actual, Sizes& sizes);
// nullopt where a letter is not known.
std::optional<Type> type_of(const SizedType& type, const Sizes& sizes);

// Text IR in which letters stand within brackets, "f32[..., C]", with numbers in their place.
std::string with_sizes(std::string_view text, const Sizes& sizes);

std::string to_string(const SizedType& type);  // "f32[..., C]"

}  // namespace thunderc
