// SPDX-License-Identifier: Apache-2.0
// PyTorch's types of elements, and what becomes of them here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "compiler/frontend/pt2/program.h"
#include "compiler/ir/dtype.h"

namespace thunderc::pt2_frontend {

// f16, bf16 and f64 are computed in f32, small integers widened. nullopt: no type of ours (complex numbers).
std::optional<DType> dtype_of(ScalarType type);
std::optional<DType> stored_float(ScalarType type);  // what the file holds, of floating point
std::size_t stored_size(ScalarType type);            // bytes of an element, where dtype_of knows the type
std::string name_of(ScalarType type);                // torch's own: "torch.float16"
// Of integers that are wider here than in the model: sums and products would not wrap around as they do there.
bool is_widened(ScalarType type);

}  // namespace thunderc::pt2_frontend
