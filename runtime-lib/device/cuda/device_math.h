// SPDX-License-Identifier: Apache-2.0
// Functions of one number for kernels on GPUs, by the names of vec_math.h: CUDA's f32 functions as they are without
// -use_fast_math, whose errors in units in the last place are those of the CUDA C++ Programming Guide's appendix on
// mathematical functions (exp, tanh, log1p 1 to 2; erf 2; sin, cos 2; pow 4). Infinities, NaN, zeros and subnormal
// numbers give what the standard's functions give.
//
// Included by device.h alone.
#pragma once

namespace thunder::math {

__device__ inline float infinity() {
    return __uint_as_float(0x7f800000U);
}
__device__ inline float quiet_nan() {
    return __uint_as_float(0x7fc00000U);
}
// The least number of a type: what a maximum of integers begins with, and those of attention and cross entropy.
template <typename T>
__device__ constexpr T lowest();
template <>
__device__ constexpr float lowest<float>() {
    return -3.40282346638528859812e38F;
}
template <>
__device__ constexpr double lowest<double>() {
    return -1.79769313486231570815e308;
}
template <>
__device__ constexpr std::int64_t lowest<std::int64_t>() {
    return -0x7fffffffffffffff - 1;
}
template <>
__device__ constexpr std::int32_t lowest<std::int32_t>() {
    return -0x7fffffff - 1;
}
template <>
__device__ constexpr bool lowest<bool>() {
    return false;
}
__device__ constexpr std::int64_t greatest() {
    return 0x7fffffffffffffff;
}

// Of conditions, by the names of vec_math.h, which has reasons for them.
__device__ inline bool is_set(bool flag) {
    return flag;
}
__device__ inline bool both(bool a, bool b) {
    return a && b;
}
__device__ inline bool either(bool a, bool b) {
    return a || b;
}
template <typename T>
__device__ inline T choose(bool condition, T a, T b) {
    return condition ? a : b;
}
template <typename T>
__device__ inline T number(bool condition) {
    return condition ? T{1} : T{0};
}

// The positive part; -0 and NaN stay.
template <typename T>
__device__ inline T relu(T x) {
    return x < 0 ? T{0} : x;
}

// NaN where either is, as PyTorch's minimum and maximum.
template <typename T>
__device__ inline T min(T a, T b) {
    return a < b || a != a ? a : b;
}
template <typename T>
__device__ inline T max(T a, T b) {
    return a > b || a != a ? a : b;
}
// Of integers: they wrap around, which in C++ only unsigned ones may.
template <typename T>
__device__ inline T add(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <typename T>
__device__ inline T sub(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
template <typename T>
__device__ inline T mul(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <typename T>
__device__ inline T neg(T x) {
    return math::sub<T>(0, x);
}
template <typename T>
__device__ inline T abs(T x) {
    return x < 0 ? math::neg<T>(x) : x;
}
__device__ inline float abs(float x) {
    return fabsf(x);
}
__device__ inline double abs(double x) {
    return fabs(x);
}

// Of integers. Towards zero; 0 where the divisor is 0. The smallest number over -1 wraps around to itself.
template <typename T>
__device__ inline T quotient(T a, T b) {
    if (b == 0) return 0;
    return b == -1 ? math::neg<T>(a) : a / b;
}
// Of a float towards zero; what no 64 bits hold becomes the nearest that they do, what is no number 0.
template <typename T, typename F>
__device__ inline T to_integer(F x) {
    if (x != x) return 0;
    if (x >= static_cast<F>(0x1p63F)) return static_cast<T>(math::greatest());
    if (x < static_cast<F>(-0x1p63F)) return static_cast<T>(math::lowest<std::int64_t>());
    return static_cast<T>(static_cast<std::int64_t>(x));
}
template <typename T>
__device__ inline T pow(T base, T exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    T result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) result = math::mul<T>(result, base);
        if (exponent > 1) base = math::mul<T>(base, base);
    }
    return result;
}

__device__ inline float exp(float x) {
    return expf(x);
}
__device__ inline float log(float x) {
    return logf(x);
}
__device__ inline float sqrt(float x) {
    return sqrtf(x);
}
// 1 / sqrt(x), both correctly rounded as on CPUs: rsqrt is taken once for a row.
__device__ inline float rsqrt(float x) {
    return 1.0F / sqrtf(x);
}
__device__ inline float reciprocal(float x) {
    return 1.0F / x;
}
__device__ inline float sin(float x) {
    return sinf(x);
}
__device__ inline float cos(float x) {
    return cosf(x);
}
__device__ inline float tanh(float x) {
    return tanhf(x);
}
__device__ inline float erf(float x) {
    return erff(x);
}
__device__ inline float pow(float x, float y) {
    return powf(x, y);
}
__device__ inline float floor(float x) {
    return floorf(x);
}
__device__ inline float ceil(float x) {
    return ceilf(x);
}
// Halves to the even one.
__device__ inline float nearbyint(float x) {
    return rintf(x);
}

// 1 / (1 + e^-x): nothing overflows, and no digits are lost where it is near 0. The reciprocal, of a number in [1, 2],
// is the hardware's, whose error is 1 ulp. 3 ulp.
__device__ inline float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(1.0F + e));
    return x < 0.0F ? e * r : r;
}
// ln(1 + e^x) without overflow.
__device__ inline float softplus(float x) {
    return math::max(x, 0.0F) + log1pf(expf(-fabsf(x)));
}

}  // namespace thunder::math
