// SPDX-License-Identifier: Apache-2.0
// Elementary functions of one float as branch-free polynomials.
//
// They are plain inline functions of scalars: in a loop g++ turns them into vectors of any width (libm's are calls, and
// have vector forms only under -ffast-math, which changes values). Selects replace branches, so that both sides are
// always computed. Errors are in units in the last place of the result, against the function in double, over all floats
// unless a range is given; tests/runtime/kernels/vec_math_test.cpp holds them to it. Inf, NaN, zeros and subnormal
// numbers give what the standard's functions give.
//
// The same bits on every machine need the same contraction of a*b+c: with FMA instructions the compiler uses them.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace thunder::math {

inline std::uint32_t bits_of(float x) {
    return std::bit_cast<std::uint32_t>(x);
}
inline float float_of(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}

inline float abs(float x) {
    return float_of(bits_of(x) & 0x7fffffffU);
}
// The magnitude of `x` with the sign of `sign`.
inline float copysign(float x, float sign) {
    return float_of((bits_of(x) & 0x7fffffffU) | (bits_of(sign) & 0x80000000U));
}

// g++ 12 makes no vectors of a loop that reads a bool as one, that branches around `&&`, `||` or a choice of which one
// side is a load, or that asks of a chosen number what the choice has told. So bools are read as bytes and combined as
// bits, and what is chosen is computed on both sides and taken by a mask.
inline bool is_set(const bool& flag) {
    return reinterpret_cast<const unsigned char&>(flag) != 0;
}
inline bool both(bool a, bool b) {
    return a & b;
}
inline bool either(bool a, bool b) {
    return a | b;
}
// 1 or 0.
template <typename T>
inline T number(bool condition) {
    return condition ? T{1} : T{0};
}
// `a` where `condition` holds, else `b`.
template <typename T>
inline T choose(bool condition, T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
        return (condition & a) | (!condition & b);
    } else {
        static_assert(sizeof(T) <= 8);
        using Short = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
        using Long = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        using Bits = std::conditional_t<sizeof(T) <= 2, Short, Long>;
        const auto mask = static_cast<Bits>(-static_cast<Bits>(condition));
        return std::bit_cast<T>(
            static_cast<Bits>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & static_cast<Bits>(~mask))));
    }
}

// The positive part: -0 and NaN stay what they are, as PyTorch has it.
template <typename T>
inline T relu(T x) {
    return choose<T>(x < 0, T{0}, x);
}

// NaN where either is (unlike fmin and fmax), as PyTorch's minimum and maximum.
template <std::floating_point T>
inline T min(T a, T b) {
    return math::choose<T>((a < b) | (a != a), a, b);
}
template <std::floating_point T>
inline T max(T a, T b) {
    return math::choose<T>((a > b) | (a != a), a, b);
}

// Of integers, for indices and masks in generated kernels. They wrap around, as ONNX's and PyTorch's do; as C++ has it,
// only unsigned ones may. Of at least 64 bits: the product of two 16-bit numbers would be one of signed ints.
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
inline T min(T a, T b) {
    return a < b ? a : b;
}
template <std::integral T>
inline T max(T a, T b) {
    return a > b ? a : b;
}
// Towards zero; 0 where the divisor is 0. The smallest number over -1 wraps around to itself.
template <std::integral T>
inline T quotient(T a, T b) {
    if (b == 0) return 0;
    return b == -1 ? neg(a) : a / b;
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
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    T result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) result = mul(result, base);
        if (exponent > 1) base = mul(base, base);
    }
    return result;
}

inline float sqrt(float x) {
    return __builtin_sqrtf(x);
}
inline float rsqrt(float x) {
    return 1.0F / __builtin_sqrtf(x);
}
inline float reciprocal(float x) {
    return 1.0F / x;
}

