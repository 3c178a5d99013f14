// SPDX-License-Identifier: Apache-2.0
// What follows a product: bias, activation, residual; and the sums of columns. One thread for V adjacent elements.
#pragma once

#include "device/cuda/kernels/activate.h"
#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

struct EpilogueSizes {
    std::int64_t rows, columns, ld_y, ld_source, ld_residual;
    int activation;
    bool accumulate;
};

// pre = source + bias; y = activation(pre) + residual + y
template <int V, typename T, typename S, typename B>
THUNDER_FUNCTION void epilogue(Aliased<T> y, Aliased<T> pre, Aliased<const S> source, Global<const B> bias,
                               Aliased<const T> residual, const EpilogueSizes& s) {
    const std::int64_t at = global_index<256>() * V;
    if (at >= s.rows * s.columns) return;
    const std::int64_t i = at / s.columns, j = at % s.columns;
    Vec<S, V> x{};
    // 16 bytes are the widest load: f32 for 8 results of bf16 come in two
    constexpr int part = V * sizeof(S) > 16 ? 16 / static_cast<int>(sizeof(S)) : V;
    THUNDER_UNROLL
    for (int k = 0; k < V; k += part) {
        const Vec<S, part> read = load<part>(source + (i * s.ld_source + j + k));
        THUNDER_UNROLL
        for (int l = 0; l < part; ++l) x[k + l] = read[l];
    }
    Vec<T, V> kept{}, add{}, before{};
    if (residual) add = load<V>(residual + (i * s.ld_residual + j));
    if (s.accumulate) before = load<V>(y + (i * s.ld_y + j));
    Vec<T, V> out{};
    THUNDER_UNROLL
    for (int k = 0; k < V; ++k) {
        float value = wide(x[k]);
        if (bias) value += wide(bias[j + k]);
        kept[k] = narrow<T>(value);
        if (pre) value = wide(kept[k]);  // what the backward pass will read
        value = activate(value, s.activation);
        if (residual) value += wide(add[k]);
        if (s.accumulate) value += wide(before[k]);
        out[k] = narrow<T>(value);
    }
    if (pre) store(pre + at, kept);
    store(y + (i * s.ld_y + j), out);
}

#define BUNDLED_EPILOGUE(name, V, T, S, B)                                                                       \
    THUNDER_KERNEL(256)                                                                                          \
    name(Aliased<T> y, Aliased<T> pre, Aliased<const S> source, Global<const B> bias, Aliased<const T> residual, \
         EpilogueSizes sizes) {                                                                                  \
        wait_for_previous_kernel();                                                                              \
        epilogue<V>(y, pre, source, bias, residual, sizes);                                                      \
    }
BUNDLED_EPILOGUE(bundled_epilogue_f32, 1, float, float, float)
BUNDLED_EPILOGUE(bundled_epilogue_f32_4, 4, float, float, float)
// bundled_epilogue_<type of y>_<of the product>_<of the bias>
#define BUNDLED_NARROW_EPILOGUES(T)                                      \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_##T##_##T, 1, T, T, T)       \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_##T##_##T##_8, 8, T, T, T)   \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_##T##_f32, 1, T, T, float)   \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_##T##_f32_8, 8, T, T, float) \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_f32_##T, 1, T, float, T)     \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_f32_##T##_8, 8, T, float, T) \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_f32_f32, 1, T, float, float) \
    BUNDLED_EPILOGUE(bundled_epilogue_##T##_f32_f32_8, 8, T, float, float)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_EPILOGUES)
#undef BUNDLED_NARROW_EPILOGUES
#undef BUNDLED_EPILOGUE

// From one type to the other.
template <typename D, typename T>
THUNDER_FUNCTION void convert(Global<D> dst, Global<const T> src, std::int64_t elements) {
    const std::int64_t at = global_index<256>() * 4;
    if (at + 4 <= elements) {
        const Vec<T, 4> x = load<4>(src + at);
        Vec<D, 4> y{};
        THUNDER_UNROLL
        for (int k = 0; k < 4; ++k) y[k] = narrow<D>(wide(x[k]));
        store(dst + at, y);
        return;
    }
    for (std::int64_t i = at; i < elements; ++i) dst[i] = narrow<D>(wide(src[i]));
}
#define BUNDLED_CONVERT(T)                                                                                  \
    THUNDER_KERNEL(256) bundled_narrow_##T(Global<T> dst, Global<const float> src, std::int64_t elements) { \
        wait_for_previous_kernel();                                                                         \
        convert(dst, src, elements);                                                                        \
    }                                                                                                       \
    THUNDER_KERNEL(256) bundled_widen_##T(Global<float> dst, Global<const T> src, std::int64_t elements) {  \
        wait_for_previous_kernel();                                                                         \
        convert(dst, src, elements);                                                                        \
    }
