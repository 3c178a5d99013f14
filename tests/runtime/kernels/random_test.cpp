// SPDX-License-Identifier: Apache-2.0
// Numbers that are drawn: those of Philox (whose known answers are in train/init_test.cpp), and what they are like.
#include <cmath>

#include "check.h"
#include "device/api.h"
#include "device/reference.h"
#include "support/philox.h"

namespace thunder {
namespace random_test {

struct Draw {
    std::int64_t seed = 0, draw = 0;
    std::vector<std::int64_t> numbers;
    std::int64_t width = 0;

    std::int64_t rows() const { return static_cast<std::int64_t>(numbers.size()); }
    std::size_t elements() const { return static_cast<std::size_t>(rows() * width); }
};

RandomUniform uniform_call(const Draw& d, std::vector<float>& y) {
    return {.y = y.data(),
            .seed = &d.seed,
            .draw = &d.draw,
            .numbers = d.numbers.data(),
            .rows = d.rows(),
            .width = d.width};
}

std::vector<float> uniform(const Draw& d, int threads = 2) {
    Device device(threads);
    Stream stream(device);
    std::vector<float> y(d.elements(), -1);
    random_uniform(uniform_call(d, y), stream);
    return y;
}

std::vector<std::uint8_t> bernoulli(const Draw& d, double p, bool reference = false) {
    Device device(2);
    Stream stream(device);
    std::vector<std::uint8_t> y(d.elements(), 7);
    const RandomBernoulli call{.y = reinterpret_cast<bool*>(y.data()),
                               .seed = &d.seed,
                               .draw = &d.draw,
                               .numbers = d.numbers.data(),
                               .rows = d.rows(),
                               .width = d.width,
                               .p = p};
    reference ? reference_random_bernoulli(call, stream) : random_bernoulli(call, stream);
    return y;
}

double word_at(const Draw& d, std::int64_t row, std::int64_t place) {
    const auto number = static_cast<std::uint64_t>(d.numbers[static_cast<std::size_t>(row)]);
    const auto counter = static_cast<std::uint64_t>(place / 4);
    const PhiloxCounter words = philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                                        static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)},
                                       {static_cast<std::uint32_t>(d.draw), static_cast<std::uint32_t>(d.seed)});
    return std::floor(words[static_cast<std::size_t>(place % 4)] / 256.0) / 16777216.0;
}

// Widths that end within a counter, a vector and a piece, rows of any number.
TEST(Random, GivesTheWordsOfPhilox) {
    for (const std::int64_t width : {1, 3, 4, 31, 32, 1023, 1024, 1025, 5000}) {
        const Draw d{.seed = 0x123456789abcdef, .draw = 5, .numbers = {7, 0, -1, 0x500000003}, .width = width};
        const std::vector<float> y = uniform(d);
        std::vector<float> reference(y.size());
        Device device(1);
        Stream stream(device);
        reference_random_uniform(uniform_call(d, reference), stream);
        EXPECT_EQ(y, reference) << width;
        const std::vector<std::uint8_t> below = bernoulli(d, 0.9);
        EXPECT_EQ(below, bernoulli(d, 0.9, true)) << width;
        for (std::int64_t row = 0; row < d.rows(); ++row)
            for (std::int64_t i = 0; i < width; ++i) {
                const auto at = static_cast<std::size_t>(row * width + i);
                const double expected = word_at(d, row, i);
                ASSERT_EQ(y[at], static_cast<float>(expected)) << width << " " << row << " " << i;
                ASSERT_EQ(below[at], expected < 0.9 ? 1 : 0) << width << " " << row << " " << i;
            }
    }
}

TEST(Random, IsTheSameOnAnyNumberOfThreads) {
    const Draw d{.seed = 3, .draw = 1, .numbers = {1, 2, 3}, .width = 70000};
    const std::vector<float> one = uniform(d, 1);
    EXPECT_EQ(uniform(d, 2), one);
    EXPECT_EQ(uniform(d, 7), one);
}

