// SPDX-License-Identifier: Apache-2.0
// What stands around the sums of convolutions, on the emulated GPU, against its definition in double.
#include <algorithm>
#include <cmath>

#include "device/convolution/epilogue.h"
#include "emulation/bundled.h"

namespace thunder {

namespace {

struct Images {
    std::int64_t images, channels, elements;
};

// Less than a block and several, one image and more than there are parts of a sum.
constexpr Images cases[] = {{1, 1, 1}, {3, 5, 7}, {2, 3, 300}, {40, 2, 3}, {1, 300, 2}};

class BundledConvolution : public Bundled {};

double relu_or(double x, Activation activation) {
    if (activation == Activation::relu) return std::max(x, 0.0);
    return activation == Activation::silu ? x / (1 + std::exp(-x)) : x;
}

TEST_F(BundledConvolution, WhatFollowsTheSums) {
    for (const Images& c : cases) {
        const std::int64_t n = c.images * c.channels * c.elements;
        const std::vector<float> sums = random(n), bias = random(c.channels), residual = random(n);
        for (const Activation activation : {Activation::none, Activation::relu, Activation::silu})
            for (const bool with_bias : {false, true})
                for (const bool with_residual : {false, true}) {
                    Buffer<float> result("result", sums), b("bias", bias), r("residual", residual);
                    finish(result.data(),
                           {c.channels, c.elements, with_bias ? b.data() : nullptr, activation,
                            with_residual ? r.data() : nullptr},
                           c.images, stream);
                    std::vector<double> expected(sums.begin(), sums.end());
                    for (std::size_t i = 0; i < expected.size(); ++i) {
                        const auto channel = static_cast<std::int64_t>(i) / c.elements % c.channels;
                        if (with_bias) expected[i] += static_cast<double>(bias[static_cast<std::size_t>(channel)]);
                        expected[i] = relu_or(expected[i], activation);
                        if (with_residual) expected[i] += static_cast<double>(residual[i]);
                    }
                    expect_close(result.values(), expected, 1e-6, 2, "result");  // three roundings
                }
    }
}

TEST_F(BundledConvolution, ImagesFromOneOnAreFinished) {
    const std::vector<float> sums = random(24), residual = random(24);
    Buffer<float> result("result", sums), r("residual", residual);
    finish_from(2, result.data(), {.channels = 2, .elements = 4, .residual = r.data()}, 1, stream);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(result[i], i < 16 ? sums[i] : sums[i] + residual[i]) << i;
}

TEST_F(BundledConvolution, GradientsOfBiases) {
    for (const Images& c : cases) {
        const std::vector<float> dy = random(c.images * c.channels * c.elements), before = random(c.channels);
        for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
            Buffer<float> given("dy", dy), sums("sums", before);
            add_up_channels(sums.data(), given.data(), c.images, c.channels, c.elements, mode, 64, stream);
            std::vector<double> expected(before.size());
            for (std::size_t m = 0; m < before.size(); ++m)
                expected[m] = mode == WriteMode::add ? static_cast<double>(before[m]) : 0;
            for (std::size_t i = 0; i < dy.size(); ++i)
                expected[static_cast<std::size_t>(static_cast<std::int64_t>(i) / c.elements % c.channels)] +=
                    static_cast<double>(dy[i]);
            // of up to 600 normal numbers, each rounded with what is there
            expect_close(sums.values(), expected, 2e-6, 25, "sums");
        }
    }
}

}  // namespace

}  // namespace thunder
