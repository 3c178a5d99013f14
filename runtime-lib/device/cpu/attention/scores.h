// SPDX-License-Identifier: Apache-2.0
// What the two directions of attention share: which keys a row reads, and exponentials of base 2.
//
// Scores are kept in units of log2: x = scale log2(e) q k, so that softmax is 2^(x - max).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "device/cpu/attention/tile.h"
#include "device/cpu/draw.h"
#include "device/cpu/vec_math.h"

namespace thunder::attention {

constexpr std::int64_t key_block = 64;    // keys (and values) worked on at a time: their rows stay in L1
constexpr std::int64_t query_block = 48;  // queries that pass over them
constexpr float log2e = 1.44269504F, ln2 = 0.693147181F;
constexpr float lowest = -std::numeric_limits<float>::infinity();

// 2^x for x <= 0, 0 below -126. 1 ulp. Fewer steps than math::exp, which has the whole range.
inline float exp2_nonpositive(float x) {
    constexpr float round = 12582912.0F;  // 1.5 * 2^23
    const float y = x < -126.0F ? -126.0F : x;
    const float z = y + round;
    const float f = y - (z - round);
    float p = 1.5353257185779512e-4F;
    p = p * f + 1.339900423772633e-3F;
    p = p * f + 9.61843878030777e-3F;
    p = p * f + 5.550331994891167e-2F;
    p = p * f + 2.4022647738456726e-1F;
    p = p * f + 6.931471824645996e-1F;
    p = p * f + 1.0F;
    // the integer stands in the low bits of z: it goes to p's exponent
    const float value = math::float_of(math::bits_of(p) + (math::bits_of(z) << 23));
    return x < -126.0F ? 0.0F : value;
}

// Which keys the queries may read.
struct Mask {
    bool causal = false;
    std::int64_t window = 0;
    std::int64_t T = 0, S = 0;
    const bool* padding = nullptr;  // (B, S)

    // Row t reads keys in [first(t), last(t)), as far as padding lets it. Both never fall with t.
    std::int64_t first(std::int64_t t) const {
        return causal && window > 0 ? std::clamp<std::int64_t>(t + (S - T) - window + 1, 0, S) : 0;
    }
    std::int64_t last(std::int64_t t) const { return causal ? std::clamp<std::int64_t>(t + (S - T) + 1, 0, S) : S; }
    // Key s is read by rows in [first_row(s), last_row(s)).
    std::int64_t first_row(std::int64_t s) const { return causal ? std::clamp<std::int64_t>(s - (S - T), 0, T) : 0; }
    std::int64_t last_row(std::int64_t s) const {
        return causal && window > 0 ? std::clamp<std::int64_t>(s - (S - T) + window, 0, T) : T;
    }
};

// Scores of one row over keys [from, to) of a block that begins at key `block`, given as products q k: into units of
// log2, and -infinity where row t may not read. Returns the largest.
inline float mask_scores(float* x, std::int64_t from, std::int64_t to, std::int64_t block, std::int64_t t,
                         const Mask& mask, const bool* padding, float factor) {
    const auto first = static_cast<std::int32_t>(mask.first(t) - block),
               last = static_cast<std::int32_t>(mask.last(t) - block);
    float largest = lowest;
    const auto begin = static_cast<std::int32_t>(from), end = static_cast<std::int32_t>(to);
    if (first <= begin && last >= end && padding == nullptr) {
#pragma omp simd reduction(max : largest)
        for (std::int32_t j = begin; j < end; ++j) {
            x[j] *= factor;
            largest = x[j] > largest ? x[j] : largest;
        }
        return largest;
    }
#pragma omp simd reduction(max : largest)
    for (std::int32_t j = begin; j < end; ++j) {
        x[j] = j >= first && j < last ? x[j] * factor : lowest;
        largest = x[j] > largest ? x[j] : largest;
    }
    if (padding == nullptr) return largest;
    // padding is read within the sequence alone; columns behind it are there to fill a vector
    largest = lowest;
    const std::int32_t inside = std::min(end, last);
    for (std::int32_t j = std::max(begin, first); j < inside; ++j) {
        x[j] = padding[block + j] ? x[j] : lowest;
        largest = x[j] > largest ? x[j] : largest;
    }
    return largest;
}

// Dropout of the probabilities; no numbers: none.
struct Dropout {
    const std::int64_t* numbers = nullptr;  // (B)
    PhiloxKey key{};
    std::int32_t below = 0;
    float factor = 1.0F;  // of what stays
    std::int64_t T = 0, S = 0;

    template <typename Call>
    static Dropout of(const Call& call) {
        if (!call.seed) return {};
        return {static_cast<const std::int64_t*>(call.numbers.data),
                key_of_draw(call.seed, call.draw),
                draw_threshold(call.kept),
                static_cast<float>(1 / call.kept),
                call.T,
                call.S};
    }
    explicit operator bool() const { return numbers != nullptr; }

    // Words for row t of head h over keys [from, to) of a block that begins at key `block`: word j - from.
    static constexpr std::int64_t buffer = words_for(key_block);
    const std::uint32_t* words(std::uint32_t* buffer, std::int64_t b, std::int64_t h, std::int64_t t,
                               std::int64_t block, std::int64_t from, std::int64_t to) const {
        return draw_words(buffer, (h * T + t) * S + block + from, to - from, numbers[b], key);
    }
};

// A tensor of heads as the calls give it: element d of head h at position s of sequence b.
template <typename T>
struct Heads {
    T* data;
    std::int64_t positions, ld, HS;
    T* at(std::int64_t b, std::int64_t s, std::int64_t h) const { return data + (b * positions + s) * ld + h * HS; }
};

// Keys (or values) of every head, transposed, in blocks of key_block positions: [b][h][block][HS][key_block], zero past
// S.
inline std::int64_t blocks_of(std::int64_t S) {
    return (S + key_block - 1) / key_block;
}
inline std::int64_t transposed_elements(std::int64_t B, std::int64_t S, std::int64_t heads, std::int64_t HS) {
    return B * heads * blocks_of(S) * HS * key_block;
}
inline const float* transposed_block(const float* all, std::int64_t b, std::int64_t h, std::int64_t block,
                                     std::int64_t S, std::int64_t heads, std::int64_t HS) {
    return all + ((b * heads + h) * blocks_of(S) + block) * HS * key_block;
}
inline void transpose_block(float* all, const Heads<const float>& from, std::int64_t b, std::int64_t h,
                            std::int64_t block, std::int64_t heads) {
    const std::int64_t S = from.positions, s = block * key_block;
    auto* to = const_cast<float*>(transposed_block(all, b, h, block, S, heads, from.HS));
    tile::pack_transposed(to, key_block, from.at(b, s, h), from.ld, std::min(key_block, S - s), from.HS);
}

}  // namespace thunder::attention
