// SPDX-License-Identifier: Apache-2.0
// Convolutions against the sums of their definition in fp64: of every form, however they are computed.
#include <algorithm>

#include "check.h"
#include "device/api.h"
#include "device/cpu/bf16.h"
#include "device/cpu/f16.h"

namespace thunder {
namespace convolution_test {

using testing::expect_close;
using testing::random;

struct Case {
    const char* name;
    ConvolutionForm form;
};

// Small and large images, few and many channels, one image and more than there are threads, in groups and by channel,
// with gaps, with strides that leave elements out, with windows that lie in the padding alone, in one to three
// dimensions.
const Case cases[] = {
    {"as torch's defaults", {.N = 5, .C = 3, .M = 7, .in = {1, 9, 11}, .out = {1, 7, 9}, .window = {1, 3, 3}}},
    {"of whole blocks",
     {.N = 16, .C = 32, .M = 64, .in = {1, 12, 12}, .out = {1, 12, 12}, .window = {1, 3, 3}, .before = {0, 1, 1}}},
    {"of a ResNet's stem",
     {.N = 3,
      .C = 3,
      .M = 64,
      .in = {1, 32, 32},
      .out = {1, 16, 16},
      .window = {1, 7, 7},
      .strides = {1, 2, 2},
      .before = {0, 3, 3}}},
    {"of few elements and many filters",
     {.N = 4, .C = 48, .M = 160, .in = {1, 2, 2}, .out = {1, 2, 2}, .window = {1, 3, 3}, .before = {0, 1, 1}}},
    {"of patches",
     {.N = 2, .C = 3, .M = 24, .in = {1, 16, 16}, .out = {1, 4, 4}, .window = {1, 4, 4}, .strides = {1, 4, 4}}},
    {"of one place", {.N = 9, .C = 40, .M = 24, .in = {1, 10, 6}, .out = {1, 10, 6}, .window = {1, 1, 1}}},
    {"of one image",
     {.N = 1, .C = 16, .M = 16, .in = {1, 20, 20}, .out = {1, 20, 20}, .window = {1, 3, 3}, .before = {0, 1, 1}}},
    {"in groups",
     {.N = 7,
      .C = 32,
      .M = 48,
      .groups = 2,
      .in = {1, 10, 10},
      .out = {1, 10, 10},
      .window = {1, 3, 3},
      .before = {0, 1, 1}}},
    {"in groups of odd sizes",
     {.N = 4, .C = 6, .M = 9, .groups = 3, .in = {1, 10, 8}, .out = {1, 9, 8}, .window = {1, 2, 1}}},
    {"by channel",
     {.N = 6,
      .C = 24,
      .M = 24,
      .groups = 24,
      .in = {1, 9, 9},
      .out = {1, 9, 9},
      .window = {1, 7, 7},
      .before = {0, 3, 3}}},
    {"by channel, two filters for each, of long lines with gaps between them",
     {.N = 3,
      .C = 6,
      .M = 12,
      .groups = 6,
      .in = {1, 9, 8},
      .out = {1, 5, 8},
      .window = {1, 3, 9},
      .strides = {1, 2, 1},
      .dilations = {1, 2, 1},
      .before = {0, 2, 4}}},
    {"by channel, of three dimensions, with elements that no window sees",
     {.N = 2,
      .C = 5,
      .M = 5,
      .groups = 5,
      .in = {4, 5, 6},
      .out = {3, 5, 2},
      .window = {2, 3, 2},
      .strides = {1, 1, 3},
      .before = {0, 1, 0}}},
    {"by channel, of images smaller than the window",
     {.N = 5,
      .C = 4,
      .M = 4,
      .groups = 4,
      .in = {1, 2, 2},
      .out = {1, 2, 2},
      .window = {1, 7, 7},
      .before = {0, 3, 3}}},
    {"by channel, in the padding alone",
     {.N = 2,
      .C = 3,
      .M = 3,
      .groups = 3,
      .in = {1, 1, 4},
      .out = {1, 1, 2},
      .window = {1, 1, 8},
      .before = {0, 0, 9}}},
    {"with gaps",
     {.N = 4,
      .C = 16,
      .M = 16,
      .in = {1, 12, 12},
      .out = {1, 12, 12},
      .window = {1, 3, 3},
      .dilations = {1, 2, 2},
      .before = {0, 2, 2}}},
    {"with elements that no window sees",
     {.N = 4, .C = 16, .M = 40, .in = {1, 9, 10}, .out = {1, 3, 3}, .window = {1, 2, 2}, .strides = {1, 3, 3}}},
    {"with steps in the padding alone",
     {.N = 4, .C = 8, .M = 16, .in = {1, 4, 4}, .out = {1, 10, 10}, .window = {1, 2, 2}, .before = {0, 4, 4}}},
    {"of one dimension",
     {.N = 4,
      .C = 20,
      .M = 16,
      .in = {1, 1, 50},
      .out = {1, 1, 25},
      .window = {1, 1, 5},
      .strides = {1, 1, 2},
      .before = {0, 0, 2}}},
    {"of three dimensions",
     {.N = 3,
      .C = 8,
      .M = 16,
      .in = {4, 6, 5},
      .out = {4, 3, 5},
      .window = {3, 2, 3},
      .strides = {1, 2, 1},
      .before = {1, 0, 1}}},
};

// The activations' own definitions, in double.
double activated(Activation activation, double v) {
    switch (activation) {
        case Activation::none: return v;
        case Activation::relu: return v > 0 ? v : 0;
        case Activation::gelu: return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
        case Activation::gelu_tanh: return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        case Activation::silu: return v / (1 + std::exp(-v));
        case Activation::tanh: return std::tanh(v);
    }
    return NAN;
}
constexpr Activation activations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::silu, Activation::tanh};

// sums and what follows them; bias and residual may be empty.
std::vector<double> finished(std::vector<double> sums, std::int64_t channels, std::int64_t elements,
                             const std::vector<float>& bias, Activation activation,
                             const std::vector<float>& residual) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const auto channel = static_cast<std::int64_t>(i) / elements % channels;
        if (!bias.empty()) sums[i] += static_cast<double>(bias[static_cast<std::size_t>(channel)]);
        sums[i] = activated(activation, sums[i]);
        if (!residual.empty()) sums[i] += static_cast<double>(residual[i]);
    }
    return sums;
}

