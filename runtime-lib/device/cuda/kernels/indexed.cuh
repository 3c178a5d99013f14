// SPDX-License-Identifier: Apache-2.0
// Indexed reads and writes: embedding, gather, scatter_add. Rows of gradients that go to one entry of a table are added
// in an order that the ids alone decide.
#pragma once

#include "device/cuda/kernels/bundled.h"
#include "device/cuda/kernels/sort_rows.h"

namespace thunder::bundled {

// y[o, i, :] = x[o, index[i], :] in words of any type: an element, or several where all sizes are their multiples.
template <typename Word, typename Id>
THUNDER_FUNCTION void gather(Global<Word> y, Global<const Word> x, Global<const Id> index, std::int64_t words,
                             std::int64_t entries, std::int64_t count, std::int64_t inner) {
    const std::int64_t at = global_index<256>();
    if (at >= words) return;
    const std::int64_t row = at / inner, j = at % inner, o = row / count, i = row % count;
    y[at] = x[(o * entries + index[i]) * inner + j];
}

// y[o, index[i], j] += x[o, i, j] in the order of i: a thread for each (o, j).
template <typename Id>
THUNDER_FUNCTION void scatter_add(Global<float> y, Global<const float> x, Global<const Id> index, std::int64_t outer,
                                  std::int64_t entries, std::int64_t count, std::int64_t inner) {
    const std::int64_t at = global_index<256>();
    if (at >= outer * inner) return;
    const std::int64_t o = at / inner, j = at % inner;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t to = (o * entries + index[i]) * inner + j;
        y[to] = y[to] + x[(o * count + i) * inner + j];
    }
}

// The sorted rows are cut into pieces of `piece_rows`. An id whose rows lie in one piece gets its sum at once; of one
// that goes over pieces each piece keeps its part: in slot 0 where the id began in an earlier piece, in slot 1 where it
// begins here. A thread for each piece and column.
inline constexpr std::int64_t piece_rows = 64;

template <typename W, typename D>
THUNDER_FUNCTION void embedding_pieces(Global<W> dweight, Global<float> parts, Global<const D> dy,
                                       Global<const std::int32_t> order, Global<const std::int32_t> sorted,
                                       std::int64_t rows, std::int64_t width, bool add) {
    const std::int64_t column_blocks = (width + 127) / 128;
    const std::int64_t piece = block_index() / column_blocks;
    const std::int64_t j = block_index() % column_blocks * 128 + thread_index();
    if (j >= width) return;
    const std::int64_t begin = piece * piece_rows, end = begin + piece_rows < rows ? begin + piece_rows : rows;
    bool from_before = begin > 0 && sorted[begin - 1] == sorted[begin];
    float sum = 0;
    for (std::int64_t p = begin; p < end; ++p) {
        const std::int32_t id = sorted[p];
        sum += wide(dy[static_cast<std::int64_t>(order[p]) * width + j]);
        const bool goes_on = p + 1 < rows && sorted[p + 1] == id;
        if (goes_on && p + 1 < end) continue;
        if (from_before) {
            parts[2 * piece * width + j] = sum;
        } else if (goes_on) {
            parts[(2 * piece + 1) * width + j] = sum;
        } else {
            const std::int64_t at = id * width + j;
            dweight[at] = narrow<W>(add ? wide(dweight[at]) + sum : sum);
        }
        sum = 0;
        from_before = false;
    }
}

// Adds the parts of ids that go over pieces, in order: the thread of the piece where the id begins.
template <typename W>
THUNDER_FUNCTION void embedding_parts(Global<W> dweight, Global<const float> parts, Global<const std::int32_t> sorted,
                                      std::int64_t rows, std::int64_t width, bool add) {
    const std::int64_t column_blocks = (width + 127) / 128;
    const std::int64_t piece = block_index() / column_blocks;
    const std::int64_t j = block_index() % column_blocks * 128 + thread_index();
    const std::int64_t begin = piece * piece_rows, end = begin + piece_rows;  // of the next piece
    if (j >= width || end >= rows) return;
    const std::int32_t id = sorted[end - 1];
    if (sorted[end] != id || (begin > 0 && sorted[begin - 1] == id)) return;  // it ends here, or began earlier
    float sum = parts[(2 * piece + 1) * width + j];
    for (std::int64_t next = end; next < rows && sorted[next] == id; next += piece_rows)
        sum += parts[2 * (next / piece_rows) * width + j];
    const std::int64_t at = id * width + j;
    dweight[at] = narrow<W>(add ? wide(dweight[at]) + sum : sum);
}

