// SPDX-License-Identifier: Apache-2.0
// What values are called where nobody named them: after their op, mul, or by the noun of its result, product, which
// stands in `result_names` of the op's definition.
#pragma once

#include <string>
#include <string_view>

namespace thunderc {

// "product" of "mul", "dproduct" of "dmul", the cotangent of such a value; any other name as it is.
std::string noun_of_result(const std::string& name);

// Whether the name says no more than which op gave the value, or of which op's result it is the cotangent: "mul",
// "product", "dproduct", or a number; but not "normed", which somebody called it.
bool is_named_after_op(const std::string& name);

// "total" of "total_2": of several that are called alike.
std::string_view without_number(std::string_view name);

}  // namespace thunderc
