// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers: rows in the order of their groups, and a block of threads for each tile of 64 rows and 64
// columns of a product, each thread 4 of both. Sums go over k in its order: the same bits in every run.
#pragma once

#include "device/cuda/kernels/sort_rows.h"

namespace thunder::bundled {

inline constexpr int grouped_tile = 64, grouped_depth = 16;  // rows and columns of a tile; of the sum at a time

struct GroupedSizes {
    std::int64_t rows, groups, in, out;
    bool transpose;  // matrices are (in, out), not (out, in)
};

// Where each group begins among the sorted rows, and the last one ends: a thread for each.
THUNDER_FUNCTION void find_groups(Global<std::int32_t> begin, Global<const std::int32_t> sorted, std::int64_t rows,
                                  std::int64_t groups) {
    const std::int64_t e = global_index<256>();
    if (e > groups) return;
    std::int64_t low = 0, high = rows;  // the first row of an id that is not below e
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (sorted[middle] < e)
            low = middle + 1;
        else
            high = middle;
    }
    begin[e] = static_cast<std::int32_t>(low);
}

// sums[i][j] += a[k][4 row + i] * b[k][4 column + j] over the depth that is in shared memory.
template <typename Shared>
THUNDER_FUNCTION void add_products(float (&sums)[4][4], Shared a, Shared b) {
    const int row = thread_index() / 16, column = thread_index() % 16;
    for (int k = 0; k < grouped_depth; ++k) {
        const Vec<float, 4> of_row = load<4>(a + k * grouped_tile + 4 * row);
        const Vec<float, 4> of_column = load<4>(b + k * grouped_tile + 4 * column);
        THUNDER_UNROLL
        for (int i = 0; i < 4; ++i) {
            THUNDER_UNROLL
            for (int j = 0; j < 4; ++j) sums[i][j] += of_row[i] * of_column[j];
        }
    }
}

// A block finds the group that its tile of rows belongs to: groups have whole tiles, the last of which may be partly
// empty. There are blocks for as many tiles as there can be; those beyond have nothing to do.
template <typename C, typename T>
THUNDER_FUNCTION void grouped_linear(Global<C> y, Global<const T> x, Global<const T> weight,
                                     Global<const std::int32_t> order, Global<const std::int32_t> begin,
                                     GroupedSizes s) {
    THUNDER_SHARED(float, a, grouped_depth* grouped_tile);
    THUNDER_SHARED(float, b, grouped_depth* grouped_tile);
    const std::int64_t across = (s.out + grouped_tile - 1) / grouped_tile;
    const std::int64_t first_column = block_index() % across * grouped_tile;
    std::int64_t tile = block_index() / across, group = 0, first = 0, end = 0;
    for (; group < s.groups; ++group) {
        first = begin[group];
        end = begin[group + 1];
        const std::int64_t tiles = (end - first + grouped_tile - 1) / grouped_tile;
        if (tile < tiles) break;
        tile -= tiles;
    }
    if (group == s.groups) return;
    first += tile * grouped_tile;
    float sums[4][4] = {};
    for (std::int64_t k0 = 0; k0 < s.in; k0 += grouped_depth) {
        for (int at = thread_index(); at < grouped_depth * grouped_tile; at += 256) {
            const std::int64_t row = first + at / grouped_depth, k = k0 + at % grouped_depth;
            const bool inside = row < end && k < s.in;
            a[at % grouped_depth * grouped_tile + at / grouped_depth] =
                inside ? wide(x[static_cast<std::int64_t>(order[row]) * s.in + k]) : 0.0F;
        }
        for (int at = thread_index(); at < grouped_depth * grouped_tile; at += 256) {
            // neighbours in memory by neighbouring threads
            const int depth = s.transpose ? at / grouped_tile : at % grouped_depth;
            const int column = s.transpose ? at % grouped_tile : at / grouped_depth;
            const std::int64_t k = k0 + depth, j = first_column + column;
            const std::int64_t place = s.transpose ? (group * s.in + k) * s.out + j : (group * s.out + j) * s.in + k;
            b[depth * grouped_tile + column] = k < s.in && j < s.out ? wide(weight[place]) : 0.0F;
        }
        barrier();
        add_products(sums, a, b);
        barrier();
    }
    THUNDER_UNROLL
    for (int i = 0; i < 4; ++i) {
        const std::int64_t row = first + thread_index() / 16 * 4 + i;
        if (row >= end) continue;
        const std::int64_t to = static_cast<std::int64_t>(order[row]) * s.out;
        THUNDER_UNROLL
        for (int j = 0; j < 4; ++j) {
            const std::int64_t column = first_column + thread_index() % 16 * 4 + j;
            if (column < s.out) y[to + column] = narrow<C>(sums[i][j]);
        }
    }
}

