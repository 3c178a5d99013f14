// SPDX-License-Identifier: Apache-2.0
// Words of Philox4x32-10 (support/philox.h), many at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "device/types.h"
#include "support/philox.h"

namespace thunder {

inline std::uint32_t low_word(std::int64_t value) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value));
}
inline std::uint32_t high_word(std::int64_t value) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
}

#if defined(__AVX2__)

// A counter in each lane. A word lies in the lower half of 64 bits, where products of two words are made; what a
// product leaves in the upper half is never read, since the next product takes lower halves and the end cuts it off.
#if defined(__AVX512F__)
constexpr int draw_lanes = 8;
#else
constexpr int draw_lanes = 4;
#endif
using DrawWords = std::uint64_t __attribute__((vector_size(draw_lanes * 8)));

inline DrawWords words_product(DrawWords a, std::uint32_t b) {
    const DrawWords factor = DrawWords{} + b;
#if defined(__AVX512F__)
    // of all lanes: the form without a mask has g++ 12 warn of what its header leaves unset
    return reinterpret_cast<DrawWords>(
        _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(factor)));
#else
    return reinterpret_cast<DrawWords>(
        _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(factor)));
#endif
}

// Vectors that are drawn together: a round waits for its products, and so two of them take less than twice the time.
constexpr int draw_vectors = 2;
constexpr int drawn_together = 4 * draw_lanes * draw_vectors;

// So many words: those of the counters from `counter` on, one behind the other.
inline void draw_vector(std::uint32_t* words, std::uint64_t counter, std::int64_t row, const PhiloxKey& key) {
    DrawWords c0[draw_vectors], c1[draw_vectors], c2[draw_vectors], c3[draw_vectors];
    for (int v = 0; v < draw_vectors; ++v) {
        DrawWords place{};
        for (int lane = 0; lane < draw_lanes; ++lane)
            place[lane] = counter + static_cast<std::uint64_t>(v * draw_lanes + lane);
        c0[v] = place;
        c1[v] = place >> 32;
        c2[v] = DrawWords{} + low_word(row);
        c3[v] = DrawWords{} + high_word(row);
    }
    std::uint32_t k0 = key[0], k1 = key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
        for (int v = 0; v < draw_vectors; ++v) {
            const DrawWords a = words_product(c0[v], 0xD2511F53), b = words_product(c2[v], 0xCD9E8D57);
            c0[v] = (b >> 32) ^ c1[v] ^ (DrawWords{} + k0);
            c1[v] = b;
            c2[v] = (a >> 32) ^ c3[v] ^ (DrawWords{} + k1);
            c3[v] = a;
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    const DrawWords mask = DrawWords{} + 0xFFFFFFFF;
#pragma GCC unroll 2
    for (int v = 0; v < draw_vectors; ++v) {
        const DrawWords first = (c0[v] & mask) | (c1[v] << 32), second = (c2[v] & mask) | (c3[v] << 32);
#if defined(__AVX512F__)
        const DrawWords lower = __builtin_shuffle(first, second, DrawWords{0, 8, 1, 9, 2, 10, 3, 11});
        const DrawWords upper = __builtin_shuffle(first, second, DrawWords{4, 12, 5, 13, 6, 14, 7, 15});
#else
        const DrawWords lower = __builtin_shuffle(first, second, DrawWords{0, 4, 1, 5});
        const DrawWords upper = __builtin_shuffle(first, second, DrawWords{2, 6, 3, 7});
#endif
        std::memcpy(words + v * 4 * draw_lanes, &lower, sizeof lower);
        std::memcpy(words + v * 4 * draw_lanes + 2 * draw_lanes, &upper, sizeof upper);
    }
}

#else

constexpr int drawn_together = 4;

inline void draw_vector(std::uint32_t* words, std::uint64_t counter, std::int64_t row, const PhiloxKey& key) {
    const auto place = static_cast<std::int64_t>(counter);
    const PhiloxCounter drawn = philox({low_word(place), high_word(place), low_word(row), high_word(row)}, key);
    std::copy(drawn.begin(), drawn.end(), words);
}

#endif

// The key of a draw, by the calls' tensors of one i64.
inline PhiloxKey key_of_draw(const Input& seed, const Input& draw) {
    const auto one = [](const Input& input) { return low_word(*static_cast<const std::int64_t*>(input.data)); };
    return {one(draw), one(seed)};
}

// What the upper 24 bits of a word are below, where a number of [0, 1) is below p.
inline std::int32_t draw_threshold(double p) {
    return static_cast<std::int32_t>(std::ceil(p * 0x1p24));
}

// Elements that a buffer needs for n words from anywhere.
constexpr std::int64_t words_for(std::int64_t n) {
    return n + 2 * drawn_together;
}

// The words of places [first, first + n) of a row, in a buffer of words_for(n).
inline const std::uint32_t* draw_words(std::uint32_t* buffer, std::int64_t first, std::int64_t n, std::int64_t row,
                                       const PhiloxKey& key) {
    const std::int64_t skipped = first % 4, counter = first / 4;
    for (std::int64_t i = 0; i < skipped + n; i += drawn_together)
        draw_vector(buffer + i, static_cast<std::uint64_t>(counter + i / 4), row, key);
    return buffer + skipped;
}

}  // namespace thunder