namespace detail {

// x = n ln2 + r with |r| <= ln2 / 2; n as a float and as an integer.
struct ExpReduction {
    float r;
    std::int32_t n;
};
inline ExpReduction reduce_exp(float x) {
    constexpr float round = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const float z = x * 1.44269504F + round;
    const float n = z - round;
    // ln2 in two parts; the first has 9 bits, so that n times it is exact
    const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
    return {r, static_cast<std::int32_t>(bits_of(z) - bits_of(round))};
}
// 2^n for n in [-126, 127]
inline float power_of_two(std::int32_t n) {
    return float_of(static_cast<std::uint32_t>(n + 127) << 23);
}

// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2
inline float exp_tail(float r) {
    float p = 1.381446490995586e-3F;
    p = p * r + 8.368780836462975e-3F;
    p = p * r + 4.166839271783829e-2F;
    p = p * r + 1.666651964187622e-1F;
    return p * r + 4.999999403953552e-1F;
}

// log(1 + m) for m in [-1/3, 1/3]
inline float log1p_small(float m) {
    float p = -1.2948833405971527e-1F;
    p = p * m + 1.4004762470722198e-1F;
    p = p * m + -1.2167185544967651e-1F;
    p = p * m + 1.4001159369945526e-1F;
    p = p * m + -1.6682302951812744e-1F;
    p = p * m + 2.0010747015476227e-1F;
    p = p * m + -2.4999716877937317e-1F;
    p = p * m + 3.333320915699005e-1F;
    p = p * m + -0.5F;
    return p * (m * m) + m;
}

// x = n pi/2 + r with |r| <= pi/4, in double: good to 1e-10 for |x| up to 1e7 and more. `quadrant` is n mod 4.
struct AngleReduction {
    float r;
    std::uint32_t quadrant;
};
inline AngleReduction reduce_angle(float x) {
    constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
    const double wide = x;
    const double z = wide * 0.63661977236758134308 + round;
    const double n = z - round;
    // pi/2 in two parts, the first of 33 bits
    double r = (wide - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    // past 2^40 nothing is left of the angle; keep the polynomials in their range
    r = r > 0.7854 ? 0.7854 : r;
    r = r < -0.7854 ? -0.7854 : r;
    return {static_cast<float>(r), static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(z)) & 3U};
}
inline float sin_small(float r) {
    const float z = r * r;
    float p = 2.717874622248928e-6F;
    p = p * z + -1.9839289598166943e-4F;
    p = p * z + 8.333329111337662e-3F;
    p = p * z + -1.666666716337204e-1F;
    return p * (z * r) + r;
}
inline float cos_small(float r) {
    const float z = r * r;
    float p = 2.4434211809420958e-5F;
    p = p * z + -1.3887331588193774e-3F;
    p = p * z + 4.166664555668831e-2F;
    return p * (z * z) + (1.0F - 0.5F * z);
}

}  // namespace detail

// e^x. 1.1 ulp.
inline float exp(float x) {
    // past these the result is 0 or infinite anyway; NaN passes both
    float y = x < -105.0F ? -105.0F : x;
    y = y > 89.0F ? 89.0F : y;
    const auto [r, n] = detail::reduce_exp(y);
    const float p = detail::exp_tail(r) * (r * r) + r + 1.0F;
    // in two steps, since 2^n alone may be subnormal or too large
    const std::int32_t half = n >> 1;
    return p * detail::power_of_two(half) * detail::power_of_two(n - half);
}

// e^x - 1. 2 ulp.
inline float expm1(float x) {
    float y = x < -105.0F ? -105.0F : x;
    y = y > 89.0F ? 89.0F : y;
    const auto [r, n] = detail::reduce_exp(y);
    const float q = detail::exp_tail(r) * (r * r) + r;  // e^r - 1
    const std::int32_t half = n >> 1;
    const float s = detail::power_of_two(half), t = detail::power_of_two(n - half);
    // 2^n (q + 1) - 1 = 2^n q + (2^n - 1); the latter is exact for n in [-24, 24] and irrelevant elsewhere
    const float far = (q + 1.0F) * s * t - 1.0F;
    const float near = q * s * t + (s * t - 1.0F);
    const float result = n < -24 || n > 24 ? far : near;
    return n == 0 ? (x == 0.0F ? x : q) : result;
}