// Calls body(element of x, of the weight, of y) for each product.
template <typename Body>
void for_each_product(const ConvolutionForm& f, Body&& body) {
    const std::int64_t channels = f.C / f.groups, filters = f.M / f.groups;
    for (std::int64_t n = 0; n < f.N; ++n)
        for (std::int64_t m = 0; m < f.M; ++m)
            for (std::int64_t s = 0; s < f.steps(); ++s)
                for (std::int64_t c = 0; c < channels; ++c)
                    for (std::int64_t k = 0; k < count(f.window); ++k) {
                        const Sizes step = {s / (f.out[1] * f.out[2]), s / f.out[2] % f.out[1], s % f.out[2]};
                        const Sizes place = {k / (f.window[1] * f.window[2]), k / f.window[2] % f.window[1],
                                             k % f.window[2]};
                        std::int64_t at = (n * f.C + m / filters * channels + c), inside = 1;
                        for (std::size_t d = 0; d < 3; ++d) {
                            const std::int64_t i = step[d] * f.strides[d] + place[d] * f.dilations[d] - f.before[d];
                            inside = inside != 0 && i >= 0 && i < f.in[d];
                            at = at * f.in[d] + i;
                        }
                        if (inside != 0)
                            body(at, (m * channels + c) * count(f.window) + k, (n * f.M + m) * f.steps() + s);
                    }
}

class Convolution : public ::testing::TestWithParam<Case> {
  protected:
    const ConvolutionForm& form = GetParam().form;
    const std::vector<float> x = random(form.N * form.C * count(form.in), 1);
    const std::vector<float> weight = random(form.M * form.depth(), 2);
    const std::vector<float> y = random(form.N * form.M * form.steps(), 3);

    // A sum of n products of normal numbers is of size sqrt(n). Added up one by one it is rounded n times, by up to
    // 6e-8 of what it is by then: a random walk of deviation 2.4e-8 n. Of some ten thousand sums the worst is five
    // deviations off, which is 1.2e-7 sqrt(n) of their size.
    static void expect(const std::vector<float>& got, const std::vector<double>& expected, std::int64_t terms) {
        const double size = std::sqrt(static_cast<double>(terms));
        expect_close(got, expected, 1.2e-7 * (size + 4), size + 1, GetParam().name);
    }
    template <typename Body>
    static void with_threads(Body&& body) {
        for (const int threads : {1, 2, 3}) {
            Device device(threads);
            Stream stream(device);
            for (int again = 0; again < 2; ++again) body(stream);  // what is kept for the next call, too
        }
    }
};

