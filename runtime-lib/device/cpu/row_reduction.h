// SPDX-License-Identifier: Apache-2.0
// Sums and maxima within one row, by one thread, for generated kernels.
//
// 32 lanes take the elements in turn and are added as a tree: the order of the additions follows from the length of the
// row alone, whatever the width of the machine's vectors, and there are enough lanes to keep several vector additions
// in flight.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/cpu/vec_math.h"

namespace thunder {

namespace detail {

constexpr int lanes = 32;

// Each element goes to lane (index mod lanes); `combine` must not care for the order of its operands.
template <typename T, typename Term, typename Combine>
inline __attribute__((always_inline)) T reduce_row(std::int64_t n, T start, Term&& term, Combine&& combine) {
    T lane[lanes];
    for (int k = 0; k < lanes; ++k) lane[k] = start;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
#pragma omp simd
        for (int k = 0; k < lanes; ++k) lane[k] = combine(lane[k], term(i + k));
    }
    for (int k = 0; i + k < n; ++k) lane[k] = combine(lane[k], term(i + k));
    for (int width = lanes / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; ++k) lane[k] = combine(lane[k], lane[k + width]);
    }
    return lane[0];
}

}  // namespace detail

// term(0) + ... + term(n - 1); integers wrap around.
template <typename T, typename Term>
inline __attribute__((always_inline)) T row_sum(std::int64_t n, Term&& term) {
    return detail::reduce_row<T>(n, T{0}, term, [](T a, T b) {
        if constexpr (std::is_integral_v<T>)
            return math::add<T>(a, b);
        else
            return a + b;
    });
}

// The greatest of term(0) ... term(n - 1), n > 0; NaN where one of them is.
template <typename T, typename Term>
inline __attribute__((always_inline)) T row_max(std::int64_t n, Term&& term) {
    return detail::reduce_row<T>(n, static_cast<T>(term(0)), term, [](T a, T b) { return a > b || a != a ? a : b; });
}

}  // namespace thunder
