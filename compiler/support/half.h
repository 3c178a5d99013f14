// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating point types as f32, which holds each of their values exactly.
#pragma once

#include <bit>
#include <cstdint>

namespace thunderc {

// The upper half of an f32.
inline float bf16_value(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The bits of an f32 that a bf16 holds exactly.
inline std::uint16_t bf16_bits(float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

// IEEE binary16: moved up, exponent and fraction are those of an f32 that is 2^112 times too small, subnormals
// included.
inline float f16_value(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude << 13));  // infinity, NaN
    const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace thunderc
