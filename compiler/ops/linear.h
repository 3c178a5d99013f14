// SPDX-License-Identifier: Apache-2.0
// Where the operands of the linear family stand. One op may hold several products of one input (the queries, keys and
// values of attention, gate and up of an MLP): the first weight and bias stand where a single product has them, further
// ones at the end.
//
//   linear(x, w, bias?, residual?, w1, bias1?, w2, bias2?, …)      y: the products side by side in the last dimension
//   linear_backward_input(dy, w, residual?, w1, w2, …)
//   linear_backward_weight(dy, x, before…, first?)                 results: dw, dw1, …, then dbias, dbias1, …
//
// The gradients before stand in the order of the results and are added to; with `first` (bool[]) they are overwritten
// where that holds. A result lies where its gradient before lies: the call has no field for the latter.
//
// The runtime API sees several products as one over weights that lie side by side: `adjacent_values` says what has to.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/module.h"

namespace thunderc {

inline constexpr std::size_t linear_residual = 3;
std::size_t linear_products(std::size_t operand_count);
inline std::size_t linear_weight(std::size_t product) {
    return product == 0 ? 1 : 2 + 2 * product;
}
inline std::size_t linear_bias(std::size_t product) {
    return product == 0 ? 2 : 3 + 2 * product;
}

inline constexpr std::size_t backward_input_residual = 2;
std::size_t backward_input_products(std::size_t operand_count);
inline std::size_t backward_input_weight(std::size_t product) {
    return product == 0 ? 1 : 2 + product;
}

inline constexpr std::size_t backward_weight_before = 2;  // of result 0; result r has 2 + r

// Groups of values that the planner places side by side, in order and without a gap: weights, biases, their gradients.
// Empty for ops of one product, and of any other name. Ops that have such groups carry the attribute adjacent_weights =
// true.
std::vector<std::vector<Value>> adjacent_values(const Op& op);

}  // namespace thunderc
