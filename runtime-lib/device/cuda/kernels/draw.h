// SPDX-License-Identifier: Apache-2.0
// Numbers drawn by Philox4x32-10: those of support/philox.h.
#pragma once

#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

struct Drawn {
    std::uint32_t words[4];
};

THUNDER_FUNCTION Drawn drawn_at(std::int64_t counter, std::int64_t row, std::int64_t draw, std::int64_t seed) {
    const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)); };
    const auto high = [](std::int64_t value) {
        return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
    };
    std::uint32_t c0 = low(counter), c1 = high(counter), c2 = low(row), c3 = high(row);
    std::uint32_t k0 = low(draw), k1 = low(seed);
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xD2511F53} * c0, b = std::uint64_t{0xCD9E8D57} * c2;
        c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
        c1 = static_cast<std::uint32_t>(b);
        c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
        c3 = static_cast<std::uint32_t>(a);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return {{c0, c1, c2, c3}};
}

}  // namespace thunder::bundled
