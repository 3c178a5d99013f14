// SPDX-License-Identifier: Apache-2.0
// Tensors that are quantised, and products of what they became, by their definition: for tests of both devices.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device/api.h"
#include "device/fp8.h"
#include "device/fp8_recipe.h"

namespace thunder::testing {

struct QuantiseCase {
    std::int64_t rows, width, ld;
    float scale;
};

// Whole squares and parts of them, one row, one column, rows apart; scales that lose what is small, and what is large.
inline const QuantiseCase quantise_cases[] = {
    {64, 64, 64, 1.F}, {128, 192, 192, 37.5F}, {64, 128, 136, 0.01F}, {70, 33, 33, 900.F},  {1, 130, 130, 3.F},
    {65, 1, 7, 1e-4F}, {16, 64, 64, 1e30F},    {80, 68, 72, 0.3F},    {256, 256, 256, 2.F}, {264, 136, 144, 5.F}};

// Numbers of all sizes, with zeros of both signs, infinities and NaN where `special`.
inline std::vector<float> numbers_of_all_sizes(std::int64_t n, bool special) {
    std::mt19937 any(11);
    std::uniform_real_distribution<float> exponent(-12, 6);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& x : values) {
        x = std::exp2(exponent(any)) * (any() % 2 == 0 ? 1.F : -1.F);
        if (any() % 16 == 0) x = any() % 2 == 0 ? 0.F : -0.F;
        if (special && any() % 32 == 0) x = any() % 2 == 0 ? NAN : -INFINITY;
    }
    return values;
}

// A tensor X of x quantised to Q, both copies and alone, whose amax was smaller and larger before.
template <template <typename> typename Memory, typename Q, typename X, typename Narrow, typename Widen>
void expect_quantised(const QuantiseCase& c, bool special, const Narrow& narrow, const Widen& widen, Stream& stream) {
    const std::vector<float> numbers = numbers_of_all_sizes(c.rows * c.ld, special);
    std::vector<X> x0;
    for (const float number : numbers) x0.push_back(narrow(number));
    std::vector<std::uint8_t> expected(static_cast<std::size_t>(c.rows * c.width));
    float largest = 0;
    for (std::int64_t i = 0; i < c.rows; ++i)
        for (std::int64_t j = 0; j < c.width; ++j) {
            const float x = widen(x0[static_cast<std::size_t>(i * c.ld + j)]);
            expected[static_cast<std::size_t>(i * c.width + j)] = bits_of(quantised<Q>(x * c.scale));
            if (std::abs(x) > largest) largest = std::abs(x);
        }
    Memory<X> x("x", x0);
    Memory<X> others("others", std::vector<X>(x0.size(), narrow(1e9F)));
    Memory<float> scale("scale", std::vector<float>{c.scale}), other_scale("scale", std::vector<float>{3 * c.scale}),
        inverse("inverse", std::vector<float>{0.F});
    for (const bool row_major : {true, false})
        for (const bool transposed : {true, false}) {
            if (!row_major && !transposed) continue;
            const std::vector<Q> blank(static_cast<std::size_t>(c.rows * c.width));
            Memory<Q> q("q", blank), t("q_transposed", blank);
            const float before = row_major ? 0.F : 1e6F;
            Memory<float> amax("amax", std::vector<float>{before});
            Fp8Quantise call{.q = row_major ? Output(q.data()) : Output(),
                             .q_transposed = transposed ? Output(t.data()) : Output(),
                             .amax = amax.data(),
                             .inverse = inverse.data(),
                             .x = static_cast<const X*>(x.data()),
                             .scale = static_cast<const float*>(scale.data()),
                             .rows = c.rows,
                             .width = c.width,
                             .ld_x = c.ld == c.width ? 0 : c.ld};
            fp8_quantise(call, stream);
            // A later micro-step leaves it all, whatever it is given.
            call.mode = WriteMode::add;
            call.x = static_cast<const X*>(others.data());
            call.scale = static_cast<const float*>(other_scale.data());
            fp8_quantise(call, stream);
            ASSERT_EQ(amax.data()[0], std::max(before, largest));
            ASSERT_EQ(inverse.data()[0], 1 / c.scale);
            for (std::int64_t i = 0; i < c.rows; ++i)
                for (std::int64_t j = 0; j < c.width; ++j) {
                    const int code = expected[static_cast<std::size_t>(i * c.width + j)];
                    if (row_major) {
                        ASSERT_EQ(bits_of(q.data()[i * c.width + j]), code) << i << ", " << j;
                    }
                    if (transposed) {
                        ASSERT_EQ(bits_of(t.data()[j * c.rows + i]), code) << i << ", " << j;
                    }
                }
        }
}

