// SPDX-License-Identifier: Apache-2.0
// FP8: a block of threads for each square of 64 rows and columns that is quantised, for each tile of a product, and for
// each tensor whose scale is updated.
#pragma once

#include "device/cuda/kernels/bundled.h"
#include "device/fp8_recipe.h"

namespace thunder::bundled {

inline constexpr int fp8_side = 64;       // rows and columns of a square, of a tile
inline constexpr int fp8_depth = 16;      // of a product's sum at a time
inline constexpr int fp8_pitch = 64 + 4;  // bytes between rows of a square in shared memory: few of them in one bank

struct Fp8QuantiseSizes {
    std::int64_t rows, width, ld_x;
    bool vectors;  // whole squares are read and written in accesses of several elements
};

// A thread has 4 rows and 4 columns of a square.
template <typename Q, typename X>
THUNDER_FUNCTION void fp8_quantise(Global<Q> q, Global<Q> q_transposed, Global<std::int32_t> amax,
                                   Global<float> inverse, Global<const X> x, Global<const float> scale_of_x,
                                   Fp8QuantiseSizes s) {
    THUNDER_SHARED(Q, square, fp8_side * fp8_pitch);  // transposed
    THUNDER_SHARED(float, warps, 8);
    const std::int64_t across = (s.width + fp8_side - 1) / fp8_side;
    const std::int64_t first_row = block_index() / across * fp8_side, first_column = block_index() % across * fp8_side;
    const int row = thread_index() / 16 * 4, column = thread_index() % 16 * 4;
    const bool whole = s.vectors && first_row + fp8_side <= s.rows && first_column + fp8_side <= s.width;
    const float scale = scale_of_x[0];
    float largest = 0;
    Vec<Q, 4> codes[4];  // of a row each
    THUNDER_UNROLL
    for (int i = 0; i < 4; ++i) {
        const std::int64_t from_row = first_row + row + i;
        Vec<X, 4> of_row;
        if (whole) {
            of_row = load<4>(x + from_row * s.ld_x + first_column + column);
        } else {
            for (int j = 0; j < 4; ++j) {
                const bool inside = from_row < s.rows && first_column + column + j < s.width;
                of_row[j] = inside ? x[from_row * s.ld_x + first_column + column + j] : narrow<X>(0.0F);
            }
        }
        for (int j = 0; j < 4; ++j) {
            const float number = wide(of_row[j]);
            largest = larger_amax(largest, math::abs(number));
            codes[i][j] = quantised<Q>(number * scale);
        }
        if (!q) continue;
        if (whole) {
            store(q + from_row * s.width + first_column + column, codes[i]);
        } else {
            for (int j = 0; j < 4; ++j)
                if (from_row < s.rows && first_column + column + j < s.width)
                    q[from_row * s.width + first_column + column + j] = codes[i][j];
        }
    }
    if (q_transposed) {
        for (int j = 0; j < 4; ++j) {
            Vec<Q, 4> of_column;
            for (int i = 0; i < 4; ++i) of_column[i] = codes[i][j];
            store(square + (column + j) * fp8_pitch + row, of_column);
        }
        barrier();
        const int to_row = thread_index() / 4, part = thread_index() % 4 * 16;  // 16 elements of a row of the result
        const std::int64_t to = (first_column + to_row) * s.rows + first_row + part;
        Vec<Q, 16> run;
        for (int k = 0; k < 16; k += 4) {
            const Vec<Q, 4> four = load<4>(square + to_row * fp8_pitch + part + k);
            for (int i = 0; i < 4; ++i) run[k + i] = four[i];
        }
        if (whole) {
            store(q_transposed + to, run);
        } else {
            for (int k = 0; k < 16; ++k)
                if (first_column + to_row < s.width && first_row + part + k < s.rows) q_transposed[to + k] = run[k];
        }
    }
    if (amax) {
        largest = block_max<256>(largest, warps);
        // Of numbers without a sign the larger one has the larger bits: any order of blocks gives the same.
        if (thread_index() == 0) atomic_max(amax, static_cast<std::int32_t>(thunder::detail::bits_of(largest)));
    }
    if (inverse && block_index() == 0 && thread_index() == 0) inverse[0] = 1.0F / scale;
}

// A thread's numbers are as far apart as there are threads.
template <typename X>
THUNDER_FUNCTION void fp8_amax(Global<std::int32_t> amax, Global<const X> x, std::int64_t rows, std::int64_t width,
                               std::int64_t ld_x) {
    THUNDER_SHARED(float, warps, 8);
    float largest = 0;
    const std::int64_t count = rows * width, threads = static_cast<std::int64_t>(block_count()) * 256;
    for (std::int64_t at = global_index<256>(); at < count; at += threads)
        largest = larger_amax(largest, math::abs(wide(x[at / width * ld_x + at % width])));
    largest = block_max<256>(largest, warps);
    if (thread_index() == 0) atomic_max(amax, static_cast<std::int32_t>(thunder::detail::bits_of(largest)));
}

struct Fp8ProductSizes {
    std::int64_t m, n, k;
    bool add;
};

// In plain threads, for any GPU and any size; a thread has 4 rows and 4 columns of a tile.
template <typename C, typename A, typename B>
THUNDER_FUNCTION void fp8_product(Aliased<C> c, Global<const A> a, Global<const B> b, Global<const float> inverse_a,
                                  Global<const float> inverse_b, Global<const float> bias, Global<const C> narrow_bias,
                                  Aliased<const C> residual, Fp8ProductSizes s) {
    THUNDER_SHARED(float, of_a, fp8_depth* fp8_side);
    THUNDER_SHARED(float, of_b, fp8_depth* fp8_side);
    const std::int64_t across = (s.n + fp8_side - 1) / fp8_side;
    const std::int64_t first_row = block_index() / across * fp8_side, first_column = block_index() % across * fp8_side;
    const int row = thread_index() / 16 * 4, column = thread_index() % 16 * 4;
    float sums[4][4] = {};
    for (std::int64_t k0 = 0; k0 < s.k; k0 += fp8_depth) {
        for (int at = thread_index(); at < fp8_depth * fp8_side; at += 256) {
            const int depth = at % fp8_depth, place = at / fp8_depth;
            const std::int64_t k = k0 + depth, i = first_row + place, j = first_column + place;
            of_a[depth * fp8_side + place] = k < s.k && i < s.m ? to_float(a[i * s.k + k]) : 0.0F;
            of_b[depth * fp8_side + place] = k < s.k && j < s.n ? to_float(b[j * s.k + k]) : 0.0F;
        }
        barrier();
        for (int k = 0; k < fp8_depth; ++k) {
            const Vec<float, 4> rows = load<4>(of_a + k * fp8_side + row);
            const Vec<float, 4> columns = load<4>(of_b + k * fp8_side + column);
            THUNDER_UNROLL
            for (int i = 0; i < 4; ++i) {
                THUNDER_UNROLL
                for (int j = 0; j < 4; ++j) sums[i][j] += rows[i] * columns[j];
            }
        }
        barrier();
    }
    const float inverse = inverse_a[0] * inverse_b[0];
    THUNDER_UNROLL
    for (int i = 0; i < 4; ++i) {
        THUNDER_UNROLL
        for (int j = 0; j < 4; ++j) {
            const std::int64_t to_row = first_row + row + i, to_column = first_column + column + j;
            if (to_row >= s.m || to_column >= s.n) continue;
            const std::int64_t to = to_row * s.n + to_column;
            float sum = sums[i][j] * inverse;
            if (bias) sum += bias[to_column];
            if (narrow_bias) sum += wide(narrow_bias[to_column]);
            if (residual) sum += wide(residual[to]);
            if (s.add) sum += wide(C(c[to]));
            c[to] = narrow<C>(sum);
        }
    }
}

// A tensor's history is moved by one place where it lies: what a thread reads, another one writes after the barrier.
THUNDER_FUNCTION void fp8_update_scale(Global<float> scale, Global<float> history, Global<const float> amax,
                                       float largest, std::int64_t length, bool from_latest) {
    THUNDER_SHARED(float, warps, 8);
    const std::int64_t tensor = block_index(), first = tensor * length;
    const float reduced = amax ? float(amax[tensor]) : 0.0F;
    const float latest = reduced != 0.0F ? reduced : float(history[first]);
    float greatest = 0;
    barrier();  // all have read the first element
    if (latest != 0.0F) {
        for (std::int64_t begin = 0; begin < length; begin += 256) {
            const std::int64_t at = begin + thread_index();
            const float moved = at + 1 < length ? float(history[first + at + 1]) : latest;
            if (at < length) greatest = larger_amax(greatest, moved);
            barrier();
            if (at < length) history[first + at] = at == 0 ? 0.0F : moved;
        }
    }
    greatest = block_max<256>(greatest, warps);
    if (thread_index() == 0) scale[tensor] = delayed_scale(from_latest ? latest : greatest, scale[tensor], largest);
}

#define BUNDLED_FP8_AMAX(suffix, X)                                                                                \
    THUNDER_KERNEL(256)                                                                                            \
    bundled_fp8_amax_##suffix(Global<std::int32_t> amax, Global<const X> x, std::int64_t rows, std::int64_t width, \
                              std::int64_t ld_x) {                                                                 \
        fp8_amax(amax, x, rows, width, ld_x);                                                                      \
    }
