// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/weight_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace thunderc {
namespace {

using Verdict = NumbersSay::Verdict;

Tensor made(const Dims& dims, const std::function<double(std::int64_t)>& number, DType dtype = DType::f32) {
    Tensor t(Type::tensor(dtype, dims));
    for (std::int64_t k = 0; k < t.size(); ++k) t.f[static_cast<std::size_t>(k)] = number(k);
    return t;
}

Tensor learned(const Dims& dims, unsigned seed) {
    std::mt19937 bits(seed);
    return made(dims, [&](std::int64_t) { return static_cast<float>(bits()) / 4294967296.0F - 0.5F; });
}

// Half of the columns, then the same again, as rotary tables have them; the angle is rounded to f32 as frameworks do.
double rotary(std::int64_t k, std::int64_t width, std::int64_t rows, double theta, bool cosine) {
    const std::int64_t column = k % width % (width / 2), row = k / width % rows;
    const auto frequency =
        static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(column) / static_cast<double>(width)));
    const float angle = static_cast<float>(row) * frequency;
    return cosine ? std::cos(angle) : std::sin(angle);
}

TEST(WeightNumbers, RotaryTables) {
    for (const auto& [rows, width, theta] :
         {std::tuple{8, 4, 1e4}, std::tuple{32, 16, 1e4}, std::tuple{4096, 128, 1e4}, std::tuple{8192, 64, 5e5}})
        for (bool cosine : {true, false}) {
            auto table = [&](std::int64_t k) { return rotary(k, width, rows, theta, cosine); };
            EXPECT_EQ(what_numbers_say(made({1, 1, rows, width}, table)).verdict, Verdict::constant);
            EXPECT_EQ(what_numbers_say(made({rows, width}, table)).verdict, Verdict::constant);
            EXPECT_EQ(what_numbers_say(made({2, 1, rows, width}, table)).verdict, Verdict::constant);
            // Scaled, as some long contexts have it, and of every third position.
            auto scaled = [&](std::int64_t k) { return 1.2 * rotary(k, width, rows, theta, cosine); };
            EXPECT_EQ(what_numbers_say(made({1, rows, width}, scaled)).verdict, Verdict::constant);
            auto halves = [&](std::int64_t k) {  // eight bits of mantissa
                int exponent = 0;
                const double mantissa = std::frexp(rotary(k, width, rows, theta, cosine), &exponent);
                return std::ldexp(std::round(mantissa * 256) / 256, exponent);
            };
            EXPECT_EQ(what_numbers_say(made({1, rows, width}, halves, DType::bf16)).verdict, Verdict::constant);
        }
}

TEST(WeightNumbers, WhatIsLearnedIsNoTable) {
    for (unsigned seed = 1; seed <= 20; ++seed)
        for (const Dims& dims : {Dims{8, 4}, Dims{6, 1, 2}, Dims{64, 16}, Dims{16}, Dims{2, 8, 8}, Dims{1, 512, 32}})
            EXPECT_EQ(what_numbers_say(learned(dims, seed)).verdict, Verdict::nothing) << seed;
    // Positions as models learn them: sines, and noise of a tenth of their size.
    const Tensor noise = learned({64, 16}, 3);
    EXPECT_EQ(what_numbers_say(
                  made({64, 16}, [&](std::int64_t k) { return rotary(k, 16, 64, 1e4, true) + 0.2 * noise.at(k); }))
                  .verdict,
              Verdict::nothing);
    // What was initialised with one number.
    for (const Dims& dims : {Dims{16}, Dims{8, 4}, Dims{1}})
        for (double number : {0.0, 1.0})
            EXPECT_EQ(what_numbers_say(made(dims, [&](std::int64_t) { return number; })).verdict, Verdict::nothing);
}

TEST(WeightNumbers, Masks) {
    for (double masked : {-std::numeric_limits<double>::infinity(), -3.4028234663852886e38, -65504.0, -1e9})
        EXPECT_EQ(what_numbers_say(made({2, 1, 4, 4}, [&](std::int64_t k) { return k % 4 <= k / 4 % 4 ? 0 : masked; }))
                      .verdict,
                  Verdict::constant)
            << masked;
    // Weights may be large: only 0 and what lies far below make a mask.
    EXPECT_EQ(
        what_numbers_say(made({2, 2}, [](std::int64_t k) { return k == 0 ? -20000.0 : 1.0 + static_cast<double>(k); }))
            .verdict,
        Verdict::nothing);
}

TEST(WeightNumbers, PositionsAndFrequencies) {
    EXPECT_EQ(what_numbers_say(made({1, 8}, [](std::int64_t k) { return static_cast<double>(k); })).verdict,
              Verdict::constant);
    EXPECT_EQ(what_numbers_say(made({1, 4, 1},
                                    [](std::int64_t k) {
                                        return static_cast<double>(
                                            static_cast<float>(std::pow(1e4, -0.25 * static_cast<double>(k))));
                                    }))
                  .verdict,
              Verdict::constant);
    // Two numbers have one ratio whatever they are.
    EXPECT_EQ(what_numbers_say(made({2}, [](std::int64_t k) { return k == 0 ? 1 : 0.01; })).verdict, Verdict::nothing);
}

TEST(WeightNumbers, HalfZerosAreDoubtful) {
    EXPECT_EQ(what_numbers_say(made({8, 8}, [](std::int64_t k) { return k % 8 <= k / 8 ? 1 : 0; })).verdict,
              Verdict::doubtful);
    Tensor pruned = learned({8, 8}, 5);
    for (std::size_t k = 0; k < 64; k += 3) pruned.f[k] = 0;
    EXPECT_EQ(what_numbers_say(pruned).verdict, Verdict::doubtful);
    EXPECT_EQ(what_numbers_say(pruned).why, "holds 22 zeros among 64 numbers");
    // An embedding with a row for padding.
    Tensor padded = learned({8, 8}, 6);
    for (std::size_t k = 0; k < 8; ++k) padded.f[k] = 0;
    EXPECT_EQ(what_numbers_say(padded).verdict, Verdict::nothing);
}

TEST(WeightNumbers, WhatIsNotThereSaysNothing) {
    WeightSource source;
    source.type = Type::tensor(DType::f32, {4});
    source.missing = "model.onnx.data";
    EXPECT_EQ(what_numbers_say(source).verdict, Verdict::nothing);
}

}  // namespace
}  // namespace thunderc
