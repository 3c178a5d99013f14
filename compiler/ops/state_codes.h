// SPDX-License-Identifier: Apache-2.0
// States of optimizers that are codes of 8 bits beside a scale for each block: what runtime-lib/optim/rules/codes.h
// says of them, in double for the references of ops, and as ops for what these decompose into.
#pragma once

#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/tensor.h"

namespace thunderc::coding {

// The numbers that codes stand for, by code; `signs`: some of them are negative.
const std::vector<double>& numbers_of_codes(bool signs);

// ---- in double: by a search of all numbers for the nearest ----

std::vector<double> decoded(const Tensor& codes, const Tensor& scales, bool signs);
void encode(Tensor& codes, Tensor& scales, const std::vector<double>& numbers, bool signs);

// ---- as ops ----

// f32 of the codes' dims.
Value decoded(Builder& b, Value codes, Value scales, bool signs);
// Codes and scales of an f32.
std::pair<Value, Value> encoded(Builder& b, Value numbers, bool signs);

}  // namespace thunderc::coding
