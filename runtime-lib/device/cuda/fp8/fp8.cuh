// SPDX-License-Identifier: Apache-2.0
// FP8: a block of threads for each square of 128 rows and columns that is quantised, for each tile of a product, and
// for each tensor whose scale is updated.
#pragma once

#include "device/cuda/kernels/bundled.h"
#include "device/fp8_recipe.h"

namespace thunder::bundled {

inline constexpr int fp8_side = 64;     // rows and columns of a product's tile
inline constexpr int fp8_depth = 16;    // of a product's sum at a time
inline constexpr int fp8_square = 128;  // rows and columns of what a block of threads quantises
inline constexpr int fp8_part = 8;      // of which a thread has so many of both: 16 threads along a side

// What a thread has of a square.
struct Fp8Part {
    std::int64_t rows, width;              // of the tensor
    std::int64_t first_row, first_column;  // of the square
    int tx, ty;
    bool whole;  // the square lies within the tensor, and runs of a thread are read and written at once

    THUNDER_FUNCTION Fp8Part(std::int64_t all_rows, std::int64_t all_columns, bool vectors)
        : rows(all_rows), width(all_columns) {
        const std::int64_t across = (width + fp8_square - 1) / fp8_square;
        first_row = block_index() / across * fp8_square;
        first_column = block_index() % across * fp8_square;
        tx = thread_index() % (fp8_square / fp8_part);
        ty = thread_index() / (fp8_square / fp8_part);
        whole = vectors && first_row + fp8_square <= rows && first_column + fp8_square <= width;
    }
    THUNDER_FUNCTION std::int64_t row(int i) const { return first_row + ty * fp8_part + i; }
    THUNDER_FUNCTION std::int64_t column(int j) const { return first_column + tx * fp8_part + j; }
};

template <typename X>
THUNDER_FUNCTION Vec<X, fp8_part> load_run(const Fp8Part& part, int i, Global<const X> x, std::int64_t ld_x) {
    if (part.whole) return load<fp8_part>(x + part.row(i) * ld_x + part.column(0));
    Vec<X, fp8_part> run;
    THUNDER_UNROLL
    for (int j = 0; j < fp8_part; ++j) {
        const bool inside = part.row(i) < part.rows && part.column(j) < part.width;
        run[j] = inside ? X(x[part.row(i) * ld_x + part.column(j)]) : X{};
    }
    return run;
}

template <typename Q>
THUNDER_FUNCTION void store_run(const Fp8Part& part, int i, Global<Q> q, const Vec<Q, fp8_part>& codes) {
    if (part.whole) return store(q + part.row(i) * part.width + part.column(0), codes);
    for (int j = 0; j < fp8_part; ++j)
        if (part.row(i) < part.rows && part.column(j) < part.width)
            q[part.row(i) * part.width + part.column(j)] = codes[j];
}

// columns[j]: the thread's codes of a column, which are a run of a row of q_transposed. They go by shared memory, so
// that a row of the square is written as a whole; runs of a row lie there in such an order that threads that write,
// or read, at the same time do so in different banks.
template <typename Q, typename Square>
THUNDER_FUNCTION void store_transposed(const Fp8Part& part, Global<Q> q_transposed, Square square,
                                       const Vec<Q, fp8_part> (&columns)[fp8_part]) {
    constexpr int runs = fp8_square / fp8_part;
    THUNDER_UNROLL
    for (int j = 0; j < fp8_part; ++j)
        store(square + (part.tx * fp8_part + j) * fp8_square + (part.ty ^ part.tx) * fp8_part, columns[j]);
    barrier();
    THUNDER_UNROLL
    for (int k = 0; k < fp8_part; ++k) {
        const int to_row = k * runs + part.ty;  // thread tx writes its run tx
        const Vec<Q, fp8_part> run =
            load<fp8_part>(square + to_row * fp8_square + (part.tx ^ (to_row / fp8_part)) * fp8_part);
        const std::int64_t row = part.first_column + to_row, column = part.first_row + part.tx * fp8_part;
        if (part.whole) {
            store(q_transposed + row * part.rows + column, run);
        } else {
            for (int i = 0; i < fp8_part; ++i)
                if (row < part.width && column + i < part.rows) q_transposed[row * part.rows + column + i] = run[i];
        }
    }
}

// Codes of numbers times the scale.
template <typename Q, typename X>
THUNDER_FUNCTION Vec<Q, fp8_part> codes_of(const Vec<X, fp8_part>& numbers, float scale) {
    Vec<Q, fp8_part> codes;
    THUNDER_UNROLL
    for (int j = 0; j < fp8_part; j += 2) {
        const std::uint16_t two = two_codes(wide(numbers[j]) * scale, wide(numbers[j + 1]) * scale, Q{});
        codes[j] = static_cast<Q>(two & 0xffU);
        codes[j + 1] = static_cast<Q>(two >> 8);
    }
    return codes;
}

struct Fp8QuantiseSizes {
    std::int64_t rows, width, ld_x;
    bool vectors;  // whole squares are read and written in accesses of several elements
};

template <typename Q, typename X>
THUNDER_FUNCTION void fp8_quantise(Global<Q> q, Global<Q> q_transposed, Global<std::int32_t> amax,
                                   Global<float> inverse, Global<const X> x, Global<const float> scale_of_x,
                                   Fp8QuantiseSizes s) {
    THUNDER_SHARED(Q, square, fp8_square * fp8_square);  // transposed
    THUNDER_SHARED(float, warps, 8);
    const Fp8Part part(s.rows, s.width, s.vectors);
    Vec<X, fp8_part> numbers[fp8_part];  // of a row each
    THUNDER_UNROLL
    for (int i = 0; i < fp8_part; ++i) numbers[i] = load_run(part, i, x, s.ld_x);
    const float scale = scale_of_x[0];
    float largest = 0;
    Vec<Q, fp8_part> columns[fp8_part];
    THUNDER_UNROLL
    for (int i = 0; i < fp8_part; ++i) {
        THUNDER_UNROLL
        for (int j = 0; j < fp8_part; ++j) largest = larger_amax(largest, math::abs(wide(numbers[i][j])));
        const Vec<Q, fp8_part> codes = codes_of<Q>(numbers[i], scale);
        if (q) store_run(part, i, q, codes);
        THUNDER_UNROLL
        for (int j = 0; j < fp8_part; ++j) columns[j][i] = codes[j];
    }
    if (q_transposed) store_transposed(part, q_transposed, square, columns);
    if (amax) {
        largest = block_max<256>(largest, warps);
        // Of numbers without a sign the larger one has the larger bits: any order of blocks gives the same.
        if (thread_index() == 0) atomic_max(amax, static_cast<std::int32_t>(thunder::detail::bits_of(largest)));
    }
    if (inverse && block_index() == 0 && thread_index() == 0) inverse[0] = 1.0F / scale;
}

// The rest of it where the kernel that made x has written q: the first block has the amax of the rows' maxima as well.
template <typename Q>
THUNDER_FUNCTION void fp8_finish(Global<Q> q_transposed, Global<float> amax, Global<float> inverse, Global<const Q> q,
                                 Global<const float> maxima, Global<const float> scale, Fp8QuantiseSizes s) {
    THUNDER_SHARED(Q, square, fp8_square * fp8_square);  // transposed
    THUNDER_SHARED(float, warps, 8);
    if (q_transposed) {
        const Fp8Part part(s.rows, s.width, s.vectors);
        Vec<Q, fp8_part> codes[fp8_part], columns[fp8_part];
        THUNDER_UNROLL
        for (int i = 0; i < fp8_part; ++i) codes[i] = load_run(part, i, q, s.width);
        THUNDER_UNROLL
        for (int i = 0; i < fp8_part; ++i) {
            THUNDER_UNROLL
            for (int j = 0; j < fp8_part; ++j) columns[j][i] = codes[i][j];
        }
        store_transposed(part, q_transposed, square, columns);
    }
    if (block_index() != 0) return;
    if (amax) {
        float largest = 0;
        for (std::int64_t row = thread_index(); row < s.rows; row += 256) largest = larger_amax(largest, maxima[row]);
        largest = block_max<256>(largest, warps);
        if (thread_index() == 0) amax[0] = larger_amax(amax[0], largest);
    }
    if (thread_index() == 0) inverse[0] = 1.0F / scale[0];
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

// Of what the threads of a block have of one row, or column: `thread` is one of `group` that lie side by side.
template <typename Amaxes>
THUNDER_FUNCTION float amax_of_block(Amaxes of_threads, int thread, int group) {
    float amax = 0;
    for (int k = 0; k < group; ++k) amax = larger_amax(amax, of_threads[thread / group * group + k]);
    return amax;
}

template <typename Scale, typename X>
THUNDER_FUNCTION void fp8_quantise_blocks(Global<e4m3> q, Global<Scale> scales, Global<e4m3> q_transposed,
                                          Global<Scale> scales_transposed, Global<const X> x, Fp8BlockSizes s) {
    constexpr int side = fp8_square, mine = fp8_part, threads = side / mine;  // along a side of the square
    constexpr int pitch = threads + 1;                                        // rows begin in different banks
    THUNDER_SHARED(e4m3, square, side * side);                                // transposed
    THUNDER_SHARED(float, of_rows, side* pitch);                              // amaxes of what a thread has of a row
    THUNDER_SHARED(float, of_columns, side* pitch);
    THUNDER_SHARED(float, warps, 8);
    const Fp8Part part(s.rows, s.width, s.vectors);
    const int tx = part.tx, ty = part.ty;
    Vec<X, mine> numbers[mine];
    float in_rows[mine] = {}, in_columns[mine] = {}, in_square = 0;
    THUNDER_UNROLL
    for (int i = 0; i < mine; ++i) numbers[i] = load_run(part, i, x, s.ld_x);
    THUNDER_UNROLL
    for (int i = 0; i < mine; ++i) {
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
        of_rows[(ty * mine + i) * pitch + tx] = in_rows[i];
        of_columns[(tx * mine + i) * pitch + ty] = in_columns[i];
    }
    barrier();
    if (s.squares) in_square = block_max<256>(in_square, warps);
    const std::int64_t block = s.squares ? side : s.group * mine, row_blocks = (s.rows + block - 1) / block,
                       column_blocks = (s.width + block - 1) / block;
    if (q) {
        THUNDER_UNROLL
        for (int i = 0; i < mine; ++i) {
            Fp8BlockScale<Scale> scale;
            scale_block(scale, s.squares ? in_square : amax_of_block(of_rows + (ty * mine + i) * pitch, tx, s.group),
                        s);
            const bool first = tx % s.group == 0 && part.row(i) < s.rows && part.column(0) < s.width;
            if (first && (!s.squares || (ty == 0 && i == 0)))
                scales[(s.squares ? part.row(i) / side : part.row(i)) * column_blocks + part.column(0) / block] =
                    scale.scale;
            store_run(part, i, q, codes_of<e4m3>(numbers[i], scale.factor));
        }
    }
    if (!q_transposed) return;
    Vec<e4m3, mine> columns[mine];
    THUNDER_UNROLL
    for (int j = 0; j < mine; ++j) {
        const std::int64_t to_row = part.column(j);  // of the transposed copy
        Fp8BlockScale<Scale> scale;
        scale_block(scale, s.squares ? in_square : amax_of_block(of_columns + (tx * mine + j) * pitch, ty, s.group), s);
        const bool first = ty % s.group == 0 && to_row < s.width && part.row(0) < s.rows;
        if (first && (!s.squares || (tx == 0 && j == 0)))
            scales_transposed[(s.squares ? to_row / side : to_row) * row_blocks + part.row(0) / block] = scale.scale;
        Vec<X, mine> column;
        THUNDER_UNROLL
        for (int i = 0; i < mine; ++i) column[i] = numbers[i][j];
        columns[j] = codes_of<e4m3>(column, scale.factor);
    }
    store_transposed(part, q_transposed, square, columns);
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
        wait_for_previous_kernel();                                                                                \
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
        wait_for_previous_kernel();                                                                          \
        fp8_quantise(q, q_transposed, amax, inverse, x, scale, sizes);                                       \
    }
BUNDLED_FP8_QUANTISE(e4m3, f32, float)
BUNDLED_FP8_QUANTISE(e5m2, f32, float)
#define BUNDLED_NARROW_FP8_QUANTISE(X) BUNDLED_FP8_QUANTISE(e4m3, X, X) BUNDLED_FP8_QUANTISE(e5m2, X, X)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_FP8_QUANTISE)
#undef BUNDLED_NARROW_FP8_QUANTISE
#undef BUNDLED_FP8_QUANTISE

// bundled_fp8_finish_<type>
#define BUNDLED_FP8_FINISH(Q)                                                                                    \
    THUNDER_KERNEL(256)                                                                                          \
    bundled_fp8_finish_##Q(Global<Q> q_transposed, Global<float> amax, Global<float> inverse, Global<const Q> q, \
                           Global<const float> maxima, Global<const float> scale, Fp8QuantiseSizes sizes) {      \
        wait_for_previous_kernel();                                                                              \
        fp8_finish(q_transposed, amax, inverse, q, maxima, scale, sizes);                                        \
    }
BUNDLED_FP8_FINISH(e4m3)
BUNDLED_FP8_FINISH(e5m2)
#undef BUNDLED_FP8_FINISH

// bundled_fp8_product_<type of c>_<of a>_<of b>
#define BUNDLED_FP8_PRODUCT(suffix, C, A, B)                                                                \
    THUNDER_KERNEL(256)                                                                                     \
    bundled_fp8_product_##suffix##_##A##_##B(Aliased<C> c, Global<const A> a, Global<const B> b,            \
                                             Global<const float> inverse_a, Global<const float> inverse_b,  \
                                             Global<const float> bias, Global<const C> narrow_bias,         \
                                             Aliased<const C> residual, Fp8ProductSizes sizes) {            \
        wait_for_previous_kernel();                                                                         \
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
        wait_for_previous_kernel();                                                                                   \
        fp8_quantise_blocks(q, scales, q_transposed, scales_transposed, x, sizes);                                    \
    }                                                                                                                 \
    THUNDER_KERNEL(256)                                                                                               \
    bundled_fp8_block_product_##name##_##suffix(                                                                      \
        Aliased<X> c, Global<const e4m3> a, Global<const Scale> scales_a, int rows_a, Global<const e4m3> b,           \
        Global<const Scale> scales_b, int rows_b, int columns, Global<const float> bias, Global<const X> narrow_bias, \
        Aliased<const X> residual, Fp8ProductSizes sizes) {                                                           \
        wait_for_previous_kernel();                                                                                   \
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
    wait_for_previous_kernel();
    fp8_update_scale(scale, history, amax, largest, length, from_latest);
}

// A thread for each tensor.
THUNDER_KERNEL(256)
bundled_fp8_current_scale(Global<float> scale, Global<float> amax, float largest, bool powers_of_two, float least_amax,
                          std::int64_t tensors) {
    wait_for_previous_kernel();
    const std::int64_t t = global_index<256>();
    if (t >= tensors) return;
    scale[t] = current_scale(amax[t], largest, powers_of_two, least_amax);
    amax[t] = 0.0F;
}

}  // namespace thunder::bundled