// A block for each group and tile of its matrix: rows of the tile along `out`, columns along `in`.
template <typename W, typename T>
THUNDER_FUNCTION void grouped_backward_weight(Global<W> dweight, Global<const T> dy, Global<const T> x,
                                              Global<const std::int32_t> order, Global<const std::int32_t> begin,
                                              GroupedSizes s, bool add) {
    THUNDER_SHARED(float, a, grouped_depth* grouped_tile);
    THUNDER_SHARED(float, b, grouped_depth* grouped_tile);
    const std::int64_t down = (s.out + grouped_tile - 1) / grouped_tile;
    const std::int64_t across = (s.in + grouped_tile - 1) / grouped_tile;
    const std::int64_t group = block_index() / (down * across);
    const std::int64_t first_out = block_index() / across % down * grouped_tile;
    const std::int64_t first_in = block_index() % across * grouped_tile;
    const std::int64_t end = begin[group + 1];
    float sums[4][4] = {};
    for (std::int64_t row0 = begin[group]; row0 < end; row0 += grouped_depth) {
        for (int at = thread_index(); at < grouped_depth * grouped_tile; at += 256) {
            const std::int64_t row = row0 + at / grouped_tile, o = first_out + at % grouped_tile,
                               i = first_in + at % grouped_tile;
            const std::int64_t from = row < end ? order[row] : 0;
            a[at] = row < end && o < s.out ? wide(dy[from * s.out + o]) : 0.0F;
            b[at] = row < end && i < s.in ? wide(x[from * s.in + i]) : 0.0F;
        }
        barrier();
        add_products(sums, a, b);
        barrier();
    }
    THUNDER_UNROLL
    for (int i = 0; i < 4; ++i) {
        const std::int64_t o = first_out + thread_index() / 16 * 4 + i;
        THUNDER_UNROLL
        for (int j = 0; j < 4; ++j) {
            const std::int64_t k = first_in + thread_index() % 16 * 4 + j;
            if (o >= s.out || k >= s.in) continue;
            const std::int64_t to = s.transpose ? (group * s.in + k) * s.out + o : (group * s.out + o) * s.in + k;
            dweight[to] = narrow<W>(add ? wide(dweight[to]) + sums[i][j] : sums[i][j]);
        }
    }
}

#define BUNDLED_GROUPED_SORT(suffix, Id)                                                                         \
    THUNDER_KERNEL(256)                                                                                          \
    bundled_grouped_sort_##suffix(Global<std::int32_t> order, Global<std::int32_t> sorted, Global<const Id> ids, \
                                  std::int64_t rows) {                                                           \
        wait_for_previous_kernel();                                                                              \
        sort_rows(order, sorted, ids, rows);                                                                     \
    }
BUNDLED_GROUPED_SORT(i64, std::int64_t)
BUNDLED_GROUPED_SORT(i32, std::int32_t)
#undef BUNDLED_GROUPED_SORT

THUNDER_KERNEL(256)
bundled_grouped_find(Global<std::int32_t> begin, Global<const std::int32_t> sorted, std::int64_t rows,
                     std::int64_t groups) {
    wait_for_previous_kernel();
    find_groups(begin, sorted, rows, groups);
}

// bundled_grouped_linear_<type of y>_<of x and the weight>, and the same of the gradient
#define BUNDLED_GROUPED(suffix, C, T)                                                                            \
    THUNDER_KERNEL(256)                                                                                          \
    bundled_grouped_linear_##suffix(Global<C> y, Global<const T> x, Global<const T> weight,                      \
                                    Global<const std::int32_t> order, Global<const std::int32_t> begin,          \
                                    GroupedSizes sizes) {                                                        \
        wait_for_previous_kernel();                                                                              \
        grouped_linear(y, x, weight, order, begin, sizes);                                                       \
    }                                                                                                            \
    THUNDER_KERNEL(256)                                                                                          \
    bundled_grouped_backward_weight_##suffix(Global<C> dweight, Global<const T> dy, Global<const T> x,           \
                                             Global<const std::int32_t> order, Global<const std::int32_t> begin, \
                                             GroupedSizes sizes, bool add) {                                     \
        wait_for_previous_kernel();                                                                              \
        grouped_backward_weight(dweight, dy, x, order, begin, sizes, add);                                       \
    }
BUNDLED_GROUPED(f32_f32, float, float)
#define BUNDLED_NARROW_GROUPED(T)      \
    BUNDLED_GROUPED(f32_##T, float, T) \
    BUNDLED_GROUPED(T##_##T, T, T)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_GROUPED)
#undef BUNDLED_NARROW_GROUPED
#undef BUNDLED_GROUPED

}  // namespace thunder::bundled
