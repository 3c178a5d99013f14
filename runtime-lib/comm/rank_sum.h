// SPDX-License-Identifier: Apache-2.0
// Sums over ranks on a CPU: in the order of the ranks, in f32, rounded once; and the largest of their numbers.
#pragma once

#include <cstdint>
#include <span>

#include "device/api.h"
#include "device/cpu/narrow.h"
#include "device/types.h"

namespace thunder {

namespace rank_sum {

template <typename To, typename From>
void sum(To* to, std::span<const Input> parts, std::int64_t elements, WriteMode mode) {
    // Pieces that stay in a core's cache while the parts are added one after the other.
    constexpr std::int64_t piece = 4096;
    float total[piece];
    for (std::int64_t begin = 0; begin < elements; begin += piece) {
        const std::int64_t n = begin + piece < elements ? piece : elements - begin;
        const From* first = static_cast<const From*>(parts[0].data) + begin;
        for (std::int64_t i = 0; i < n; ++i) total[i] = to_float(first[i]);
        for (const Input& part : parts.subspan(1)) {
            const From* next = static_cast<const From*>(part.data) + begin;
            for (std::int64_t i = 0; i < n; ++i) total[i] += to_float(next[i]);
        }
        To* out = to + begin;
        if (mode == WriteMode::add) {
            for (std::int64_t i = 0; i < n; ++i) out[i] = narrowed<To>(to_float(out[i]) + total[i]);
        } else {
            for (std::int64_t i = 0; i < n; ++i) out[i] = narrowed<To>(total[i]);
        }
    }
}

}  // namespace rank_sum

// to = parts[0] + parts[1] + ..., or to += that; the parts are of one type of floating point, and so is `to`. It may be
// one of the parts.
inline void sum_in_rank_order(const Output& to, std::span<const Input> parts, std::int64_t elements, WriteMode mode) {
    with_float(to.dtype, [&]<typename To>(To*) {
        with_float(parts[0].dtype, [&]<typename From>(From*) {
            rank_sum::sum<To, From>(static_cast<To*>(to.data), parts, elements, mode);
        });
    });
}

// to = the largest of parts[0], parts[1], ..., of f32 all of them. It may be one of the parts.
inline void max_of_ranks(const Output& to, std::span<const Input> parts, std::int64_t elements) {
    auto* out = static_cast<float*>(to.data);
    for (std::int64_t i = 0; i < elements; ++i) {
        float largest = static_cast<const float*>(parts[0].data)[i];
        for (const Input& part : parts.subspan(1)) {
            const float other = static_cast<const float*>(part.data)[i];
            if (other > largest) largest = other;
        }
        out[i] = largest;
    }
}

}  // namespace thunder