THUNDER_NARROW_TYPES(BUNDLED_CONVERT)
#undef BUNDLED_CONVERT

// Sums of columns in two steps: blocks of 128 columns and of `block_rows` rows give partials (blocks of rows, columns),
// which are added in order. How many there are follows from the number of rows alone. In a block each thread has V
// adjacent columns of every (V)th row: accesses of 16 bytes, and V rows under way at once.
template <int V, typename T>
THUNDER_FUNCTION void column_partials(Global<float> partials, Global<const T> x, std::int64_t rows,
                                      std::int64_t columns, std::int64_t ld_x, std::int64_t block_rows) {
    constexpr int across = 128 / V;
    THUNDER_SHARED(float, totals, 128 * V);
    const std::int64_t column_blocks = (columns + 127) / 128;
    const std::int64_t block = block_index() / column_blocks;
    const int column = thread_index() % across * V, first = thread_index() / across;
    const std::int64_t j = block_index() % column_blocks * 128 + column;
    const std::int64_t end = block * block_rows + block_rows < rows ? block * block_rows + block_rows : rows;
    Vec<float, V> sum{};
    if (j < columns) {
        for (std::int64_t i = block * block_rows + first; i < end; i += V) {
            const Vec<T, V> read = load<V>(x + (i * ld_x + j));
            THUNDER_UNROLL
            for (int k = 0; k < V; ++k) sum[k] += wide(read[k]);
        }
    }
    THUNDER_UNROLL
    for (int k = 0; k < V; ++k) totals[first * 128 + column + k] = sum[k];
    barrier();
    const std::int64_t own = block_index() % column_blocks * 128 + thread_index();
    if (own >= columns) return;
    float total = totals[thread_index()];
    THUNDER_UNROLL
    for (int r = 1; r < V; ++r) total += totals[r * 128 + thread_index()];
    partials[block * columns + own] = total;
}

// A block for 32 columns: each of its eight warps adds every eighth partial sum.
template <typename T>
THUNDER_FUNCTION void column_finish(Global<T> sums, Global<const float> partials, std::int64_t blocks,
                                    std::int64_t columns, bool add) {
    THUNDER_SHARED(float, totals, 256);
    const std::int64_t j = std::int64_t{block_index()} * 32 + lane();
    float sum = 0;
    if (j < columns) {
        for (std::int64_t b = warp(); b < blocks; b += 8) sum += partials[b * columns + j];
    }
    totals[thread_index()] = sum;
    barrier();
    if (warp() != 0 || j >= columns) return;
    THUNDER_UNROLL
    for (int w = 1; w < 8; ++w) sum += totals[w * 32 + lane()];
    sums[j] = narrow<T>(add ? wide(sums[j]) + sum : sum);
}

#define BUNDLED_COLUMN_PARTIALS(name, V, T)                                                                     \
    THUNDER_KERNEL(128)                                                                                         \
    name(Global<float> partials, Global<const T> x, std::int64_t rows, std::int64_t columns, std::int64_t ld_x, \
         std::int64_t block_rows) {                                                                             \
        wait_for_previous_kernel();                                                                             \
        column_partials<V>(partials, x, rows, columns, ld_x, block_rows);                                       \
    }
#define BUNDLED_COLUMNS(T)                                                                                             \
    BUNDLED_COLUMN_PARTIALS(bundled_column_partials_##T, 1, T)                                                         \
    BUNDLED_COLUMN_PARTIALS(bundled_column_partials_##T##_vector, 16 / static_cast<int>(sizeof(T)), T)                 \
    THUNDER_KERNEL(256)                                                                                                \
    bundled_column_finish_##T(Global<T> sums, Global<const float> partials, std::int64_t blocks, std::int64_t columns, \
                              bool add) {                                                                              \
        wait_for_previous_kernel();                                                                                    \
        column_finish(sums, partials, blocks, columns, add);                                                           \
    }
THUNDER_FLOAT_TYPES(BUNDLED_COLUMNS)
#undef BUNDLED_COLUMNS
#undef BUNDLED_COLUMN_PARTIALS

}  // namespace thunder::bundled