// ln x. 1 ulp.
inline float log(float x) {
    const bool subnormal = x < 1.17549435e-38F;
    const float y = subnormal ? x * 8388608.0F : x;
    // y = 2^e (1 + m), 1 + m in [2/3, 4/3)
    const std::uint32_t e = (bits_of(y) - 0x3f2aaaabU) & 0xff800000U;
    const float m = float_of(bits_of(y) - e) - 1.0F;
    const float n = static_cast<float>(static_cast<std::int32_t>(e) >> 23) - (subnormal ? 23.0F : 0.0F);
    // ln2 in two parts; the first has 9 bits, so that n times it is exact
    float result = detail::log1p_small(m) + n * -2.12194440e-4F + n * 0.693359375F;
    result = x == 0.0F ? -std::numeric_limits<float>::infinity() : result;
    result = x < 0.0F ? std::numeric_limits<float>::quiet_NaN() : result;
    return x < std::numeric_limits<float>::infinity() ? result : x + x;  // infinity and NaN
}

// ln(1 + x). 2 ulp.
inline float log1p(float x) {
    const float u = 1.0F + x;
    const float lost = (u - 1.0F) - x;  // what rounding 1 + x added
    const float far = log(u) - lost / u;
    const bool small = abs(x) < 0.33F;
    const float near = detail::log1p_small(small ? x : 0.0F);
    const float result = u > 0.0F && u < std::numeric_limits<float>::infinity() ? far : log(u);
    return small ? near : result;
}

// sigmoid(x) and 1 - sigmoid(x), which is sigmoid(-x): neither loses digits where the other is near 1.
struct SigmoidPair {
    float s, rest;
};
inline SigmoidPair sigmoid_pair(float x) {
    const float e = math::exp(-math::abs(x));
    const float r = 1.0F / (1.0F + e);
    return {x < 0.0F ? e * r : r, x < 0.0F ? r : e * r};
}

// 1 / (1 + e^-x). 3 ulp.
inline float sigmoid(float x) {
    const float e = math::exp(-math::abs(x));
    const float r = 1.0F / (1.0F + e);
    return x < 0.0F ? e * r : r;
}

// 2.5 ulp.
inline float tanh(float x) {
    const float a = math::abs(x);
    const float z = x * x;
    float p = 2.1597188897430897e-3F;
    p = p * z + -8.194981142878532e-3F;
    p = p * z + 2.170751243829727e-2F;
    p = p * z + -5.3947947919368744e-2F;
    p = p * z + 1.3333214819431305e-1F;
    p = p * z + -3.333333134651184e-1F;
    const float near = p * (z * x) + x;  // up to 0.62
    const float far = 1.0F - 2.0F / (math::exp(a + a) + 1.0F);
    return copysign(a < 0.62F ? near : far, x);  // near may have lost the sign of zero
}

// The error function. 1.5 ulp. The two polynomials are N. Juffa's (public domain, stackoverflow.com/a/35148199).
inline float erf(float x) {
    const float s = x * x;
    float t = math::abs(x);
    t = t > 4.0F ? 4.0F : t;  // 1 from there on
    float r = t * -1.72853470e-5F + 3.83197126e-4F;
    const float u = t * -3.88396438e-3F + 2.42546219e-2F;
    r = r * (t * t) + u;
    r = r * t + -1.06777877e-1F;
    r = r * t + -6.34846687e-1F;
    r = r * t + -1.28717512e-1F;
    r = r * t - t;
    const float far = copysign(1.0F - math::exp(r), x);
    float p = -5.96761703e-4F;
    p = p * s + 4.99119423e-3F;
    p = p * s + -2.67681349e-2F;
    p = p * s + 1.12819925e-1F;
    p = p * s + -3.76125336e-1F;
    p = p * s + 1.28379166e-1F;
    const float near = p * x + x;
    return t > 0.927734375F ? far : (t == t ? near : x);
}

