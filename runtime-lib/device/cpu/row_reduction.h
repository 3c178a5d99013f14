// SPDX-License-Identifier: Apache-2.0
// Sums and maxima within one row, by one thread, for generated kernels.
//
// 32 lanes take the elements in turn and are added as a tree: the order of the additions follows from the length of the
// row alone, or of the runs that it is cut into, whatever the width of the machine's vectors, and there are enough
// lanes to keep several vector additions in flight.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "device/cpu/vec_math.h"

namespace thunder {

namespace detail {

constexpr int lanes = 32;

// Each of n more terms goes to lane (index mod lanes); `combine` must not care for the order of its operands.
template <typename T, typename Term, typename Combine>
inline __attribute__((always_inline)) void add_terms(T* lane, std::int64_t n, Term&& term, Combine&& combine) {
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
#pragma omp simd
        for (int k = 0; k < lanes; ++k) lane[k] = combine(lane[k], term(i + k));
    }
    const int rest = static_cast<int>(n - i);
#pragma omp simd
    for (int k = 0; k < rest; ++k) lane[k] = combine(lane[k], term(i + k));
}

// All lanes as one.
template <typename T, typename Combine>
inline __attribute__((always_inline)) T join_lanes(const T* of_row, Combine&& combine) {
    T lane[lanes];
    for (int k = 0; k < lanes; ++k) lane[k] = of_row[k];
    for (int width = lanes / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; ++k) lane[k] = combine(lane[k], lane[k + width]);
    }
    return lane[0];
}

template <typename T>
inline __attribute__((always_inline)) T sum_of(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return math::add<T>(a, b);
    else
        return a + b;
}

template <typename T>
inline __attribute__((always_inline)) T greater_of(T a, T b) {
    return a > b || a != a ? a : b;
}

}  // namespace detail

// A sum of terms that come in runs, as the columns of a row do that lie in several dimensions: add(n, term) for each
// run adds term(0), ..., term(n - 1), total() is their sum. Integers wrap around.
template <typename T>
class RowSum {
  public:
    template <typename Term>
    inline __attribute__((always_inline)) void add(std::int64_t n, Term&& term) {
        detail::add_terms<T>(lane_, n, term, detail::sum_of<T>);
    }
    inline __attribute__((always_inline)) T total() const { return detail::join_lanes<T>(lane_, detail::sum_of<T>); }

  private:
    T lane_[detail::lanes] = {};
};

// Likewise the greatest of terms, of which there is one at least; NaN where one of them is.
template <typename T>
class RowMax {
  public:
    inline __attribute__((always_inline)) RowMax() {
        for (T& lane : lane_) lane = least;
    }
    template <typename Term>
    inline __attribute__((always_inline)) void add(std::int64_t n, Term&& term) {
        detail::add_terms<T>(lane_, n, term, detail::greater_of<T>);
    }
    inline __attribute__((always_inline)) T total() const {
        return detail::join_lanes<T>(lane_, detail::greater_of<T>);
    }

  private:
    static constexpr T least =
        std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    T lane_[detail::lanes];
};

// term(0) + ... + term(n - 1); integers wrap around.
template <typename T, typename Term>
inline __attribute__((always_inline)) T row_sum(std::int64_t n, Term&& term) {
    RowSum<T> sum;
    sum.add(n, term);
    return sum.total();
}

// The greatest of term(0) ... term(n - 1), n > 0; NaN where one of them is.
template <typename T, typename Term>
inline __attribute__((always_inline)) T row_max(std::int64_t n, Term&& term) {
    RowMax<T> most;
    most.add(n, term);
    return most.total();
}

}  // namespace thunder
