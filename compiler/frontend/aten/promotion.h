// SPDX-License-Identifier: Apache-2.0
// The type that two operands are computed in, where the result does not say it: of comparisons.
#pragma once

#include <string_view>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {

// PyTorch's rule: the kind of number that is more (boolean, integer, floating point) decides, then who has dimensions,
// then the larger type; numbers that are no tensors raise the kind alone.
// https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
DType promoted(Node& n, std::string_view first, std::string_view second);

}  // namespace thunderc::aten
