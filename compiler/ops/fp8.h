// SPDX-License-Identifier: Apache-2.0
// Where the operands and results of the ops of FP8 stand.
//
//   fp8_quantise(scale, amax, x, x1, …) {dtype, copies}     results: amax after, 1 / scale, then the copies
//   fp8_requantise(scale, x, x1, …) {dtype, copies}         the same by a scale as it stands: no amax is noted
//   fp8_quantise_current(x, x1, …) {dtype, copies}          results: scale, 1 / scale, then the copies
//   fp8_quantise_blocks(x, x1, …) {dtype, copies, blocks}   results: scales and codes of each copy
//   …_once                                                the last three once a step: fp8_once.h
//   fp8_linear(a, b, inverse a, inverse b, residual?, bias?, bias1?, …) {dtype, blocks_a?, blocks_b?}
//   fp8_linear_backward_weight(a, b, inverse a, inverse b, before…, first?)      the same
//   fp8_reduce_amaxes(amaxes…), fp8_update_scales(scales…, amaxes…, histories…)      of equal length
//
// x, x1, … are one tensor of several weights that lie side by side. Copies: the codes of x as it lies, and transposed,
// of which `copies` has both, or the one that is read ("plain", "transposed"). Factors whose blocks have scales of
// their own say which (`blocks_a`, `blocks_b`); those scales stand where the inverse one stands.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// Operands: the first one that is quantised.
inline constexpr std::size_t quantised_from = 2, requantised_from = 1, current_from = 0;
inline constexpr std::size_t fp8_residual = 4, fp8_bias = 5, fp8_before = 4;
// Of an op that quantises, the operands that it does that with: from the first one up to that before the second.
std::pair<std::size_t, std::size_t> fp8_range_of_x(const Op& quantise);

// What an op gave that quantises, its codes with all digits: x over the inverse scale, its own or its block's, that the
// op has given beside them. For whoever asks what is lost by them.
std::vector<std::vector<Tensor>> fp8_in_double(const Op& quantise, std::span<const std::vector<Tensor>> operands,
                                               std::span<const std::vector<Tensor>> results);

}  // namespace thunderc
