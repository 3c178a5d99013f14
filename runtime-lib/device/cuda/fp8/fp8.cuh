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

// In plain threads, for any GPU and any size; a thread has 4 rows and 4 columns of a tile. element_a(row, k) and
// element_b are numbers of the factors.
template <typename C, typename ElementA, typename ElementB>
THUNDER_FUNCTION void fp8_product(Aliased<C> c, const ElementA& element_a, const ElementB& element_b, float inverse,
                                  Global<const float> bias, Global<const C> narrow_bias, Aliased<const C> residual,
                                  Fp8ProductSizes s) {
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
            of_a[depth * fp8_side + place] = k < s.k && i < s.m ? element_a(i, k) : 0.0F;
            of_b[depth * fp8_side + place] = k < s.k && j < s.n ? element_b(j, k) : 0.0F;
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

// A number of a matrix of codes.
template <typename T>
struct Fp8Codes {
    Global<const T> codes;
    std::int64_t k;
    THUNDER_FUNCTION float operator()(std::int64_t row, std::int64_t column) const {
        return to_float(codes[row * k + column]);
    }
};

THUNDER_FUNCTION float scale_number(float scale) {
    return scale;
}
THUNDER_FUNCTION float scale_number(e8m0 scale) {
    return to_float(scale);
}

// The same with the scale of its block.
template <typename Scale>
struct Fp8BlockCodes {
    Global<const e4m3> codes;
    Global<const Scale> scales;
    std::int64_t k;
    int block_rows, block_columns;
    THUNDER_FUNCTION float operator()(std::int64_t row, std::int64_t column) const {
        const std::int64_t across = (k + block_columns - 1) / block_columns;
        const Scale scale = scales[row / block_rows * across + column / block_columns];
        return to_float(codes[row * k + column]) * scale_number(scale);
    }
};

struct Fp8BlockSizes {
    std::int64_t rows, width, ld_x;
    float least_amax, most;
    int group;     // threads along a block: 16 for 128 elements, 4 for 32
    bool squares;  // one block for all
    bool powers_of_two;
    bool vectors;  // whole squares are read and written in accesses of several elements
};

THUNDER_FUNCTION void scale_block(Fp8BlockScale<float>& scale, float amax, const Fp8BlockSizes& s) {
    scale = scale_of_block(amax, s.powers_of_two, s.least_amax, s.most);
}
THUNDER_FUNCTION void scale_block(Fp8BlockScale<e8m0>& scale, float amax, const Fp8BlockSizes& /*s*/) {
    scale = mx_scale_of_block(amax);
}

// A block of threads for a square of 128 rows and columns, each thread for 8 of both.
template <typename Scale, typename X>
THUNDER_FUNCTION void fp8_quantise_blocks(Global<e4m3> q, Global<Scale> scales, Global<e4m3> q_transposed,
                                          Global<Scale> scales_transposed, Global<const X> x, Fp8BlockSizes s) {
    constexpr int side = 128, mine = 8, threads = 16;  // along a side of the square
    THUNDER_SHARED(float, of_rows, side* threads);     // amaxes of what a thread has of a row
    THUNDER_SHARED(float, of_columns, side* threads);
    THUNDER_SHARED(float, warps, 8);
    const std::int64_t across = (s.width + side - 1) / side;
    const std::int64_t first_row = block_index() / across * side, first_column = block_index() % across * side;
    const int ty = thread_index() / threads, tx = thread_index() % threads, row = ty * mine, column = tx * mine;
    const bool whole = s.vectors && first_row + side <= s.rows && first_column + side <= s.width;
    Vec<X, 8> numbers[mine];
    float in_rows[mine] = {}, in_columns[mine] = {}, in_square = 0;
    THUNDER_UNROLL
    for (int i = 0; i < mine; ++i) {
        const std::int64_t from_row = first_row + row + i;
        if (whole) {
            numbers[i] = load<8>(x + from_row * s.ld_x + first_column + column);
        } else {
            THUNDER_UNROLL
            for (int j = 0; j < mine; ++j) {
                const bool inside = from_row < s.rows && first_column + column + j < s.width;
                numbers[i][j] = inside ? x[from_row * s.ld_x + first_column + column + j] : narrow<X>(0.0F);
            }
        }
        THUNDER_UNROLL
        for (int j = 0; j < mine; ++j) {
            const float size = math::abs(wide(numbers[i][j]));
            in_rows[i] = larger_amax(in_rows[i], size);
            in_columns[j] = larger_amax(in_columns[j], size);
        }
        in_square = larger_amax(in_square, in_rows[i]);
    }
    THUNDER_UNROLL
    for (int i = 0; i < mine; ++i) {
        of_rows[(row + i) * threads + tx] = in_rows[i];
        of_columns[(column + i) * threads + ty] = in_columns[i];
    }
    barrier();
    if (s.squares) in_square = block_max<256>(in_square, warps);
    const std::int64_t block = s.squares ? side : s.group * mine, row_blocks = (s.rows + block - 1) / block,
                       column_blocks = (s.width + block - 1) / block;
    if (q) {
        THUNDER_UNROLL
        for (int i = 0; i < mine; ++i) {
            const std::int64_t to_row = first_row + row + i;
            float amax = in_square;
            if (!s.squares) {
                amax = 0;
                for (int k = 0; k < s.group; ++k)
                    amax = larger_amax(amax, of_rows[(row + i) * threads + tx / s.group * s.group + k]);
            }
            Fp8BlockScale<Scale> scale;
            scale_block(scale, amax, s);
            const bool first = tx % s.group == 0 && to_row < s.rows && first_column + column < s.width;
            if (first && (!s.squares || (row == 0 && i == 0)))
                scales[(s.squares ? to_row / side : to_row) * column_blocks + (first_column + column) / block] =
                    scale.scale;
            Vec<e4m3, 8> codes;
            THUNDER_UNROLL
            for (int j = 0; j < mine; ++j) codes[j] = quantised<e4m3>(wide(numbers[i][j]) * scale.factor);
            if (whole) {
                store(q + to_row * s.width + first_column + column, codes);
            } else {
                THUNDER_UNROLL
                for (int j = 0; j < mine; ++j)
                    if (to_row < s.rows && first_column + column + j < s.width)
                        q[to_row * s.width + first_column + column + j] = codes[j];
            }
        }
    }
    if (!q_transposed) return;
    THUNDER_UNROLL
    for (int j = 0; j < mine; ++j) {
        const std::int64_t to_row = first_column + column + j;  // of the transposed copy
        float amax = in_square;
        if (!s.squares) {
            amax = 0;
            for (int k = 0; k < s.group; ++k)
                amax = larger_amax(amax, of_columns[(column + j) * threads + ty / s.group * s.group + k]);
        }
        Fp8BlockScale<Scale> scale;
        scale_block(scale, amax, s);
        const bool first = ty % s.group == 0 && to_row < s.width && first_row + row < s.rows;
        if (first && (!s.squares || (column == 0 && j == 0)))
            scales_transposed[(s.squares ? to_row / side : to_row) * row_blocks + (first_row + row) / block] =
                scale.scale;
        Vec<e4m3, 8> codes;
        THUNDER_UNROLL
        for (int i = 0; i < mine; ++i) codes[i] = quantised<e4m3>(wide(numbers[i][j]) * scale.factor);
        if (whole) {
            store(q_transposed + to_row * s.rows + first_row + row, codes);
        } else {
            THUNDER_UNROLL
            for (int i = 0; i < mine; ++i)
                if (to_row < s.width && first_row + row + i < s.rows)
                    q_transposed[to_row * s.rows + first_row + row + i] = codes[i];
        }
    }
}

// A tensor's history is moved by one place where it lies: what a thread reads, another one writes after the barrier.
THUNDER_FUNCTION void fp8_update_scale(Global<float> scale, Global<float> history, Global<float> amax, float largest,
                                       std::int64_t length, bool from_latest) {
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
    if (thread_index() != 0) return;
    scale[tensor] = delayed_scale(from_latest ? latest : greatest, scale[tensor], largest);
    if (amax) amax[tensor] = 0.0F;
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
#define BUNDLED_FP8_PRODUCT(suffix, C, A, B)                                                                \
    THUNDER_KERNEL(256)                                                                                     \
    bundled_fp8_product_##suffix##_##A##_##B(Aliased<C> c, Global<const A> a, Global<const B> b,            \
                                             Global<const float> inverse_a, Global<const float> inverse_b,  \
                                             Global<const float> bias, Global<const C> narrow_bias,         \
                                             Aliased<const C> residual, Fp8ProductSizes sizes) {            \
        fp8_product(c, Fp8Codes<A>{a, sizes.k}, Fp8Codes<B>{b, sizes.k}, inverse_a[0] * inverse_b[0], bias, \
                    narrow_bias, residual, sizes);                                                          \
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

// bundled_fp8_quantise_blocks_<type of scales>_<of x>, bundled_fp8_block_product_<of scales>_<of c>
#define BUNDLED_FP8_BLOCKS(name, Scale, suffix, X)                                                                    \
    THUNDER_KERNEL(256)                                                                                               \
    bundled_fp8_quantise_blocks_##name##_##suffix(Global<e4m3> q, Global<Scale> scales, Global<e4m3> q_transposed,    \
                                                  Global<Scale> scales_transposed, Global<const X> x,                 \
                                                  Fp8BlockSizes sizes) {                                              \
        fp8_quantise_blocks(q, scales, q_transposed, scales_transposed, x, sizes);                                    \
    }                                                                                                                 \
    THUNDER_KERNEL(256)                                                                                               \
    bundled_fp8_block_product_##name##_##suffix(                                                                      \
        Aliased<X> c, Global<const e4m3> a, Global<const Scale> scales_a, int rows_a, Global<const e4m3> b,           \
        Global<const Scale> scales_b, int rows_b, int columns, Global<const float> bias, Global<const X> narrow_bias, \
        Aliased<const X> residual, Fp8ProductSizes sizes) {                                                           \
        fp8_product(c, Fp8BlockCodes<Scale>{a, scales_a, sizes.k, rows_a, columns},                                   \
                    Fp8BlockCodes<Scale>{b, scales_b, sizes.k, rows_b, columns}, 1.0F, bias, narrow_bias, residual,   \
                    sizes);                                                                                           \
    }
#define BUNDLED_NARROW_FP8_BLOCKS(X) BUNDLED_FP8_BLOCKS(f32, float, X, X) BUNDLED_FP8_BLOCKS(e8m0, e8m0, X, X)
BUNDLED_FP8_BLOCKS(f32, float, f32, float)
BUNDLED_FP8_BLOCKS(e8m0, e8m0, f32, float)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_FP8_BLOCKS)
#undef BUNDLED_NARROW_FP8_BLOCKS
#undef BUNDLED_FP8_BLOCKS

THUNDER_KERNEL(256)
bundled_fp8_update_scale(Global<float> scale, Global<float> history, Global<float> amax, float largest,
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
