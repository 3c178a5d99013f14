// SPDX-License-Identifier: Apache-2.0
// Where the operands and results of the ops of FP8 stand.
//
//   fp8_quantise(scale, amax, x, x1, …) {dtype, copies}     results: amax after, 1 / scale, then the copies
//   fp8_requantise(scale, x, x1, …) {dtype, copies}         the same by a scale as it stands: no amax is noted
//   fp8_quantise_current(x, x1, …) {dtype, copies}          results: scale, 1 / scale, then the copies
//   fp8_quantise_blocks(x, x1, …) {dtype, copies, blocks}   results: scales and codes of each copy
//   fp8_linear(a, b, inverse a, inverse b, residual?, bias?, bias1?, …) {dtype, blocks_a?, blocks_b?}
//   fp8_linear_backward_weight(a, b, inverse a, inverse b, before…, first?)      the same
//   fp8_reduce_amaxes(amaxes…), fp8_update_scales(scales…, amaxes…, histories…)      of equal length
//
// x, x1, … are one tensor of several weights that lie side by side. Copies: the codes of x as it lies, and transposed,
// of which `copies` has both, or the one that is read ("plain", "transposed"). Factors whose blocks have scales of
// their own say which (`blocks_a`, `blocks_b`); those scales stand where the inverse one stands.
#pragma once

#include <cstddef>
#include <string>

#include "compiler/ir/module.h"

namespace thunderc {

// Operands: the first one that is quantised.
inline constexpr std::size_t quantised_from = 2, requantised_from = 1, current_from = 0;
inline constexpr std::size_t fp8_residual = 4, fp8_bias = 5, fp8_before = 4;
std::size_t fp8_first_of_x(const Op& quantise);

}  // namespace thunderc
