// SPDX-License-Identifier: Apache-2.0
// Numbers of eight bits, to f32 and back: one text for CPUs, GPUs and the emulated one, so that all of them quantise to
// the same bits. Arithmetic happens in f32, as with other narrow types; f16 and bf16 go through f32, which holds them.
#pragma once

#include <cstdint>

#include "device/scalars.h"
#include "support/mix_bits.h"  // THUNDER_HOST_DEVICE

namespace thunder {

// What becomes of a number past the largest one of its type, and of an infinity.
enum class Overflow : std::uint8_t {
    saturate,  // the largest number: what quantises does so
    lose,      // an infinity, or in e4m3, which has none, a NaN
};

namespace detail {

THUNDER_HOST_DEVICE inline std::uint32_t bits_of(float x) {
    return __builtin_bit_cast(std::uint32_t, x);
}
THUNDER_HOST_DEVICE inline float float_of(std::uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

// A magnitude of f32 (its bits without the sign; finite, or infinite) to the nearest one, ties to even, of a type with
// so many digits in base 2 and that least exponent, as if it went on without end above.
template <int digits, int least_exponent>
THUNDER_HOST_DEVICE inline std::uint32_t nearest_magnitude(std::uint32_t magnitude) {
    constexpr int cut = 24 - digits;  // places
    constexpr std::uint32_t rebias = static_cast<std::uint32_t>(least_exponent + 126) << 23;
    const std::uint32_t normal = (magnitude - rebias + (1U << (cut - 1)) - 1 + (magnitude >> cut & 1U)) >> cut;
    // Below the least normal number the last place stays what it is there. It is that of the floats from `base` on:
    // adding it rounds there.
    constexpr std::uint32_t base = static_cast<std::uint32_t>(least_exponent - digits + 24 + 127) << 23;
    const std::uint32_t small = bits_of(float_of(magnitude) + float_of(base)) - base;
    return magnitude < static_cast<std::uint32_t>(least_exponent + 127) << 23 ? small : normal;
}

// The bits of a type whose largest number has the bits `largest`, and what follows it in `Overflow::lose` the bits
// `beyond`. A NaN is 0x7f, as GPUs have it.
template <int digits, int least_exponent, std::uint32_t largest, std::uint32_t beyond>
THUNDER_HOST_DEVICE inline std::uint8_t eight_bits(float x, Overflow overflow) {
    const std::uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffffU;
    const std::uint32_t nearest = nearest_magnitude<digits, least_exponent>(magnitude);
    const std::uint32_t most = overflow == Overflow::saturate ? largest : beyond;
    const std::uint32_t signed_bits = (bits >> 24 & 0x80U) | (nearest > largest ? most : nearest);
    return static_cast<std::uint8_t>(magnitude > 0x7f800000U ? 0x7fU : signed_bits);
}

}  // namespace detail

THUNDER_HOST_DEVICE inline float to_float(e4m3 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x), magnitude = bits & 0x7fU;
    // Moved up, exponent and fraction are those of a float that is 2^120 times too small, subnormals included.
    const std::uint32_t finite = detail::bits_of(detail::float_of(magnitude << 20) * 0x1p120F);
    return detail::float_of((bits & 0x80U) << 24 | (magnitude == 0x7fU ? 0x7fc00000U : finite));
}
THUNDER_HOST_DEVICE inline float to_float(e5m2 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x), magnitude = bits & 0x7fU;
    const std::uint32_t finite = detail::bits_of(detail::float_of(magnitude << 21) * 0x1p112F);
    const std::uint32_t special = magnitude > 0x7cU ? 0x7fc00000U : 0x7f800000U;
    return detail::float_of((bits & 0x80U) << 24 | (magnitude >= 0x7cU ? special : finite));
}
THUNDER_HOST_DEVICE inline float to_float(e8m0 x) {
    const auto exponent = static_cast<std::uint32_t>(x);
    const std::uint32_t normal = exponent == 0xffU ? 0x7fc00000U : exponent << 23;
    return detail::float_of(exponent == 0 ? 0x00400000U : normal);  // 2^-127 is subnormal in f32
}

// To nearest, ties to even; a NaN stays one.
THUNDER_HOST_DEVICE inline e4m3 to_e4m3(float x, Overflow overflow) {
    return e4m3{detail::eight_bits<4, -6, 0x7e, 0x7f>(x, overflow)};
}
THUNDER_HOST_DEVICE inline e5m2 to_e5m2(float x, Overflow overflow) {
    return e5m2{detail::eight_bits<3, -14, 0x7b, 0x7c>(x, overflow)};
}
// The least power of two that is not below |x|; 2^-127 of 0, 2^127 of what is larger, of infinity too. A NaN stays one.
// So the numbers that are divided by it are no larger than they are divided by x.
THUNDER_HOST_DEVICE inline e8m0 to_e8m0(float x) {
    const std::uint32_t magnitude = detail::bits_of(x) & 0x7fffffffU;
    const std::uint32_t above = (magnitude + 0x7fffffU) >> 23, up = magnitude <= 0x00400000U ? 0 : above;
    const std::uint32_t exponent = up > 0xfeU ? 0xfeU : up;
    return e8m0{static_cast<std::uint8_t>(magnitude > 0x7f800000U ? 0xffU : exponent)};
}

// What two of a tensor's numbers become when they are quantised, the first one's code in the lower byte; and one. From
// sm_89 on GPUs have an instruction for two, which gives the bits of to_e4m3 and to_e5m2 (tests/gpu/providers/fp8.cpp
// asks it).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
__device__ inline std::uint16_t two_codes(float first, float second, e4m3) {
    std::uint16_t codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
}
__device__ inline std::uint16_t two_codes(float first, float second, e5m2) {
    std::uint16_t codes;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
}
template <typename T>
__device__ inline T quantised(float x) {
    return static_cast<T>(two_codes(x, 0.0F, T{}) & 0xffU);
}
#else
template <typename T>
THUNDER_HOST_DEVICE inline T quantised(float x);
template <>
THUNDER_HOST_DEVICE inline e4m3 quantised<e4m3>(float x) {
    return to_e4m3(x, Overflow::saturate);
}
template <>
THUNDER_HOST_DEVICE inline e5m2 quantised<e5m2>(float x) {
    return to_e5m2(x, Overflow::saturate);
}
template <typename T>
THUNDER_HOST_DEVICE inline std::uint16_t two_codes(float first, float second, T) {
    const auto low = static_cast<std::uint8_t>(quantised<T>(first)),
               high = static_cast<std::uint8_t>(quantised<T>(second));
    return static_cast<std::uint16_t>(low | high << 8);
}
#endif

// What an amax is the largest of: |x|, 0 of what is no number, which counts for nothing.
THUNDER_HOST_DEVICE inline float fp8_magnitude(float x) {
    const std::uint32_t magnitude = detail::bits_of(x) & 0x7fffffffU;
    return detail::float_of(magnitude > 0x7f800000U ? 0U : magnitude);
}

}  // namespace thunder