BUNDLED_FP8_AMAX(f32, float)
#define BUNDLED_NARROW_FP8_AMAX(X) BUNDLED_FP8_AMAX(X, X)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_FP8_AMAX)
#undef BUNDLED_NARROW_FP8_AMAX
#undef BUNDLED_FP8_AMAX

// bundled_fp8_quantise_<type>_<of x>
#define BUNDLED_FP8_QUANTISE(Q, suffix, X)                                                                   \
    THUNDER_KERNEL(256)                                                                                      \
    bundled_fp8_quantise_##Q##_##suffix(Global<Q> q, Global<Q> q_transposed, Global<std::int32_t> amax,      \
                                        Global<float> inverse, Global<const X> x, Global<const float> scale, \
                                        Fp8QuantiseSizes sizes) {                                            \
        fp8_quantise(q, q_transposed, amax, inverse, x, scale, sizes);                                       \
    }
BUNDLED_FP8_QUANTISE(e4m3, f32, float)
BUNDLED_FP8_QUANTISE(e5m2, f32, float)
#define BUNDLED_NARROW_FP8_QUANTISE(X) BUNDLED_FP8_QUANTISE(e4m3, X, X) BUNDLED_FP8_QUANTISE(e5m2, X, X)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_FP8_QUANTISE)
#undef BUNDLED_NARROW_FP8_QUANTISE
#undef BUNDLED_FP8_QUANTISE

