// SPDX-License-Identifier: Apache-2.0
// What values are called where nobody named them: after their op, mul, or by the noun of its result, product, which
// stands in `result_names` of the op's definition.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/module.h"

namespace thunderc {

// A name that says which op gave the value, or of which op's result it is the cotangent or what that is made of: "mul",
// "product_2", "dproduct", "dmul_2_part".
struct NameOfOp {
    bool cotangent = false;
    std::string op;           // or the noun
    std::int64_t number = 0;  // of the value, or of that which it is the cotangent of; 0: it has none
    std::string role = {};    // "_part", "_terms_2": see compiler/passes/autodiff/cotangents.h

    std::string noun() const;  // "product" of "mul"; of a composite its name
    std::string text() const;  // with the noun
};
// None where it is another name.
std::optional<NameOfOp> name_of_op(const std::string& name);

// "product_2" of "mul_2", "dproduct" of "dmul", the cotangent of such a value; any other name as it is.
std::string noun_of_result(const std::string& name);

// Whether the name says no more than which op gave the value, or of what it is the cotangent, or a part of that: "mul",
// "product_2", "dproduct", "dgate_part", or a number; but not "normed" and "dgate", which somebody called it.
bool is_named_after_op(const std::string& name);

// "total" of "total_2": of several that are called alike.
std::string_view without_number(std::string_view name);

// "basins" of "basins.1": a module path without the numbers, or patterns of them, that it ends in.
std::string without_index(std::string scope);
// A name made of words: "basins_0" of "basins.0".
std::string snake_words(std::string_view text);

// Primitives' results that are called alike in several modules get the module's name in front, "basins_0_sine" and
// "basins_1_sine": numbers would only tell them apart. Those of no module keep their name, and so do those of ops
// before the `first`.
void name_after_modules(Function& function, std::size_t first = 0);

// Values that are called alike get numbers, x, x_2, x_3, in the order of definition, behind those of `first`, which
// nothing defines. All of a tensor, seen with other dimensions, keeps its name.
void number_names(Function& function, std::span<const Value> first = {});
// The same for names of primitives alone, and values that are `later` have numbers behind all others.
void number_names_of_ops(Function& function, const std::function<bool(Value)>& later);

}  // namespace thunderc