// A row's numbers do not depend on the rows beside it.
TEST(Random, ARowIsDrawnByItsNumber) {
    const Draw d{.seed = 3, .draw = 1, .numbers = {10, 11, 12, 13}, .width = 100};
    const std::vector<float> all = uniform(d);
    for (std::size_t row = 0; row < 4; ++row) {
        const std::vector<float> alone = uniform({3, 1, {d.numbers[row]}, 100});
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + static_cast<std::ptrdiff_t>(row) * 100));
    }
}

TEST(Random, TheEndsOfBernoulli) {
    const Draw d{.seed = 1, .draw = 1, .numbers = {1, 2}, .width = 1000};
    EXPECT_EQ(bernoulli(d, 0), std::vector<std::uint8_t>(2000, 0));
    EXPECT_EQ(bernoulli(d, 1), std::vector<std::uint8_t>(2000, 1));
}

TEST(Random, NothingIsDrawnForNothing) {
    EXPECT_TRUE(uniform({1, 1, {}, 5}).empty());
    EXPECT_TRUE(uniform({1, 1, {1}, 0}).empty());
}

double mean(const std::vector<float>& y) {
    double sum = 0;
    for (const float v : y) sum += v;
    return sum / static_cast<double>(y.size());
}
double covariance(const std::vector<float>& a, const std::vector<float>& b) {
    const double a_mean = mean(a), b_mean = mean(b);
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - a_mean) * (b[i] - b_mean);
    return sum / static_cast<double>(a.size());
}

// n numbers of [0, 1): their mean is 1/2 +- sqrt(1/12 / n), their variance 1/12 +- sqrt(1/180 / n), a covariance of
// independent ones 0 +- 1/12 / sqrt(n). Bounds are five such deviations: of fixed seeds nothing changes from run to
// run.
TEST(Random, IsUniformAndIndependent) {
    const std::int64_t width = 1 << 16;
    const double n = static_cast<double>(width), deviations = 5;
    const Draw first{.seed = 42, .draw = 0, .numbers = {100}, .width = width};
    const std::vector<float> y = uniform(first);
    EXPECT_NEAR(mean(y), 0.5, deviations * std::sqrt(1 / 12.0 / n));
    EXPECT_NEAR(covariance(y, y), 1 / 12.0, deviations * std::sqrt(1 / 180.0 / n));
    // of another seed, of the draw behind it, of the sample behind it, and of the numbers a few places further
    std::vector<std::vector<float>> others;
    for (const auto& [seed, draw, number] : {std::tuple{43, 0, 100}, std::tuple{42, 1, 100}, std::tuple{42, 0, 101}})
        others.push_back(uniform({seed, draw, {number}, width}));
    for (const std::ptrdiff_t lag : {1, 2, 3, 4, 64}) {
        others.push_back(y);
        std::rotate(others.back().begin(), others.back().begin() + lag, others.back().end());
    }
    for (const std::vector<float>& other : others)
        EXPECT_NEAR(covariance(y, other), 0, deviations / 12 / std::sqrt(n)) << &other - others.data();
    // Sixteen bins of equal size: chi-square of 15 degrees of freedom is 15 +- sqrt(30).
    std::vector<double> bins(16);
    for (const float v : y) ++bins[static_cast<std::size_t>(v * 16)];
    double chi_square = 0;
    for (const double count : bins) chi_square += (count - n / 16) * (count - n / 16) / (n / 16);
    EXPECT_LT(chi_square, 15 + deviations * std::sqrt(30.0));
}

TEST(Random, BernoulliHasItsMean) {
    for (const double p : {0.9, 0.5, 0.1, 0.001}) {
        const Draw d{.seed = 9, .draw = 2, .numbers = {5, 6, 7, 8}, .width = 1 << 14};
        const std::vector<std::uint8_t> y = bernoulli(d, p);
        double ones = 0;
        for (const std::uint8_t v : y) ones += v;
        const double n = static_cast<double>(y.size());
        EXPECT_NEAR(ones / n, p, 5 * std::sqrt(p * (1 - p) / n)) << p;
    }
}

}  // namespace random_test
}  // namespace thunder
