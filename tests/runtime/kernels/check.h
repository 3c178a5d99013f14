// SPDX-License-Identifier: Apache-2.0
// What the kernel tests share: a device, random tensors that repeat, naive references' tolerances.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "device/stream.h"

namespace thunder::testing {

// Normal numbers from a seed; the same on every machine that has the same library.
inline std::vector<float> random(std::int64_t n, unsigned seed, float scale = 1.0F) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0.0F, scale);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = normal(engine);
    return values;
}

inline std::vector<double> wide(const std::vector<float>& v) {
    return {v.begin(), v.end()};
}

// |got - expected| <= relative * (magnitude + |expected|), all along. `magnitude`: the size of what was added up, since
// an error of a sum is relative to its terms.
inline void expect_close(const std::vector<float>& got, const std::vector<double>& expected, double relative,
                         double magnitude, const std::string& what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double bound = relative * (magnitude + std::abs(expected[i]));
        ASSERT_LE(std::abs(static_cast<double>(got[i]) - expected[i]), bound)
            << what << " at " << i << ": " << got[i] << " instead of " << expected[i];
        ASSERT_FALSE(std::isnan(got[i])) << what << " at " << i;
    }
}

// Runs `compute(stream)` with 1, 2 and 3 threads and expects the same bits.
template <typename Compute>
void expect_same_bits_at_any_thread_count(Compute&& compute) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
        Device device(threads);
        Stream stream(device);
        const std::vector<float> now = compute(stream);
        if (threads == 1) {
            first = now;
            continue;
        }
        ASSERT_EQ(first.size(), now.size());
        for (std::size_t i = 0; i < now.size(); ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(first[i]), std::bit_cast<std::uint32_t>(now[i]))
                << "element " << i << " with " << threads << " threads";
        }
    }
}

}  // namespace thunder::testing
