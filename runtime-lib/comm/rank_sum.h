// SPDX-License-Identifier: Apache-2.0
// Sums over ranks on a CPU: in the order of the ranks, in f32, rounded once.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "device/api.h"
#include "device/types.h"

namespace thunder {

namespace rank_sum {

inline float read(const float& x) {
    return x;
}
inline float read(const bf16& x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16U);
}
inline void write(float& to, float x) {
    to = x;
}
// To nearest, ties to even; a NaN stays one.
inline void write(bf16& to, float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    to.bits = static_cast<std::uint16_t>((nan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

template <typename To, typename From>
void sum(To* to, std::span<const Input> parts, std::int64_t elements, Gradient gradient) {
    // Pieces that stay in a core's cache while the parts are added one after the other.
    constexpr std::int64_t piece = 4096;
    float total[piece];
    for (std::int64_t begin = 0; begin < elements; begin += piece) {
        const std::int64_t n = begin + piece < elements ? piece : elements - begin;
        const From* first = static_cast<const From*>(parts[0].data) + begin;
        for (std::int64_t i = 0; i < n; ++i) total[i] = read(first[i]);
        for (const Input& part : parts.subspan(1)) {
            const From* next = static_cast<const From*>(part.data) + begin;
            for (std::int64_t i = 0; i < n; ++i) total[i] += read(next[i]);
        }
        To* out = to + begin;
        if (gradient == Gradient::add) {
            for (std::int64_t i = 0; i < n; ++i) write(out[i], read(out[i]) + total[i]);
        } else {
            for (std::int64_t i = 0; i < n; ++i) write(out[i], total[i]);
        }
    }
}

}  // namespace rank_sum

// to = parts[0] + parts[1] + ..., or to += that; the parts are of one type, f32 or bf16, and so is `to`. It may be one
// of the parts.
inline void sum_in_rank_order(const Output& to, std::span<const Input> parts, std::int64_t elements,
                              Gradient gradient) {
    const bool wide = to.dtype == DType::f32, wide_parts = parts[0].dtype == DType::f32;
    auto* f = static_cast<float*>(to.data);
    auto* b = static_cast<bf16*>(to.data);
    if (wide && wide_parts) {
        rank_sum::sum<float, float>(f, parts, elements, gradient);
    } else if (wide) {
        rank_sum::sum<float, bf16>(f, parts, elements, gradient);
    } else if (wide_parts) {
        rank_sum::sum<bf16, float>(b, parts, elements, gradient);
    } else {
        rank_sum::sum<bf16, bf16>(b, parts, elements, gradient);
    }
}

}  // namespace thunder
