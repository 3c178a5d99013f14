// SPDX-License-Identifier: Apache-2.0
// What kernels of naive programs are made of, under the names that kernels of other programs have for theirs
// (vec_math.h, row_reduction.h, parallel.h): functions of the C library in double, sums in double in the order of the
// elements, loops of one thread. What judges must not share what it judges.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "device/stream.h"

namespace thunder::reference {

// ---- functions -----------------------------------------------------------------------------------------------------

namespace math {

// In double, rounded once.
template <typename Function>
inline float rounded(Function&& f, float x) {
    return static_cast<float>(f(static_cast<double>(x)));
}

inline float abs(float x) {
    return std::fabs(x);
}
inline float sqrt(float x) {
    return rounded([](double v) { return std::sqrt(v); }, x);
}
inline float rsqrt(float x) {
    return rounded([](double v) { return 1 / std::sqrt(v); }, x);
}
inline float reciprocal(float x) {
    return rounded([](double v) { return 1 / v; }, x);
}
inline float exp(float x) {
    return rounded([](double v) { return std::exp(v); }, x);
}
inline float expm1(float x) {
    return rounded([](double v) { return std::expm1(v); }, x);
}
inline float log(float x) {
    return rounded([](double v) { return std::log(v); }, x);
}
inline float log1p(float x) {
    return rounded([](double v) { return std::log1p(v); }, x);
}
inline float tanh(float x) {
    return rounded([](double v) { return std::tanh(v); }, x);
}
inline float sigmoid(float x) {
    return rounded([](double v) { return 1 / (1 + std::exp(-v)); }, x);
}
inline float erf(float x) {
    return rounded([](double v) { return std::erf(v); }, x);
}
inline float sin(float x) {
    return rounded([](double v) { return std::sin(v); }, x);
}
inline float cos(float x) {
    return rounded([](double v) { return std::cos(v); }, x);
}
inline float pow(float x, float y) {
    return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
}
// What is no number where either is none.
template <std::floating_point T>
inline T max(T a, T b) {
    return std::isnan(a) || a > b ? a : b;
}
template <std::floating_point T>
inline T min(T a, T b) {
    return std::isnan(a) || a < b ? a : b;
}

// Of conditions.
inline bool is_set(bool flag) {
    return flag;
}
inline bool both(bool a, bool b) {
    return a && b;
}
inline bool either(bool a, bool b) {
    return a || b;
}
template <typename T>
inline T choose(bool condition, T a, T b) {
    return condition ? a : b;
}
template <typename T>
inline T number(bool condition) {
    return condition ? T{1} : T{0};
}
// The positive part; -0 and what is no number stay.
template <typename T>
inline T relu(T x) {
    return x < 0 ? T{0} : x;
}

// Of integers, which wrap around.
template <std::integral T>
inline T add(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <std::integral T>
inline T sub(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
template <std::integral T>
inline T mul(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <std::integral T>
inline T neg(T x) {
    return sub(T{0}, x);
}
template <std::integral T>
inline T abs(T x) {
    return x < 0 ? neg(x) : x;
}
template <std::integral T>
inline T max(T a, T b) {
    return std::max(a, b);
}
template <std::integral T>
inline T min(T a, T b) {
    return std::min(a, b);
}
// Towards zero; 0 where the divisor is 0.
template <std::integral T>
inline T quotient(T a, T b) {
    if (b == 0) return 0;
    return b == -1 ? neg(a) : static_cast<T>(a / b);
}
// Of a float towards zero; what no 64 bits hold becomes the nearest that they do, what is no number 0.
template <std::integral T, std::floating_point F>
inline T to_integer(F x) {
    if (x != x) return 0;
    if (x >= static_cast<F>(0x1p63F)) return static_cast<T>(std::numeric_limits<std::int64_t>::max());
    if (x < static_cast<F>(-0x1p63F)) return static_cast<T>(std::numeric_limits<std::int64_t>::min());
    return static_cast<T>(static_cast<std::int64_t>(x));
}
template <std::integral T>
inline T pow(T base, T exponent) {
    if (exponent < 0) return base == 1 ? T{1} : base == -1 ? (exponent % 2 == 0 ? T{1} : T{-1}) : T{0};
    T result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) result = mul(result, base);
        base = mul(base, base);
    }
    return result;
}

}  // namespace math

// ---- loops ---------------------------------------------------------------------------------------------------------

template <typename Body>
inline void parallel_for(std::int64_t n, std::int64_t /*grain*/, Body&& body) {
    if (n > 0) body(std::int64_t{0}, n);
}
template <typename Body>
inline void parallel_rows(std::int64_t rows, std::int64_t /*width*/, Body&& body) {
    if (rows > 0) body(std::int64_t{0}, rows);
}

// ---- sums ----------------------------------------------------------------------------------------------------------

// The sum of the terms of add(n, term), each time of term(0), ..., term(n - 1).
template <typename T>
class RowSum {
  public:
    template <typename Term>
    void add(std::int64_t n, Term&& term) {
        for (std::int64_t i = 0; i < n; ++i) {
            if constexpr (std::is_integral_v<T>)
                sum_ = math::add<T>(sum_, term(i));
            else
                sum_ += static_cast<double>(term(i));
        }
    }
    T total() const { return static_cast<T>(sum_); }

  private:
    std::conditional_t<std::is_integral_v<T>, T, double> sum_ = 0;
};

// Likewise the greatest, of one term at least; no number where one of them is none.
template <typename T>
class RowMax {
  public:
    template <typename Term>
    void add(std::int64_t n, Term&& term) {
        for (std::int64_t i = 0; i < n; ++i) {
            const T x = term(i);
            most_ = any_ ? math::max(most_, x) : x;
            any_ = true;
        }
    }
    T total() const { return most_; }

  private:
    T most_ = {};
    bool any_ = false;
};

// term(0) + ... + term(n - 1)
template <typename T, typename Term>
inline T row_sum(std::int64_t n, Term&& term) {
    RowSum<T> sum;
    sum.add(n, term);
    return sum.total();
}

// The greatest of term(0) ... term(n - 1), n > 0.
template <typename T, typename Term>
inline T row_max(std::int64_t n, Term&& term) {
    RowMax<T> most;
    most.add(n, term);
    return most.total();
}

// Sums of `width` columns over `rows` rows: body(begin, end, sums) adds rows to sums[0, width), here all of them;
// finish(column, sum) takes each sum, rounded once.
template <typename Body, typename Finish>
inline void column_reduction(std::int64_t rows, std::int64_t width, Stream& /*stream*/, Body&& body, Finish&& finish) {
    std::vector<double> sums(static_cast<std::size_t>(width));
    body(std::int64_t{0}, rows, sums.data());
    for (std::size_t c = 0; c < sums.size(); ++c) finish(static_cast<std::int64_t>(c), static_cast<float>(sums[c]));
}

}  // namespace thunder::reference
