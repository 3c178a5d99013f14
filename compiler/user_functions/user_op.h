// SPDX-License-Identifier: Apache-2.0
// What a function that a user brings is as an op: shape rule, gradient, the call in the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc {

OpDef forward_op(const UserFunction& function);
OpDef backward_op(const UserFunction& function);

std::vector<std::string> names_of(const std::vector<UserTensor>& tensors);
// What a backward function may read.
std::vector<std::string> readable_names(const UserFunction& function);

// What the struct of the call has: results, operands, sizes, attributes. Values of sizes and attributes are not known
// yet.
std::vector<CallField> forward_fields(const UserFunction& function);
std::vector<CallField> backward_fields(const UserFunction& function);
bool may_be_left_out(const UserFunction& function, std::string_view member);  // a size

// Those of the file, and small ones that differ for what it does not name.
Sizes sizes_for_check(const UserFunction& function);

}  // namespace thunderc
