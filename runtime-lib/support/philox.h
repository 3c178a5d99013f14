// SPDX-License-Identifier: Apache-2.0
// Random numbers that follow from a key and a counter alone: the same on every device, with any number of ranks and
// threads, in any order. Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "mix_bits.h"  // a neighbour: the compiler includes this file by a path of its own

namespace thunder {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
        const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
        counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

// 64-bit FNV-1a.
constexpr std::uint64_t hash_text(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

// The key of what has this name (a parameter, an op, the order of the data) under a seed.
constexpr PhiloxKey philox_key(std::uint64_t seed, std::string_view name) {
    const std::uint64_t key = mix_bits(seed) ^ hash_text(name);
    return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

}  // namespace thunder