// bundled_fp8_product_<type of c>_<of a>_<of b>
#define BUNDLED_FP8_PRODUCT(suffix, C, A, B)                                                               \
    THUNDER_KERNEL(256)                                                                                    \
    bundled_fp8_product_##suffix##_##A##_##B(Aliased<C> c, Global<const A> a, Global<const B> b,           \
                                             Global<const float> inverse_a, Global<const float> inverse_b, \
                                             Global<const float> bias, Global<const C> narrow_bias,        \
                                             Aliased<const C> residual, Fp8ProductSizes sizes) {           \
        fp8_product<C, A, B>(c, a, b, inverse_a, inverse_b, bias, narrow_bias, residual, sizes);           \
    }
#define BUNDLED_FP8_PRODUCTS(suffix, C)        \
    BUNDLED_FP8_PRODUCT(suffix, C, e4m3, e4m3) \
    BUNDLED_FP8_PRODUCT(suffix, C, e5m2, e4m3) \
    BUNDLED_FP8_PRODUCT(suffix, C, e4m3, e5m2)
BUNDLED_FP8_PRODUCTS(f32, float)
#define BUNDLED_NARROW_FP8_PRODUCTS(C) BUNDLED_FP8_PRODUCTS(C, C)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_FP8_PRODUCTS)
#undef BUNDLED_NARROW_FP8_PRODUCTS
#undef BUNDLED_FP8_PRODUCTS
#undef BUNDLED_FP8_PRODUCT

THUNDER_KERNEL(256)
bundled_fp8_update_scale(Global<float> scale, Global<float> history, Global<const float> amax, float largest,
                         std::int64_t length, bool from_latest) {
    fp8_update_scale(scale, history, amax, largest, length, from_latest);
}

// A thread for each tensor.
THUNDER_KERNEL(256)
bundled_fp8_current_scale(Global<float> scale, Global<float> amax, float largest, bool powers_of_two, float least_amax,
                          std::int64_t tensors) {
    const std::int64_t t = global_index<256>();
    if (t >= tensors) return;
    scale[t] = current_scale(amax[t], largest, powers_of_two, least_amax);
    amax[t] = 0.0F;
}

}  // namespace thunder::bundled
