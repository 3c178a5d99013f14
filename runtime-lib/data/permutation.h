// SPDX-License-Identifier: Apache-2.0
// A random order of n things that is never held in memory: where the i-th comes from is computed from i.
#pragma once

#include <bit>
#include <cstdint>

#include "support/philox.h"

namespace thunder {

// A permutation of [0, n) for each seed and epoch: a Feistel network over the next even number of bits whose rounds are
// Philox, walked until the result is below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The
// numbers of that many bits are fewer than 4 n, so that a walk takes fewer than four turns on average.
class Permutation {
  public:
    Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
        : n_(n), epoch_(epoch), key_(philox_key(seed, "data order")) {
        const int bits = n > 1 ? std::bit_width(n - 1) : 1;
        half_ = (bits + 1) / 2;
    }

    std::uint64_t operator()(std::uint64_t i) const {
        if (n_ <= 1) return 0;
        do {
            i = network(i);
        } while (i >= n_);
        return i;
    }

  private:
    std::uint64_t network(std::uint64_t i) const {
        const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
        std::uint64_t left = i >> half_, right = i & mask;
        for (std::uint32_t round = 0; round < 6; ++round) {
            const PhiloxCounter random =
                philox({static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch_),
                        static_cast<std::uint32_t>(epoch_ >> 32)},
                       key_);
            const std::uint64_t next = left ^ (random[0] & mask);
            left = right;
            right = next;
        }
        return left << half_ | right;
    }

    std::uint64_t n_, epoch_;
    PhiloxKey key_;
    int half_;
};

}  // namespace thunder
