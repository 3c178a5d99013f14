// SPDX-License-Identifier: Apache-2.0
// Loops of generated kernels over the threads of a CPU.
//
// What a loop computes never depends on the number of threads: sums over rows go through partials of fixed blocks of
// rows that are added in order, so that the bits are the same on one thread and on sixty-four.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "device/stream.h"
#include "device/team.h"

namespace thunder {

// Calls body(begin, end) over [0, n), in contiguous ranges whose ends are multiples of `grain`, on the threads of the
// team (device/team.h). `grain` is the work that is worth a thread's while; a loop of no more than that runs on the
// calling thread alone.
template <typename Body>
inline void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
    if (n <= 0) return;
    grain = std::max<std::int64_t>(grain, 1);
    if (detail::grain_divisor > 1) [[unlikely]]
        grain = divided_grain(n, grain);
    const std::int64_t units = (n + grain - 1) / grain, pieces = pieces_of(units);
    if (pieces == 1) return body(std::int64_t{0}, n);
    share_pieces(pieces, [&](std::int64_t piece, int) {
        body(units * piece / pieces * grain, std::min(n, units * (piece + 1) / pieces * grain));
    });
}

// The same over rows of `width` elements each: the grain follows from the work in a row, some 16 Ki elements a thread.
template <typename Body>
inline void parallel_rows(std::int64_t rows, std::int64_t width, Body&& body) {
    parallel_for(rows, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width)), body);
}

// Rows that one partial of a column reduction covers: follows from the number of rows alone. At most 64 partials.
constexpr std::int64_t partial_rows(std::int64_t rows) {
    const std::int64_t block = (rows + 63) / 64;
    return block < 16 ? 16 : block;
}
constexpr std::int64_t partial_count(std::int64_t rows) {
    return (rows + partial_rows(rows) - 1) / partial_rows(rows);
}

// Sums of `width` columns over `rows` rows. body(begin, end, partial) adds the rows [begin, end) to partial[0, width),
// which is zero before. finish(column, sum) takes each sum once; it may run on any thread.
template <typename Body, typename Finish>
inline void column_reduction(std::int64_t rows, std::int64_t width, Stream& stream, Body&& body, Finish&& finish) {
    const std::int64_t block = partial_rows(rows), blocks = partial_count(rows);
    auto* partials = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(std::max<std::int64_t>(blocks, 1) * width) * sizeof(float)));
    parallel_for(blocks, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width * block)),
                 [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t b = first; b < last; ++b) {
                         float* partial = partials + b * width;
                         std::memset(partial, 0, static_cast<std::size_t>(width) * sizeof(float));
                         body(b * block, std::min(rows, (b + 1) * block), partial);
                     }
                 });
    // Chunks of columns stay in registers and L1 while the partials pass by, row after row.
    constexpr std::int64_t chunk = 256;
    parallel_for(width, std::max<std::int64_t>(chunk, 16384 / std::max<std::int64_t>(blocks, 1)),
                 [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t c0 = first; c0 < last; c0 += chunk) {
                         const std::int64_t n = std::min(chunk, last - c0);
                         float sum[chunk] = {};
                         for (std::int64_t b = 0; b < blocks; ++b) {
                             const float* partial = partials + b * width + c0;
                             for (std::int64_t c = 0; c < n; ++c) sum[c] += partial[c];
                         }
                         for (std::int64_t c = 0; c < n; ++c) finish(c0 + c, sum[c]);
                     }
                 });
}

}  // namespace thunder
