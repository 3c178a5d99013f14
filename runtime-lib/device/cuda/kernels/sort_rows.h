// SPDX-License-Identifier: Apache-2.0
// Rows in the order of their ids, for kernels that take the rows of one id together.
#pragma once

#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

// Sorts rows by id, rows of one id in their order: the place of row i is the number of rows that come before it, which
// each thread counts while the ids pass by in shared memory. rows^2 comparisons, a few microseconds for some thousand
// rows.
template <typename Id>
THUNDER_FUNCTION void sort_rows(Global<std::int32_t> order, Global<std::int32_t> sorted, Global<const Id> ids,
                                std::int64_t rows) {
    THUNDER_SHARED(std::int32_t, tile, 256);
    const std::int64_t i = global_index<256>();
    const std::int32_t mine = i < rows ? static_cast<std::int32_t>(ids[i]) : 0;
    std::int32_t place = 0;
    for (std::int64_t begin = 0; begin < rows; begin += 256) {
        const std::int64_t other = begin + thread_index();
        tile[thread_index()] = other < rows ? static_cast<std::int32_t>(ids[other]) : 0x7fffffff;
        barrier();
        const int end = rows - begin < 256 ? static_cast<int>(rows - begin) : 256;
        for (int k = 0; k < end; ++k) {
            const std::int32_t id = tile[k];
            place += id < mine || (id == mine && begin + k < i) ? 1 : 0;
        }
        barrier();
    }
    if (i >= rows) return;
    order[place] = static_cast<std::int32_t>(i);
    sorted[place] = mine;
}

}  // namespace thunder::bundled
