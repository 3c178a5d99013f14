// SPDX-License-Identifier: Apache-2.0
// bf16 on a CPU: storage, with arithmetic in f32. Nothing of vec_math.h: naive programs have functions of their own.
#pragma once

#include <bit>
#include <cstdint>

#include "device/types.h"

namespace thunder {

inline float to_float(bf16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16U);
}
// To nearest, ties to even; a NaN stays one.
inline bf16 to_bf16(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    return bf16{static_cast<std::uint16_t>((nan ? bits | 0x400000U : rounded) >> 16U)};
}

}  // namespace thunder