// What is left of that where a kernel has written the codes and the largest number of each row: with both, with one of
// them, and with the inverse of the scale alone.
template <template <typename> typename Memory, typename Q>
void expect_finished(const QuantiseCase& c, Stream& stream) {
    const std::vector<float> numbers = numbers_of_all_sizes(c.rows * c.width, false);
    std::vector<Q> codes;
    for (const float x : numbers) codes.push_back(quantised<Q>(x));
    std::vector<float> maxima(static_cast<std::size_t>(c.rows));
    for (std::size_t k = 0; k < numbers.size(); ++k) {
        float& largest = maxima[k / static_cast<std::size_t>(c.width)];
        largest = std::max(largest, fp8_magnitude(numbers[k]));
    }
    Memory<Q> q("q", codes);
    Memory<float> of_rows("maxima", maxima), scale("scale", std::vector<float>{c.scale});
    for (const bool transposed : {true, false})
        for (const float before : {-1.F, 0.F, 1e6F}) {  // below 0: there is none
            Memory<Q> t("q_transposed", std::vector<Q>(codes.size()));
            Memory<float> amax("amax", std::vector<float>{before}), inverse("inverse", std::vector<float>{0.F});
            const bool notes = before >= 0;
            fp8_finish({.q_transposed = transposed ? Output(t.data()) : Output(),
                        .amax = notes ? Output(amax.data()) : Output(),
                        .inverse = inverse.data(),
                        .q = transposed ? Input(static_cast<const Q*>(q.data())) : Input(),
                        .maxima = notes ? Input(static_cast<const float*>(of_rows.data())) : Input(),
                        .scale = static_cast<const float*>(scale.data()),
                        .rows = c.rows,
                        .width = transposed ? c.width : 0},
                       stream);
            ASSERT_EQ(inverse.data()[0], 1 / c.scale);
            ASSERT_EQ(amax.data()[0],
                      notes ? std::max(before, *std::max_element(maxima.begin(), maxima.end())) : before);
            for (std::int64_t i = 0; i < c.rows; ++i)
                for (std::int64_t j = 0; j < c.width; ++j) {
                    const int code = transposed ? bits_of(codes[static_cast<std::size_t>(i * c.width + j)]) : 0;
                    ASSERT_EQ(bits_of(t.data()[j * c.rows + i]), code) << i << ", " << j;
                }
        }
}

// The amax alone, which was smaller and larger before; and what is quantised by it.
template <template <typename> typename Memory, typename X, typename Narrow, typename Widen>
void expect_amax(const QuantiseCase& c, const Narrow& narrow, const Widen& widen, Stream& stream) {
    std::vector<X> x0;
    for (const float number : numbers_of_all_sizes(c.rows * c.ld, c.rows % 16 == 0)) x0.push_back(narrow(number));
    float largest = 0;
    for (std::int64_t i = 0; i < c.rows; ++i)
        for (std::int64_t j = 0; j < c.width; ++j) {
            const float x = widen(x0[static_cast<std::size_t>(i * c.ld + j)]);
            if (std::abs(x) > largest) largest = std::abs(x);
        }
    Memory<X> x("x", x0);
    for (const float before : {0.F, 1e6F}) {
        Memory<float> amax("amax", std::vector<float>{before});
        fp8_amax(
            {.amax = amax.data(), .x = static_cast<const X*>(x.data()), .rows = c.rows, .width = c.width, .ld_x = c.ld},
            stream);
        ASSERT_EQ(amax.data()[0], std::max(before, largest));
    }
    // By that amax, whatever lay there before.
    const float expected = current_scale(largest, fp8_largest<e4m3>(), false, 0);
    Memory<float> scale("own_scale", std::vector<float>{7.F}), inverse("inverse", std::vector<float>{1e9F});
    Memory<e4m3> q("q", std::vector<e4m3>(static_cast<std::size_t>(c.rows * c.width)));
    Fp8Quantise call{.q = q.data(),
                     .inverse = inverse.data(),
                     .own_scale = scale.data(),
                     .x = static_cast<const X*>(x.data()),
                     .rows = c.rows,
                     .width = c.width,
                     .ld_x = c.ld};
    fp8_quantise(call, stream);
    Memory<X> others("others", std::vector<X>(x0.size(), narrow(1e9F)));
    call.mode = WriteMode::add;  // a later micro-step leaves the scale as well
    call.x = static_cast<const X*>(others.data());
    fp8_quantise(call, stream);
    ASSERT_EQ(scale.data()[0], expected);
    ASSERT_EQ(inverse.data()[0], 1 / expected);
    for (std::int64_t i = 0; i < c.rows; ++i)
        for (std::int64_t j = 0; j < c.width; ++j) {
            const float number = widen(x0[static_cast<std::size_t>(i * c.ld + j)]);
            ASSERT_EQ(bits_of(q.data()[i * c.width + j]), bits_of(quantised<e4m3>(number * expected)))
                << i << ", " << j;
        }
}

