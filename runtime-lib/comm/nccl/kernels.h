// SPDX-License-Identifier: Apache-2.0
// The kernels that ranks need beside NCCL's.
#pragma once

#include <cstdint>

#include "device/api.h"

namespace thunder {

// The stream has come so far: *word, which is in memory that the host reads, counts what it passed in its upper 48 bits
// and says which one was the last in the lower 16. So it is known of a graph, too, which is replayed without the host.
void milestone(std::uint64_t* word, std::uint16_t which, Stream& stream);

// y[r][j] = x[r * ld + j] in f32, for x of f32 or narrow: some columns of each rank's part of a unit, side by side.
void take_columns(float* y, const Input& x, std::int64_t rows, std::int64_t columns, std::int64_t ld, Stream& stream);

}  // namespace thunder
