// SPDX-License-Identifier: Apache-2.0
// Small matrix products in registers, and transposes: what attention is made of.
//
// A tile of c, some rows by a few vectors of columns, stays in registers while its sum over k runs. Written with g++'s
// vector types, whose width follows what the file is compiled for.
#pragma once

#include <cstdint>
#include <cstring>

namespace thunder::tile {

#if defined(__AVX512F__)
constexpr int lanes = 16;
constexpr int max_rows = 6, max_vectors = 4;  // 24 of 32 registers hold sums
#elif defined(__AVX__)
constexpr int lanes = 8;
constexpr int max_rows = 6, max_vectors = 2;  // 12 of 16
#else
constexpr int lanes = 4;
constexpr int max_rows = 4, max_vectors = 2;
#endif

using Vector = float __attribute__((vector_size(lanes * 4)));
using Lanes = std::int32_t __attribute__((vector_size(lanes * 4)));
using Unaligned = float __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

inline Vector load(const float* p) {
    return *reinterpret_cast<const Unaligned*>(p);
}
inline void store(float* p, Vector v) {
    *reinterpret_cast<Unaligned*>(p) = v;
}

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) {
    return (n + to - 1) / to * to;
}
constexpr std::int64_t padded(std::int64_t n) {
    return round_up(n, lanes);
}

// c (up to max_rows rows x any number of columns that is a multiple of `lanes`) += or = sum over p < k of a(row, p) *
// b(p, :), where a(i, p) = a[i * a_row + p * a_k].
void strip(int rows, std::int64_t columns, float* c, std::int64_t ld_c, const float* a, std::int64_t a_row,
           std::int64_t a_k, const float* b, std::int64_t ld_b, std::int64_t k, bool accumulate);

// Rows of `columns` numbers, ld_from apart, to rows of `width` >= columns; the rest of each row is 0.
inline void pack_rows(float* to, std::int64_t width, const float* from, std::int64_t ld_from, std::int64_t rows,
                      std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) {
        std::memcpy(to + i * width, from + i * ld_from, static_cast<std::size_t>(columns) * sizeof(float));
        for (std::int64_t j = columns; j < width; ++j) to[i * width + j] = 0.0F;
    }
}

// to[j][i] = from[i][j] for i < rows, j < columns; to's rows are `width` >= rows long, the rest of each is 0.
void pack_transposed(float* to, std::int64_t width, const float* from, std::int64_t ld_from, std::int64_t rows,
                     std::int64_t columns);

}  // namespace thunder::tile
