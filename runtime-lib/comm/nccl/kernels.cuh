// SPDX-License-Identifier: Apache-2.0
// Kernels of comm/nccl/kernels.h.
#pragma once

#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

THUNDER_KERNEL(32) bundled_milestone(Global<std::uint64_t> word, std::uint64_t which) {
    wait_for_previous_kernel();
    if (thread_index() != 0) return;
    word[0] = ((word[0] >> 16U) + 1) << 16U | which;  // one store: nobody reads a half of it
}

template <typename T>
THUNDER_FUNCTION void take_columns(Global<float> y, Global<const T> x, std::int64_t rows, std::int64_t columns,
                                   std::int64_t ld) {
    const std::int64_t i = global_index<256>();
    if (i >= rows * columns) return;
    y[i] = wide(x[i / columns * ld + i % columns]);
}
#define BUNDLED_TAKE_COLUMNS_OF(name, T)                                                                     \
    THUNDER_KERNEL(256)                                                                                      \
    bundled_take_columns_##name(Global<float> y, Global<const T> x, std::int64_t rows, std::int64_t columns, \
                                std::int64_t ld) {                                                           \
        wait_for_previous_kernel();                                                                          \
        take_columns(y, x, rows, columns, ld);                                                               \
    }
#define BUNDLED_TAKE_COLUMNS(T) BUNDLED_TAKE_COLUMNS_OF(T, T)
BUNDLED_TAKE_COLUMNS_OF(f32, float)
THUNDER_NARROW_TYPES(BUNDLED_TAKE_COLUMNS)
#undef BUNDLED_TAKE_COLUMNS
#undef BUNDLED_TAKE_COLUMNS_OF

}  // namespace thunder::bundled