TEST_P(Convolution, Forward) {
    std::vector<double> expected(y.size());
    for_each_product(form, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
        expected[static_cast<std::size_t>(o)] += static_cast<double>(x[static_cast<std::size_t>(i)]) *
                                                 static_cast<double>(weight[static_cast<std::size_t>(k)]);
    });
    with_threads([&](Stream& stream) {
        std::vector<float> out = y;
        convolution_forward({.y = out.data(), .x = x.data(), .weight = weight.data(), .form = form}, stream);
        expect(out, expected, form.depth());
    });
}

TEST_P(Convolution, BackwardInput) {
    std::vector<double> expected(x.size());
    for_each_product(form, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
        expected[static_cast<std::size_t>(i)] += static_cast<double>(y[static_cast<std::size_t>(o)]) *
                                                 static_cast<double>(weight[static_cast<std::size_t>(k)]);
    });
    with_threads([&](Stream& stream) {
        std::vector<float> out = x;
        convolution_backward_input({.dx = out.data(), .dy = y.data(), .weight = weight.data(), .form = form}, stream);
        expect(out, expected, form.M / form.groups * count(form.window));
    });
}

// Each activation with bias and residual, with one of them and with neither. Slopes of activations are 1.13 at most, so
// that a result is off by little more than its sum, or by the activation's own few units of the last place.
TEST_P(Convolution, WhatFollowsTheSums) {
    std::vector<double> of_y(y.size()), of_x(x.size());
    for_each_product(form, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
        const auto wk = static_cast<double>(weight[static_cast<std::size_t>(k)]);
        of_y[static_cast<std::size_t>(o)] += static_cast<double>(x[static_cast<std::size_t>(i)]) * wk;
        of_x[static_cast<std::size_t>(i)] += static_cast<double>(y[static_cast<std::size_t>(o)]) * wk;
    });
    const std::vector<float> forward_bias = random(form.M, 4), input_bias = random(form.C, 5), none;
    Device device(2);
    Stream stream(device);
    const auto data = [](const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); };
    for (const Activation activation : activations)
        for (const bool with_bias : {false, true})
            for (const bool with_residual : {false, true}) {
                const std::vector<float>&bias = with_bias ? forward_bias : none, &more = with_residual ? y : none;
                std::vector<float> out(y.size(), NAN);
                convolution_forward({.y = out.data(),
                                     .x = x.data(),
                                     .weight = weight.data(),
                                     .bias = data(bias),
                                     .activation = activation,
                                     .residual = data(more),
                                     .form = form},
                                    stream);
                expect(out, finished(of_y, form.M, form.steps(), bias, activation, more), form.depth());
                const std::vector<float>&dbias = with_bias ? input_bias : none, &dmore = with_residual ? x : none;
                out.assign(x.size(), NAN);
                convolution_backward_input({.dx = out.data(),
                                            .dy = y.data(),
                                            .weight = weight.data(),
                                            .bias = data(dbias),
                                            .activation = activation,
                                            .residual = data(dmore),
                                            .form = form},
                                           stream);
                expect(out, finished(of_x, form.C, count(form.in), dbias, activation, dmore),
                       form.M / form.groups * count(form.window));
            }
}

TEST_P(Convolution, BackwardWeight) {
    std::vector<double> sums(weight.size());
    for_each_product(form, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
        sums[static_cast<std::size_t>(k)] +=
            static_cast<double>(y[static_cast<std::size_t>(o)]) * static_cast<double>(x[static_cast<std::size_t>(i)]);
    });
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        std::vector<double> expected = sums;
        if (mode == WriteMode::add)
            for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += static_cast<double>(weight[k]);
        with_threads([&](Stream& stream) {
            std::vector<float> out = weight;
            convolution_backward_weight(
                {.dweight = out.data(), .dy = y.data(), .x = x.data(), .mode = mode, .form = form}, stream);
            expect(out, expected, form.N * form.steps());
        });
        std::vector<double> expected_bias(static_cast<std::size_t>(form.M));
        const std::vector<float> bias_before = random(form.M, 6);
        for (std::size_t m = 0; m < expected_bias.size(); ++m)
            expected_bias[m] = mode == WriteMode::add ? static_cast<double>(bias_before[m]) : 0;
        for (std::size_t o = 0; o < y.size(); ++o)
            expected_bias[static_cast<std::size_t>(static_cast<std::int64_t>(o) / form.steps() % form.M)] +=
                static_cast<double>(y[o]);
        with_threads([&](Stream& stream) {
            std::vector<float> out = weight, bias = bias_before;
            convolution_backward_weight({.dweight = out.data(),
                                         .dbias = bias.data(),
                                         .dy = y.data(),
                                         .x = x.data(),
                                         .mode = mode,
                                         .form = form},
                                        stream);
            expect(out, expected, form.N * form.steps());
            expect(bias, expected_bias, form.N * form.steps());
        });
    }
}

