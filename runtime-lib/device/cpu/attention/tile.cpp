// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/attention/tile.h"

namespace thunder::tile {

namespace {

// One tile, its size known to the compiler, so that the sums are registers.
template <int Rows, int Vectors>
inline void product(float* c, std::int64_t ld_c, const float* a, std::int64_t a_row, std::int64_t a_k, const float* b,
                    std::int64_t ld_b, std::int64_t k, bool accumulate) {
    Vector sum[Rows][Vectors];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) sum[i][v] = accumulate ? load(c + i * ld_c + v * lanes) : Vector{};
    }
    for (std::int64_t p = 0; p < k; ++p) {
        Vector line[Vectors];
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) line[v] = load(b + p * ld_b + v * lanes);
#pragma GCC unroll 8
        for (int i = 0; i < Rows; ++i) {
            const float factor = a[i * a_row + p * a_k];
#pragma GCC unroll 8
            for (int v = 0; v < Vectors; ++v) sum[i][v] += factor * line[v];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) store(c + i * ld_c + v * lanes, sum[i][v]);
    }
}

template <int Vectors>
inline void product_rows(int rows, float* c, std::int64_t ld_c, const float* a, std::int64_t a_row, std::int64_t a_k,
                         const float* b, std::int64_t ld_b, std::int64_t k, bool accumulate) {
    switch (rows) {
        case 1: return product<1, Vectors>(c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
        case 2: return product<2, Vectors>(c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
        case 3: return product<3, Vectors>(c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
        case 4: return product<4, Vectors>(c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
        case 5:
            if constexpr (max_rows >= 5) return product<5, Vectors>(c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
            break;
        default:
            if constexpr (max_rows >= 6) return product<6, Vectors>(c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
    }
}

// One square of lanes x lanes, by exchanging ever smaller quarters (Eklundh).
inline void transpose_square(float* to, std::int64_t ld_to, const float* from, std::int64_t ld_from) {
    Vector row[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) row[i] = load(from + i * ld_from);
#pragma GCC unroll 4
    for (int half = lanes / 2; half > 0; half /= 2) {
        Lanes low{}, high{};
#pragma GCC unroll 16
        for (int lane = 0; lane < lanes; ++lane) {
            low[lane] = (lane & half) != 0 ? lanes + lane - half : lane;
            high[lane] = (lane & half) != 0 ? lanes + lane : lane + half;
        }
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) {
            if ((i & half) != 0) continue;
            const Vector a = row[i], b = row[i + half];
            row[i] = __builtin_shuffle(a, b, low);
            row[i + half] = __builtin_shuffle(a, b, high);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) store(to + i * ld_to, row[i]);
}

}  // namespace

void strip(int rows, std::int64_t columns, float* c, std::int64_t ld_c, const float* a, std::int64_t a_row,
           std::int64_t a_k, const float* b, std::int64_t ld_b, std::int64_t k, bool accumulate) {
    std::int64_t vectors = columns / lanes;
    while (vectors > 0) {
        // five vectors as three and two rather than four and one: a lone vector waits for its own sums
        const std::int64_t now = vectors == max_vectors + 1 ? (max_vectors + 2) / 2
                                 : vectors < max_vectors    ? vectors
                                                            : max_vectors;
        switch (now) {
            case 1: product_rows<1>(rows, c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate); break;
            case 2: product_rows<2>(rows, c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate); break;
            case 3:
                if constexpr (max_vectors >= 3) product_rows<3>(rows, c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
                break;
            default:
                if constexpr (max_vectors >= 4) product_rows<4>(rows, c, ld_c, a, a_row, a_k, b, ld_b, k, accumulate);
        }
        c += now * lanes;
        b += now * lanes;
        vectors -= now;
    }
}

void pack_transposed(float* to, std::int64_t width, const float* from, std::int64_t ld_from, std::int64_t rows,
                     std::int64_t columns) {
    const std::int64_t whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
    for (std::int64_t i = 0; i < whole_rows; i += lanes) {
        for (std::int64_t j = 0; j < whole_columns; j += lanes)
            transpose_square(to + j * width + i, width, from + i * ld_from + j, ld_from);
    }
    for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
            to[j * width + i] = from[i * ld_from + j];
        for (std::int64_t i = rows; i < width; ++i) to[j * width + i] = 0.0F;
    }
}

}  // namespace thunder::tile
