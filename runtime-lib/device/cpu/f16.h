// SPDX-License-Identifier: Apache-2.0
// f16 on a CPU: storage, with arithmetic in f32. Plain operations on bits, which vectorise everywhere.
#pragma once

#include <bit>
#include <cstdint>

#include "device/scalars.h"

namespace thunder {

// Moved up, exponent and fraction are those of a float that is 2^112 times too small, subnormals included.
inline float to_float(f16 x) {
    const auto bits = static_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits & 0x8000U) << 16U, magnitude = bits & 0x7fffU;
    const float value = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
    const std::uint32_t finite = std::bit_cast<std::uint32_t>(value), special = 0x7f800000U | magnitude << 13U;
    return std::bit_cast<float>(sign | (magnitude >= 0x7c00U ? special : finite));
}
// To nearest, ties to even; past 65519.99 it is infinite, a NaN stays one.
inline f16 to_f16(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffU;
    const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
    // Below 2^-14 the last place is 2^-24, as that of a float in [0.5, 1): adding 0.5 rounds there.
    const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    std::uint32_t rounded = magnitude < 0x38800000U ? small : normal;
    rounded = magnitude >= 0x477ff000U ? 0x7c00U : rounded;
    rounded = magnitude > 0x7f800000U ? 0x7e00U | ((magnitude >> 13U) & 0x3ffU) : rounded;
    return f16{static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | rounded)};
}

}  // namespace thunder