// sin and cos: 2 ulp, or 3e-9 where that is more (near multiples of pi/2), for |x| up to 1e7; past that the error
// grows with |x|, and past 1e12 no digit is right. The result never leaves [-1, 1].
inline float sin(float x) {
    const auto [r, quadrant] = detail::reduce_angle(x);
    const float s = detail::sin_small(r), c = detail::cos_small(r);
    const float value = (quadrant & 1U) != 0 ? c : s;
    const float result = float_of(bits_of(value) ^ ((quadrant & 2U) << 30));
    return x == 0.0F ? x : result + (x - x);  // infinity gives NaN
}
inline float cos(float x) {
    const auto [r, quadrant] = detail::reduce_angle(x);
    const float s = detail::sin_small(r), c = detail::cos_small(r);
    const float value = (quadrant & 1U) != 0 ? s : c;
    return float_of(bits_of(value) ^ (((quadrant + 1U) & 2U) << 30)) + (x - x);
}

// x^y with the standard's special cases. 1 ulp: the logarithm is taken in double.
inline float pow(float x, float y) {
    // log2 |x| = e + log2(1 + m), m in [-1/3, 1/3], by 2/ln2 atanh(s), s = m / (2 + m), |s| <= 1/5
    const auto a = static_cast<double>(math::abs(x));
    const auto bits = std::bit_cast<std::uint64_t>(a);
    const std::uint64_t e = (bits - 0x3fe5555555555555ULL) & 0xfff0000000000000ULL;
    const double m = std::bit_cast<double>(bits - e) - 1.0;
    // the exponent as a double, without a conversion of 64-bit integers (which older CPUs lack as a vector)
    const auto n = static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(e >> 32)) >> 20);
    const double s = m / (2.0 + m);
    const double z = s * s;
    double p = 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    double log2x = n + p * s * 2.88539008177792681472;
    log2x = a == 0.0 ? -std::numeric_limits<double>::infinity() : log2x;
    log2x = a == std::numeric_limits<double>::infinity() ? a : log2x;
    // 2^(y log2 |x|); results outside [-160, 160] are 0 or infinite
    double t = static_cast<double>(y) * log2x;
    t = t < -160.0 ? -160.0 : t;
    t = t > 160.0 ? 160.0 : t;
    constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
    const double k = (t + round) - round;
    const double f = (t - k) * 0.69314718055994530942;
    double q = 1.0 / 3628800.0;
    q = q * f + 1.0 / 362880.0;
    q = q * f + 1.0 / 40320.0;
    q = q * f + 1.0 / 5040.0;
    q = q * f + 1.0 / 720.0;
    q = q * f + 1.0 / 120.0;
    q = q * f + 1.0 / 24.0;
    q = q * f + 1.0 / 6.0;
    q = q * f + 0.5;
    q = q * f + 1.0;
    q = q * f + 1.0;
    const std::uint64_t scale = (std::bit_cast<std::uint64_t>(t + round) + 1023ULL) << 52;
    auto magnitude = static_cast<float>(q * std::bit_cast<double>(scale));
    // whole exponents keep or drop the sign; others of negative numbers are NaN. Floats past 2^24 are even.
    const float ay = math::abs(y);
    constexpr float whole_round = 8388608.0F;  // 2^23
    const float nearest = (ay + whole_round) - whole_round;
    const bool whole = ay >= whole_round || nearest == ay;
    const float half = ay * 0.5F;
    const bool odd = whole && ay < 2.0F * whole_round && (half + whole_round) - whole_round != half;
    const bool negative = (bits_of(x) >> 31) != 0;
    float result = negative && odd ? -magnitude : magnitude;
    result = x < 0.0F && !whole && x > -std::numeric_limits<float>::infinity() ? std::numeric_limits<float>::quiet_NaN()
                                                                               : result;
    result = x != x || y != y ? x + y : result;
    return y == 0.0F || x == 1.0F || (x == -1.0F && ay == std::numeric_limits<float>::infinity()) ? 1.0F : result;
}

// ln(1 + e^x) without overflow.
inline float softplus(float x) {
    const float e = math::exp(-math::abs(x));
    return math::max(x, 0.0F) + math::log1p(e);
}

}  // namespace thunder::math

// Generated kernels call these functions by the name of the file that holds them.
namespace thunder {
namespace vec_math = math;
}