struct ProductCase {
    std::int64_t m, n, k;
    bool bias, residual, add;
};

inline const ProductCase product_cases[] = {{64, 64, 32, false, false, false}, {70, 33, 17, true, false, false},
                                            {1, 5, 130, false, true, false},   {65, 1, 1, true, true, false},
                                            {530, 3, 16, false, false, true},  {17, 80, 40, true, true, true}};

// c of a and b in double, from what their codes mean.
template <template <typename> typename Memory, typename A, typename B, typename C, typename Narrow, typename Widen>
void expect_product(const ProductCase& p, double relative, const Narrow& narrow, const Widen& widen, Stream& stream) {
    std::mt19937 any(3);
    const auto codes = [&]<typename T>(std::int64_t n, T*) {
        std::normal_distribution<float> normal(0.F, 8.F);
        std::vector<T> all(static_cast<std::size_t>(n));
        for (T& code : all) code = quantised<T>(normal(any));
        return all;
    };
    const std::vector<A> a0 = codes(p.m * p.k, static_cast<A*>(nullptr));
    const std::vector<B> b0 = codes(p.n * p.k, static_cast<B*>(nullptr));
    const auto numbers = [&](std::int64_t n) {
        std::normal_distribution<float> normal;
        std::vector<C> all;
        for (std::int64_t i = 0; i < n; ++i) all.push_back(narrow(normal(any)));
        return all;
    };
    const std::vector<C> before = numbers(p.m * p.n), residual0 = numbers(p.m * p.n), bias0 = numbers(p.n);
    const float inverse_a = 0.37F, inverse_b = 0.021F;
    Memory<A> a("a", a0);
    Memory<B> b("b", b0);
    Memory<C> c("c", before), residual("residual", residual0), bias("bias", bias0);
    Memory<float> of_a("inverse_a", std::vector<float>{inverse_a}), of_b("inverse_b", std::vector<float>{inverse_b});
    fp8_product({.c = c.data(),
                 .a = static_cast<const A*>(a.data()),
                 .b = static_cast<const B*>(b.data()),
                 .inverse_a = static_cast<const float*>(of_a.data()),
                 .inverse_b = static_cast<const float*>(of_b.data()),
                 .mode = p.add ? WriteMode::add : WriteMode::overwrite,
                 .bias = p.bias ? Input(static_cast<const C*>(bias.data())) : Input(),
                 .residual = p.residual ? Input(static_cast<const C*>(residual.data())) : Input(),
                 .m = p.m,
                 .n = p.n,
                 .k = p.k},
                stream);
    for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
            double sum = 0, size = 0;
            for (std::int64_t l = 0; l < p.k; ++l) {
                const double term = static_cast<double>(to_float(a0[static_cast<std::size_t>(i * p.k + l)])) *
                                    static_cast<double>(inverse_a) *
                                    static_cast<double>(to_float(b0[static_cast<std::size_t>(j * p.k + l)])) *
                                    static_cast<double>(inverse_b);
                sum += term;
                size += std::abs(term);
            }
            const auto at = static_cast<std::size_t>(i * p.n + j);
            const auto with = [&](bool there, const C& number) {
                if (!there) return;
                sum += static_cast<double>(widen(number));
                size += std::abs(static_cast<double>(widen(number)));
            };
            with(p.bias, bias0[static_cast<std::size_t>(j)]);
            with(p.residual, residual0[at]);
            with(p.add, before[at]);
            ASSERT_NEAR(static_cast<double>(widen(c.data()[at])), sum, relative * size) << i << ", " << j;
        }
}

}  // namespace thunder::testing
