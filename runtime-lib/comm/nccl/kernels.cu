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
    const auto take = [&](auto* kernel, auto* from) {
        launch("take_columns", kernel, blocks, 256, stream, y, from, rows, columns, ld);
    };
    if (x.dtype == DType::f32) return take(bundled::bundled_take_columns_f32, static_cast<const float*>(x.data));
#define THUNDER_TAKE_COLUMNS(T) \
    if (x.dtype == DType::T) return take(bundled::bundled_take_columns_##T, static_cast<const T*>(x.data));
    THUNDER_NARROW_TYPES(THUNDER_TAKE_COLUMNS)
#undef THUNDER_TAKE_COLUMNS
}

}  // namespace thunder
