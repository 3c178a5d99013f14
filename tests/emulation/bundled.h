// SPDX-License-Identifier: Apache-2.0
// What the tests of the runtime's own kernels share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/kernels/bundled.h"
#include "device/stream.h"

namespace thunder {

using emulation::Buffer;

class Bundled : public ::testing::Test {
  protected:
    std::vector<float> random(std::int64_t n, float scale = 1.0F) {
        std::normal_distribution<float> normal(0.0F, scale);
        std::vector<float> values(static_cast<std::size_t>(n));
        for (float& v : values) v = normal(engine_);
        return values;
    }
    std::vector<std::int64_t> ids(std::int64_t n, std::int64_t entries) {
        std::uniform_int_distribution<std::int64_t> any(0, entries - 1);
        std::vector<std::int64_t> values(static_cast<std::size_t>(n));
        for (std::int64_t& v : values) v = any(engine_);
        return values;
    }

    Device device{1};
    Stream stream{device};

  private:
    std::mt19937 engine_{7};
};

inline std::vector<bf16> rounded(const std::vector<float>& values) {
    std::vector<bf16> out;
    for (const float v : values) out.push_back(to_bf16(v));
    return out;
}
template <typename T>
T narrow_to(float x) {
    return bundled::narrow<T>(x);
}
inline float wide(float x) {
    return x;
}
inline float wide(bf16 x) {
    return to_float(x);
}
inline float wide(f16 x) {
    return to_float(x);
}

// Each within `relative` of what it should be, and of `size`, the size of what was added up.
template <typename T>
void expect_close(const std::vector<T>& got, const std::vector<double>& expected, double relative, double size,
                  const std::string& what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(wide(got[i])), expected[i], relative * (size + std::abs(expected[i])))
            << what << " at " << i;
    }
}

template <typename T>
std::vector<T> stored(const std::vector<float>& values) {
    std::vector<T> out;
    for (const float v : values) out.push_back(narrow_to<T>(v));
    return out;
}

}  // namespace thunder
