// SPDX-License-Identifier: Apache-2.0
// raise_linear: products with a parameter become `linear`, whose weight is (out, in).
//
//     %wt = transpose(%w) {permutation = [1, 0]}       %w: f32[out,in], a parameter
//     %y = matmul(%x, %wt)                        ==>  %z = linear(%x, %w, %bias)
//     %z = add(%y, %bias)
//
// A weight that is stored (in, out) is transposed by an op of its own. Reshapes that only fold the leading dimensions
// of x into rows are left out, so that a linear layer keeps the batch and the positions apart.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_linear(Module module, Report& report);

}  // namespace thunderc
