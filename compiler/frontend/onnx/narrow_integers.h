// SPDX-License-Identifier: Apache-2.0
// Integers of fewer bits than any type of ours has: held in i32 or i64, and wrapped around where ONNX's would be.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>

#include "compiler/ir/builder.h"

namespace thunderc::onnx_frontend {

// The type itself where it is INT8, UINT8, INT16, UINT16 or UINT32, else 0.
std::int32_t narrow_type(std::int32_t data_type);
// Bits of ONNX's type: of the narrow one, or where that is 0 of the one of ours that it is held in.
int bits_of(std::int32_t narrow, DType dtype);
// `v`, integers of any size, as the type's arithmetic would have left them.
Value wrapped(Builder& b, Value v, std::int32_t narrow);
// Of integers that are fed: how many numbers from 0 on the type has; -1 where it has negative ones.
std::int64_t narrow_entries(std::int32_t narrow);

}  // namespace thunderc::onnx_frontend