template <typename T>
T narrowed(float x) {
    if constexpr (std::is_same_v<T, bf16>)
        return to_bf16(x);
    else if constexpr (std::is_same_v<T, f16>)
        return to_f16(x);
    else
        return x;
}
template <typename T>
std::vector<T> narrowed(const std::vector<float>& numbers) {
    std::vector<T> out;
    for (const float x : numbers) out.push_back(narrowed<T>(x));
    return out;
}
template <typename T>
double value(T x) {
    if constexpr (std::is_same_v<T, float>)
        return static_cast<double>(x);
    else
        return static_cast<double>(to_float(x));
}

// Half a unit in the last place of a result of this type, of what it is.
template <typename T>
constexpr double rounding = std::is_same_v<T, bf16>  ? 0x1p-8
                            : std::is_same_v<T, f16> ? 0x1p-11
                                                     : 0;

// The three calls with factors of T and results of R, against the sums of the narrow numbers: rounded once.
template <typename T, typename R>
void expect_narrow(const Case& c, const std::vector<float>& x0, const std::vector<float>& weight0,
                   const std::vector<float>& y0) {
    const ConvolutionForm& form = c.form;
    const std::vector<T> x = narrowed<T>(x0), weight = narrowed<T>(weight0), y = narrowed<T>(y0);
    std::vector<double> of_y(y.size()), of_x(x.size()), of_weight(weight.size());
    for_each_product(form, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
        const double xi = value(x[static_cast<std::size_t>(i)]), wk = value(weight[static_cast<std::size_t>(k)]),
                     yo = value(y[static_cast<std::size_t>(o)]);
        of_y[static_cast<std::size_t>(o)] += xi * wk;
        of_x[static_cast<std::size_t>(i)] += yo * wk;
        of_weight[static_cast<std::size_t>(k)] += yo * xi;
    });
    const auto expect_rounded = [&](const std::vector<R>& got, const std::vector<double>& expected,
                                    std::int64_t terms) {
        const double size = std::sqrt(static_cast<double>(terms));
        for (std::size_t k = 0; k < got.size(); ++k) {
            const double of_sum = 1.2e-7 * (size + 4) * (size + 1 + std::abs(expected[k]));  // as in expect()
            ASSERT_NEAR(value(got[k]), expected[k], of_sum + rounding<R> * (std::abs(expected[k]) + of_sum))
                << c.name << " at " << k;
        }
    };
    Device device(2);
    Stream stream(device);
    // Bias and residual of the result's type, a bias in f32 as well.
    const std::vector<float> bias0 = random(std::max(form.C, form.M), 4);
    const std::vector<R> bias = narrowed<R>(bias0), more_y = narrowed<R>(y0), more_x = narrowed<R>(x0);
    for (const bool wide_bias : {false, true}) {
        const auto with = [&](std::vector<double> sums, std::int64_t channels, std::int64_t elements,
                              const std::vector<R>& more) {
            for (std::size_t i = 0; i < sums.size(); ++i) {
                const auto m = static_cast<std::size_t>(static_cast<std::int64_t>(i) / elements % channels);
                sums[i] = activated(Activation::silu, sums[i] + (wide_bias ? value(bias0[m]) : value(bias[m])));
                sums[i] += value(more[i]);
            }
            return sums;
        };
        const Input b = wide_bias ? Input(bias0.data()) : Input(bias.data());
        std::vector<R> made(y.size());
        convolution_forward({.y = made.data(),
                             .x = x.data(),
                             .weight = weight.data(),
                             .bias = b,
                             .activation = Activation::silu,
                             .residual = more_y.data(),
                             .form = form},
                            stream);
        expect_rounded(made, with(of_y, form.M, form.steps(), more_y), form.depth());
        made.assign(x.size(), R{});
        convolution_backward_input({.dx = made.data(),
                                    .dy = y.data(),
                                    .weight = weight.data(),
                                    .bias = b,
                                    .activation = Activation::silu,
                                    .residual = more_x.data(),
                                    .form = form},
                                   stream);
        expect_rounded(made, with(of_x, form.C, count(form.in), more_x), form.M / form.groups * count(form.window));
    }
    std::vector<R> made(y.size());
    convolution_forward({.y = made.data(), .x = x.data(), .weight = weight.data(), .form = form}, stream);
    expect_rounded(made, of_y, form.depth());
    made.assign(x.size(), R{});
    convolution_backward_input({.dx = made.data(), .dy = y.data(), .weight = weight.data(), .form = form}, stream);
    expect_rounded(made, of_x, form.M / form.groups * count(form.window));
    std::vector<double> of_bias(static_cast<std::size_t>(form.M));
    for (std::size_t o = 0; o < y.size(); ++o)
        of_bias[static_cast<std::size_t>(static_cast<std::int64_t>(o) / form.steps() % form.M)] += value(y[o]);
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        made = narrowed<R>(weight0);
        std::vector<R> dbias(bias.begin(), bias.begin() + form.M);
        if (mode == WriteMode::add) {
            for (std::size_t k = 0; k < made.size(); ++k) of_weight[k] += value(made[k]);
            for (std::size_t m = 0; m < dbias.size(); ++m) of_bias[m] += value(dbias[m]);
        }
        convolution_backward_weight(
            {.dweight = made.data(), .dbias = dbias.data(), .dy = y.data(), .x = x.data(), .mode = mode, .form = form},
            stream);
        expect_rounded(made, of_weight, form.N * form.steps());
        expect_rounded(dbias, of_bias, form.N * form.steps());
    }
}

