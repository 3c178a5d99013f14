// SPDX-License-Identifier: Apache-2.0
// PyTorch's rules for the types that operators compute in and give.
#pragma once

#include <span>
#include <string_view>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {

// Of several operands: the kind of number that is more (boolean, integer, floating point) decides, then who has
// dimensions, then the larger type; numbers that are no tensors raise the kind alone. Operands that are absent say
// nothing. https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
DType promoted(Node& n, std::initializer_list<std::string_view> operands);
DType promoted(Node& n, std::span<const Value> operands);

// Of functions whose results are fractions: integers are computed in f32.
DType fractional(DType dtype);
// What the argument "dtype" says; else `otherwise`.
DType dtype_or(Node& n, DType otherwise);
// Of sums and products of elements: integers and booleans are added up as i64, where "dtype" says nothing else.
DType accumulated(Node& n, std::string_view operand);

}  // namespace thunderc::aten