#define BUNDLED_GATHER(suffix, Word, Id)                                                                      \
    THUNDER_KERNEL(256)                                                                                       \
    bundled_gather_##suffix(Global<Word> y, Global<const Word> x, Global<const Id> index, std::int64_t words, \
                            std::int64_t entries, std::int64_t count, std::int64_t inner) {                   \
        wait_for_previous_kernel();                                                                           \
        gather(y, x, index, words, entries, count, inner);                                                    \
    }
BUNDLED_GATHER(1_i64, std::uint8_t, std::int64_t)
BUNDLED_GATHER(2_i64, std::uint16_t, std::int64_t)
BUNDLED_GATHER(4_i64, std::uint32_t, std::int64_t)
BUNDLED_GATHER(8_i64, std::uint64_t, std::int64_t)
BUNDLED_GATHER(1_i32, std::uint8_t, std::int32_t)
BUNDLED_GATHER(2_i32, std::uint16_t, std::int32_t)
BUNDLED_GATHER(4_i32, std::uint32_t, std::int32_t)
BUNDLED_GATHER(8_i32, std::uint64_t, std::int32_t)
#undef BUNDLED_GATHER

#define BUNDLED_INDEXED(suffix, Id)                                                                                  \
    THUNDER_KERNEL(256)                                                                                              \
    bundled_scatter_add_##suffix(Global<float> y, Global<const float> x, Global<const Id> index, std::int64_t outer, \
                                 std::int64_t entries, std::int64_t count, std::int64_t inner) {                     \
        wait_for_previous_kernel();                                                                                  \
        scatter_add(y, x, index, outer, entries, count, inner);                                                      \
    }                                                                                                                \
    THUNDER_KERNEL(256)                                                                                              \
    bundled_sort_rows_##suffix(Global<std::int32_t> order, Global<std::int32_t> sorted, Global<const Id> ids,        \
                               std::int64_t rows) {                                                                  \
        wait_for_previous_kernel();                                                                                  \
        sort_rows(order, sorted, ids, rows);                                                                         \
    }
BUNDLED_INDEXED(i64, std::int64_t)
BUNDLED_INDEXED(i32, std::int32_t)
#undef BUNDLED_INDEXED

#define BUNDLED_EMBEDDING_PIECES(suffix, W, D)                                                             \
    THUNDER_KERNEL(128)                                                                                    \
    bundled_embedding_pieces_##suffix(Global<W> dweight, Global<float> parts, Global<const D> dy,          \
                                      Global<const std::int32_t> order, Global<const std::int32_t> sorted, \
                                      std::int64_t rows, std::int64_t width, bool add) {                   \
        wait_for_previous_kernel();                                                                        \
        embedding_pieces(dweight, parts, dy, order, sorted, rows, width, add);                             \
    }
BUNDLED_EMBEDDING_PIECES(f32_f32, float, float)

#define BUNDLED_EMBEDDING_PARTS(suffix, W)                                                                            \
    THUNDER_KERNEL(128)                                                                                               \
    bundled_embedding_parts_##suffix(Global<W> dweight, Global<const float> parts, Global<const std::int32_t> sorted, \
                                     std::int64_t rows, std::int64_t width, bool add) {                               \
        wait_for_previous_kernel();                                                                                   \
        embedding_parts(dweight, parts, sorted, rows, width, add);                                                    \
    }
BUNDLED_EMBEDDING_PARTS(f32, float)
#define BUNDLED_NARROW_EMBEDDING(T)             \
    BUNDLED_EMBEDDING_PIECES(f32_##T, float, T) \
    BUNDLED_EMBEDDING_PIECES(T##_##T, T, T)     \
    BUNDLED_EMBEDDING_PARTS(T, T)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_EMBEDDING)
#undef BUNDLED_NARROW_EMBEDDING
#undef BUNDLED_EMBEDDING_PARTS
#undef BUNDLED_EMBEDDING_PIECES

}  // namespace thunder::bundled
