// SPDX-License-Identifier: Apache-2.0
// Einsum, taken apart into views, sums and batched products.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/builder.h"

namespace thunderc {

// "bij,bjk->bik", with ellipses and diagonals as numpy and PyTorch have them. Throws UserError where the equation is
// none, or does not fit the operands.
Value einsum(Builder& b, const std::string& equation, const std::vector<Value>& operands);

}  // namespace thunderc
