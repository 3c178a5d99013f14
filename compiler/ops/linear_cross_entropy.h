// SPDX-License-Identifier: Apache-2.0
// Where the operands and results of the head with its cross entropy stand; compiler/ops/linear_cross_entropy.cpp says
// what they are.
#pragma once

#include <cstddef>

namespace thunderc::linear_cross_entropy {

inline constexpr const char* losses_op = "linear_cross_entropy";
inline constexpr const char* gradients_op = "linear_cross_entropy_gradients";

// Operands behind x, weight and labels: of gradients the last two. What is before has the order of what it is added to.
inline constexpr std::size_t bias = 3, dloss = 4, before = 5;
// Results behind losses, logits and lse, of gradients; a bias's gradient stands behind the weight's.
inline constexpr std::size_t dx = 3, dweight = 4;

}  // namespace thunderc::linear_cross_entropy