TEST_P(Convolution, OfNarrowTypes) {
    expect_narrow<bf16, bf16>(GetParam(), x, weight, y);
    expect_narrow<f16, float>(GetParam(), x, weight, y);
}

// What is no number stays none behind relu, which the library's own would lose: by the library, and as products.
TEST(FinishedConvolution, ReluOfNoNumber) {
    for (const std::int64_t images : {4, 1}) {
        const ConvolutionForm form{
            .N = images, .C = 16, .M = 16, .in = {1, 9, 9}, .out = {1, 7, 7}, .window = {1, 3, 3}};
        const std::vector<float> x(static_cast<std::size_t>(form.N * form.C * count(form.in)), NAN),
            weight = random(form.M * form.depth(), 2);
        std::vector<float> y(static_cast<std::size_t>(form.N * form.M * form.steps()));
        Device device(2);
        Stream stream(device);
        convolution_forward(
            {.y = y.data(), .x = x.data(), .weight = weight.data(), .activation = Activation::relu, .form = form},
            stream);
        EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](float v) { return std::isnan(v); })) << images;
    }
}

// So many elements that each image has its copy in f32 by itself.
TEST(LargeConvolution, OfNarrowTypesGoesThroughItsImages) {
    constexpr std::int64_t elements = std::int64_t{12} << 20;
    const ConvolutionForm form{
        .N = 3, .C = 1, .M = 1, .in = {1, 1, elements}, .out = {1, 1, elements}, .window = {1, 1, 1}};
    std::vector<bf16> x(3 * elements), y(3 * elements);
    for (std::int64_t i = 0; i < 3 * elements; ++i) x[static_cast<std::size_t>(i)] = to_bf16(static_cast<float>(i % 8));
    const std::vector<bf16> weight = {to_bf16(2)};
    Device device(2);
    Stream stream(device);
    convolution_forward({.y = y.data(), .x = x.data(), .weight = weight.data(), .form = form}, stream);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < 3 * elements; ++i)
        wrong += to_float(y[static_cast<std::size_t>(i)]) != 2 * static_cast<float>(i % 8) ? 1 : 0;
    EXPECT_EQ(wrong, 0);
    // 5 at the fourth element of each image, where x is 3.
    y.assign(y.size(), bf16{});
    for (std::int64_t n = 0; n < 3; ++n) y[static_cast<std::size_t>(n * elements + 3)] = to_bf16(5);
    std::vector<float> dweight = {100};
    convolution_backward_weight(
        {.dweight = dweight.data(), .dy = y.data(), .x = x.data(), .mode = WriteMode::add, .form = form}, stream);
    EXPECT_EQ(dweight[0], 145);
}

INSTANTIATE_TEST_SUITE_P(Forms, Convolution, ::testing::ValuesIn(cases), [](const auto& info) {
    std::string name = info.param.name;
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
});

}  // namespace convolution_test
}  // namespace thunder
