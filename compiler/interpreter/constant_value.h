// SPDX-License-Identifier: Apache-2.0
// The elements of lazy constants. Dense only where somebody asks for all of them.
#pragma once

#include <span>

#include "compiler/ir/constant.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// All elements. A mask of T x T predicates becomes T x T elements here: for small constants, or on request.
Tensor materialize(const ConstExpr& expr);

// One element; integers are exact up to 2^53.
double element(const ConstExpr& expr, std::span<const std::int64_t> index);

}  // namespace thunderc
