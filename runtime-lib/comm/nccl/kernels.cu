// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/kernels.cuh"
#include "comm/nccl/kernels.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/launch.h"

namespace thunder {

void milestone(std::uint64_t* word, std::uint16_t which, Stream& stream) {
    launch("milestone", bundled::bundled_milestone, 1, 32, stream, word, which);
}

void take_columns(float* y, const Input& x, std::int64_t rows, std::int64_t columns, std::int64_t ld, Stream& stream) {
    const std::int64_t blocks = (rows * columns + 255) / 256;
    if (x.dtype == DType::bf16) {
        launch("take_columns", bundled::bundled_take_columns_bf16, blocks, 256, stream, y,
               static_cast<const bf16*>(x.data), rows, columns, ld);
    } else {
        launch("take_columns", bundled::bundled_take_columns_f32, blocks, 256, stream, y,
               static_cast<const float*>(x.data), rows, columns, ld);
    }
}

}  // namespace thunder
