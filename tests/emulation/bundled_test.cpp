// SPDX-License-Identifier: Apache-2.0
// The runtime's own kernels for GPUs, with the launchers that start them, on the emulated GPU: against naive references
// in double, at sizes that are no multiples of anything.
#include "emulation/bundled.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "comm/nccl/kernels.h"
#include "device/api.h"
#include "device/convolution/by_rows.h"
#include "device/convolution/widened.h"
#include "device/cuda/convolution/convolution.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/reference.h"
#include "runtime/kernels/call_types_cases.h"
#include "support/philox.h"

namespace thunder {

// What the emulated device has of the host's calls.
void fill_zero(void* dst, std::size_t bytes, Stream&) {
    std::memset(dst, 0, bytes);
    emulation::Allocation::find(dst)->set_written(true);
}

void copy(void* dst, const void* src, std::size_t bytes, Stream&) {
    std::memcpy(dst, src, bytes);
    emulation::Allocation::find(dst)->set_written(true);
}

namespace {

// ---- after a product -----------------------------------------------------------------------------------------------

double activated(double x, Activation activation) {
    switch (activation) {
        case Activation::none: return x;
        case Activation::relu: return x > 0 ? x : 0;
        case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case Activation::silu: return x / (1 + std::exp(-x));
        case Activation::tanh: return std::tanh(x);
    }
    return 0;
}

template <typename T>
void check_epilogue(const std::vector<float>& source, const std::vector<float>& bias,
                    const std::vector<float>& residual, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                    Activation activation, bool accumulate, bool keeps, Stream& stream) {
    // f32: some functions of 2 to 3 ulp; bf16: results are rounded to 8 bits, f16: to 11, and so is what the activation
    // reads
    const double relative = std::is_same_v<T, float> ? 1e-6 : std::is_same_v<T, bf16> ? 0x1p-7 : 0x1p-10;
    Buffer<T> x("source", stored<T>(source)), r("residual", stored<T>(residual)), b("bias", stored<T>(bias));
    Buffer<T> y("y", stored<T>(residual)), pre("pre", static_cast<std::size_t>(rows * columns));
    Epilogue call{.y = y.data(),
                  .source = x.data(),
                  .bias = b.data(),
                  .residual = r.data(),
                  .accumulate = accumulate,
                  .activation = activation,
                  .rows = rows,
                  .columns = columns,
                  .ld_y = ld,
                  .ld_source = ld,
                  .ld_residual = ld};
    if (keeps) call.pre_activation = pre.data();
    epilogue(call, stream);
    const std::vector<T> x0 = stored<T>(source), b0 = stored<T>(bias), r0 = stored<T>(residual);
    const std::vector<T> got = y.values();
    std::vector<double> expected;
    std::vector<T> there;
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
            const auto at = static_cast<std::size_t>(i * ld + j);
            const double z =
                static_cast<double>(wide(x0[at])) + static_cast<double>(wide(b0[static_cast<std::size_t>(j)]));
            expected.push_back(activated(z, activation) + (accumulate ? 2 : 1) * static_cast<double>(wide(r0[at])));
            there.push_back(got[at]);
        }
    }
    expect_close(there, expected, relative, 4.0, "y");
    if (!keeps) return;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
        const auto at = static_cast<std::size_t>(i / columns * ld + i % columns);
        const double z =
            static_cast<double>(wide(x0[at])) + static_cast<double>(wide(b0[static_cast<std::size_t>(i % columns)]));
        ASSERT_NEAR(static_cast<double>(wide(pre[static_cast<std::size_t>(i)])), z, relative * (1 + std::abs(z)));
    }
}

TEST_F(Bundled, EpiloguesOfProducts) {
    for (const std::int64_t columns : {1, 24, 37}) {
        const std::int64_t rows = 21, ld = columns == 24 ? 32 : columns + 3;
        const std::vector<float> source = random(rows * ld), bias = random(columns), residual = random(rows * ld);
        for (int activation = 0; activation <= static_cast<int>(Activation::tanh); ++activation) {
            for (const bool accumulate : {false, true}) {
                for (const bool keeps : {false, true}) {
                    check_epilogue<float>(source, bias, residual, rows, columns, ld,
                                          static_cast<Activation>(activation), accumulate, keeps, stream);
                    check_epilogue<bf16>(source, bias, residual, rows, columns, ld, static_cast<Activation>(activation),
                                         accumulate, keeps, stream);
                    check_epilogue<f16>(source, bias, residual, rows, columns, ld, static_cast<Activation>(activation),
                                        accumulate, keeps, stream);
                }
            }
        }
    }
}

// silu(product + bias) + residual in bf16 of a product in f32: half the spacing of bf16, 2^-8 of the value, away from
// the exact one, and 2e-4 for the arithmetic in f32: some ten roundings of 2^-18 each, half the spacing from 64 to 128.
// Here the value is of size 1, since the residual takes away the 100 that the product has. A product that is rounded
// first is off by up to 0.25, half the spacing of bf16 from 64 to 128, and 0.12 in the mean: some 20 times what is
// allowed.
TEST_F(Bundled, EpiloguesOfProductsInF32RoundOnce) {
    for (const std::int64_t columns : {24, 37}) {
        const std::int64_t rows = 5;
        std::vector<float> source = random(rows * columns);
        for (float& v : source) v += 100.0F;
        const std::vector<float> bias = random(columns);
        std::vector<float> residual = random(rows * columns);
        for (float& v : residual) v -= 100.0F;
        Buffer<float> x("source", source), b("bias", bias);
        Buffer<bf16> r("residual", rounded(residual)), b16("bias", rounded(bias));
        for (const bool wide_bias : {false, true}) {
            Buffer<bf16> y("y", static_cast<std::size_t>(rows * columns));
            Epilogue call{.y = y.data(),
                          .source = x.data(),
                          .residual = r.data(),
                          .activation = Activation::silu,
                          .rows = rows,
                          .columns = columns,
                          .ld_y = columns,
                          .ld_source = columns,
                          .ld_residual = columns};
            if (wide_bias)
                call.bias = b.data();
            else
                call.bias = b16.data();
            epilogue(call, stream);
            const std::vector<bf16> r0 = rounded(residual), b0 = rounded(bias), got = y.values();
            for (std::size_t i = 0; i < got.size(); ++i) {
                const std::size_t j = i % static_cast<std::size_t>(columns);
                const auto added = static_cast<double>(wide_bias ? bias[j] : to_float(b0[j]));
                const double z = static_cast<double>(source[i]) + added;
                const double expected = activated(z, Activation::silu) + static_cast<double>(to_float(r0[i]));
                ASSERT_NEAR(static_cast<double>(to_float(got[i])), expected, 0x1p-8 * std::abs(expected) + 2e-4) << i;
            }
        }
    }
}

TEST_F(Bundled, SumsOfColumns) {
    for (const std::int64_t rows : {1, 100, 1100}) {
        const std::int64_t columns = 133, ld = 140;
        const std::vector<float> x = random(rows * ld), before = random(columns);
        for (const bool add : {false, true}) {
            Buffer<float> in("x", x), sums("sums", before);
            column_sums(sums.data(), in.data(), rows, columns, ld, add ? WriteMode::add : WriteMode::overwrite, stream);
            std::vector<double> expected(static_cast<std::size_t>(columns));
            for (std::int64_t j = 0; j < columns; ++j) {
                auto& sum = expected[static_cast<std::size_t>(j)];
                if (add) sum = static_cast<double>(before[static_cast<std::size_t>(j)]);
                for (std::int64_t i = 0; i < rows; ++i)
                    sum += static_cast<double>(x[static_cast<std::size_t>(i * ld + j)]);
            }
            // as many roundings as a block has rows, of sums of size sqrt(rows)
            expect_close(sums.values(), expected, 1e-6, std::sqrt(static_cast<double>(rows)), "sums");
        }
    }
}

// ---- cross entropy -------------------------------------------------------------------------------------------------

template <typename T>
void check_cross_entropy(const std::vector<float>& values, const std::vector<std::int64_t>& labels,
                         std::int64_t classes, Stream& stream) {
    const auto rows = static_cast<std::int64_t>(labels.size());
    const std::vector<T> logits = stored<T>(values);
    Buffer<T> x("logits", logits);
    Buffer<std::int64_t> wanted("labels", labels);
    Buffer<float> loss("loss", 1), lse("lse", labels.size()), dloss("dloss", std::vector<float>{0.25F});
    cross_entropy_forward({.loss = loss.data(),
                           .lse = lse.data(),
                           .logits = x.data(),
                           .labels = wanted.data(),
                           .rows = rows,
                           .classes = classes},
                          stream);
    double sum = 0;
    std::vector<double> dlogits(logits.size());
    for (std::int64_t i = 0; i < rows; ++i) {
        const T* row = logits.data() + i * classes;
        const std::int64_t label = labels[static_cast<std::size_t>(i)];
        if (label == -100) continue;
        double total = 0;
        for (std::int64_t j = 0; j < classes; ++j) total += std::exp(static_cast<double>(wide(row[j])));
        sum += std::log(total) - static_cast<double>(wide(row[label]));
        EXPECT_NEAR(lse[static_cast<std::size_t>(i)], std::log(total), 1e-5);
        for (std::int64_t j = 0; j < classes; ++j)
            dlogits[static_cast<std::size_t>(i * classes + j)] =
                0.25 * (std::exp(static_cast<double>(wide(row[j]))) / total - (j == label ? 1 : 0));
    }
    EXPECT_NEAR(loss[0], sum, 1e-5 * std::abs(sum));
    cross_entropy_backward({.dlogits = x.data(),
                            .logits = x.data(),
                            .labels = wanted.data(),
                            .lse = lse.data(),
                            .dloss = dloss.data(),
                            .rows = rows,
                            .classes = classes},
                           stream);  // in place
    // exp(x - lse) of an lse of size 10 is as exact as that, and so is its difference to 1, times dloss; bf16 rounds it
    const bool exact = std::is_same_v<T, float>;
    expect_close(x.values(), dlogits, exact ? 2e-6 : 0x1p-8, exact ? 0.25 : 1e-3, "dlogits");
}

TEST_F(Bundled, CrossEntropyForwardAndInPlaceBackward) {
    for (const std::int64_t classes : {3, 7, 1032, 1100, 4097}) {
        const std::vector<float> logits = random(5 * classes, 3.0F);
        std::vector<std::int64_t> labels = ids(5, classes);
        labels[2] = -100;
        labels[4] = classes - 1;
        check_cross_entropy<float>(logits, labels, classes, stream);
        check_cross_entropy<bf16>(logits, labels, classes, stream);
        check_cross_entropy<f16>(logits, labels, classes, stream);
    }
}

TEST_F(Bundled, CallsTakeTheTypesThatTheRuntimeApiSays) {
    for (const testing::TypesCase& c : testing::types_of_grouped_calls<Buffer>()) expect_types(c, stream);
    for (const testing::TypesCase& c : testing::types_of_other_calls<Buffer>()) expect_types(c, stream);
}

// ---- tables --------------------------------------------------------------------------------------------------------

TEST_F(Bundled, EmbeddingTakesRows) {
    for (const std::int64_t width : {1, 5, 64}) {
        const std::vector<float> table = random(11 * width);
        const std::vector<std::int64_t> wanted = ids(19, 11);
        Buffer<float> weight("weight", table), y("y", static_cast<std::size_t>(19 * width));
        Buffer<bf16> narrow_weight("weight", rounded(table)), narrow("narrow", static_cast<std::size_t>(19 * width));
        Buffer<std::int64_t> index("ids", wanted);
        embedding_forward(
            {.y = y.data(), .weight = weight.data(), .ids = index.data(), .rows = 19, .entries = 11, .width = width},
            stream);
        embedding_forward({.y = narrow.data(),
                           .weight = narrow_weight.data(),
                           .ids = index.data(),
                           .rows = 19,
                           .entries = 11,
                           .width = width},
                          stream);
        for (std::int64_t i = 0; i < 19 * width; ++i) {
            const float expected =
                table[static_cast<std::size_t>(wanted[static_cast<std::size_t>(i / width)] * width + i % width)];
            ASSERT_EQ(y[static_cast<std::size_t>(i)], expected);
            ASSERT_EQ(to_float(narrow[static_cast<std::size_t>(i)]), to_float(to_bf16(expected)));
        }
    }
}

TEST_F(Bundled, EmbeddingGradientsAreSumsInAnOrderThatTheIdsGive) {
    // few entries: ids go over several pieces of 64 rows, and pieces hold several ids
    for (const auto& [rows, entries] :
         {std::pair<std::int64_t, std::int64_t>{1, 4}, {63, 1}, {64, 2}, {300, 1}, {300, 3}, {333, 150}}) {
        const std::int64_t width = 7;
        const std::vector<std::int64_t> wanted = ids(rows, entries);
        const std::vector<float> dy = random(rows * width), before = random(entries * width);
        for (const bool add : {false, true}) {
            Buffer<float> dweight("dweight", before), gradient("dy", dy);
            Buffer<std::int64_t> index("ids", wanted);
            embedding_backward({.dweight = dweight.data(),
                                .dy = gradient.data(),
                                .ids = index.data(),
                                .mode = add ? WriteMode::add : WriteMode::overwrite,
                                .rows = rows,
                                .entries = entries,
                                .width = width},
                               stream);
            std::vector<double> expected(before.size());
            if (add) expected.assign(before.begin(), before.end());
            for (std::int64_t i = 0; i < rows * width; ++i)
                expected[static_cast<std::size_t>(wanted[static_cast<std::size_t>(i / width)] * width + i % width)] +=
                    static_cast<double>(dy[static_cast<std::size_t>(i)]);
            expect_close(dweight.values(), expected, 2e-6, std::sqrt(static_cast<double>(rows)), "dweight");
        }
    }
}

TEST_F(Bundled, GatherAndScatterAdd) {
    const std::int64_t outer = 3, entries = 10, count = 17, inner = 5;
    const std::vector<float> x = random(outer * entries * inner);
    const std::vector<std::int64_t> wanted = ids(count, entries);
    Buffer<float> from("x", x), y("y", static_cast<std::size_t>(outer * count * inner));
    Buffer<std::int64_t> index("index", wanted);
    gather({.y = y.data(),
            .x = from.data(),
            .index = index.data(),
            .outer = outer,
            .entries = entries,
            .count = count,
            .inner = inner},
           stream);
    Buffer<float> back("back", static_cast<std::size_t>(outer * entries * inner));
    scatter_add({.y = back.data(),
                 .x = y.data(),
                 .index = index.data(),
                 .outer = outer,
                 .entries = entries,
                 .count = count,
                 .inner = inner},
                stream);
    std::vector<double> sums(x.size());
    for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t i = 0; i < count; ++i) {
            for (std::int64_t j = 0; j < inner; ++j) {
                const auto there =
                    static_cast<std::size_t>((o * entries + wanted[static_cast<std::size_t>(i)]) * inner + j);
                ASSERT_EQ(y[static_cast<std::size_t>((o * count + i) * inner + j)], x[there]);
                sums[there] += static_cast<double>(x[there]);
            }
        }
    }
    expect_close(back.values(), sums, 1e-6, 1.0, "back");
}

// ---- calls of naive programs: one sum in double for each element, in order, rounded once ---------------------------

template <typename C, typename A>
void check_reference_product(const std::vector<float>& numbers, bool ta, bool tb, bool add, Stream& stream) {
    const std::int64_t batch = 3, m = 7, n = 13, k = 9;
    const auto some = [&numbers](std::int64_t from, std::int64_t count) {
        return std::vector<float>(numbers.begin() + from, numbers.begin() + from + count);
    };
    const std::vector<A> a = stored<A>(some(0, batch * m * k)),
                         b = stored<A>(some(200, k * n));  // b: one for the batch
    const std::vector<C> before = stored<C>(some(400, batch * m * n));
    Buffer<A> a_there("a", a), b_there("b", b);
    Buffer<C> c_there("c", before);
    reference_matmul({.c = c_there.data(),
                      .a = a_there.data(),
                      .b = b_there.data(),
                      .transpose_a = ta,
                      .transpose_b = tb,
                      .mode = add ? WriteMode::add : WriteMode::overwrite,
                      .batch = batch,
                      .m = m,
                      .n = n,
                      .k = k,
                      .stride_a = m * k,
                      .stride_b = 0,
                      .stride_c = m * n},
                     stream);
    const std::vector<C> got = c_there.values();
    for (std::int64_t at = 0; at < batch * m * n; ++at) {
        const std::int64_t z = at / (m * n), i = at / n % m, j = at % n;
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
            sum += static_cast<double>(wide(a[static_cast<std::size_t>(z * m * k + (ta ? p * m + i : i * k + p))])) *
                   static_cast<double>(wide(b[static_cast<std::size_t>(tb ? j * k + p : p * n + j)]));
        if (add) sum += static_cast<double>(wide(before[static_cast<std::size_t>(at)]));
        const C expected = stored<C>({static_cast<float>(sum)})[0];
        ASSERT_EQ(wide(got[static_cast<std::size_t>(at)]), wide(expected)) << at;
    }
}

TEST_F(Bundled, ReferenceProducts) {
    const std::vector<float> numbers = random(1000);
    for (const bool ta : {false, true})
        for (const bool tb : {false, true})
            for (const bool add : {false, true}) {
                check_reference_product<float, float>(numbers, ta, tb, add, stream);
                check_reference_product<float, bf16>(numbers, ta, tb, add, stream);
                check_reference_product<bf16, bf16>(numbers, ta, tb, add, stream);
                check_reference_product<float, f16>(numbers, ta, tb, add, stream);
                check_reference_product<f16, f16>(numbers, ta, tb, add, stream);
            }
}

// What convolutions are beside products, by the definition; of two images, with gaps, padding and elements that no
// window sees.
TEST_F(Bundled, RowsOfWhatAWindowSees) {
    const ConvolutionForm f{.N = 2,
                            .C = 3,
                            .in = {2, 7, 6},
                            .out = {2, 3, 8},
                            .window = {2, 3, 2},
                            .strides = {1, 2, 1},
                            .dilations = {1, 1, 3},
                            .before = {1, 1, 2}};
    const std::int64_t places = count(f.window), columns = f.C * places, elements = count(f.in);
    const std::vector<float> x = random(f.N * f.C * elements), rows = random(f.N * f.steps() * columns);
    Buffer<float> images("x", x), seen("rows", rows.size()), given("rows", rows), back("x", x.size());
    see(seen.data(), images.data(), f, f.N, stream);
    put_back(back.data(), given.data(), f, f.N, stream);
    std::vector<float> expected(rows.size());
    std::vector<double> sums(x.size());
    for (std::int64_t at = 0; at < f.N * f.steps() * columns; ++at) {
        const std::int64_t row = at / columns, s = row % f.steps(), c = at % columns / places, k = at % places;
        const Sizes step = {s / (f.out[1] * f.out[2]), s / f.out[2] % f.out[1], s % f.out[2]};
        const Sizes place = {k / (f.window[1] * f.window[2]), k / f.window[2] % f.window[1], k % f.window[2]};
        std::int64_t element = row / f.steps() * f.C + c;
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
            const std::int64_t i = step[d] * f.strides[d] + place[d] * f.dilations[d] - f.before[d];
            inside = inside && i >= 0 && i < f.in[d];
            element = element * f.in[d] + i;
        }
        if (!inside) continue;
        expected[static_cast<std::size_t>(at)] = x[static_cast<std::size_t>(element)];
        sums[static_cast<std::size_t>(element)] += static_cast<double>(rows[static_cast<std::size_t>(at)]);
    }
    EXPECT_EQ(seen.values(), expected);
    expect_close(back.values(), sums, 2e-6, 3, "x");  // sums of up to 12 numbers

    Buffer<float> turned("turned", x.size());
    turn(turned.data(), images.data(), 2, 14, 18, stream);
    for (std::int64_t at = 0; at < 2 * 14 * 18; ++at)
        EXPECT_EQ(turned[static_cast<std::size_t>((at / 252 * 18 + at % 18) * 14 + at / 18 % 14)],
                  x[static_cast<std::size_t>(at)]);
}

TEST_F(Bundled, GradientsOfWeightsAreAddedToWhatIsThere) {
    for (const std::size_t elements : {1U, 256U, 1000U}) {
        const std::vector<float> sums = random(static_cast<std::int64_t>(elements)),
                                 more = random(static_cast<std::int64_t>(elements));
        Buffer<float> to("to", sums), from("from", more);
        add_to(to.data(), from.data(), static_cast<std::int64_t>(elements), stream);
        for (std::size_t i = 0; i < elements; ++i) EXPECT_EQ(to[i], sums[i] + more[i]);
    }
}

template <typename T, typename Narrow>
void expect_copies(const std::vector<float>& numbers, Narrow&& to_narrow, Stream& stream) {
    std::vector<T> narrow;
    for (const float x : numbers) narrow.push_back(to_narrow(x));
    const auto n = static_cast<std::int64_t>(numbers.size()) - 3;
    Buffer<T> from("from", narrow), back("back", narrow), added("added", narrow);
    Buffer<float> wide("wide", static_cast<std::size_t>(n));
    widen(wide.data(), Input(from.data()), 2, n, stream);
    for (std::int64_t i = 0; i < n; ++i)
        EXPECT_EQ(wide[static_cast<std::size_t>(i)], to_float(narrow[static_cast<std::size_t>(i + 2)]));
    Buffer<float> sums("sums", numbers);
    round_to(Output(back.data()), 2, sums.data(), n, WriteMode::overwrite, stream);
    round_to(Output(added.data()), 2, sums.data(), n, WriteMode::add, stream);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const bool inside = i >= 2 && i < 2 + static_cast<std::size_t>(n);
        const float was = to_float(narrow[i]), sum = inside ? numbers[i - 2] : 0;
        EXPECT_EQ(to_float(back[i]), inside ? to_float(to_narrow(sum)) : was) << i;
        EXPECT_EQ(to_float(added[i]), inside ? to_float(to_narrow(was + sum)) : was) << i;
    }
}

TEST_F(Bundled, NarrowConvolutionsHaveCopiesInF32) {
    expect_copies<bf16>(
        random(600), [](float x) { return to_bf16(x); }, stream);
    expect_copies<f16>(
        random(600), [](float x) { return to_f16(x); }, stream);
}

// Those of the CPU, of which tests/runtime/kernels/random_test.cpp tells more.
TEST_F(Bundled, RandomNumbers) {
    Buffer<std::int64_t> seed("seed", std::vector<std::int64_t>{0x123456789}),
        draw("draw", std::vector<std::int64_t>{4}), numbers("numbers", std::vector<std::int64_t>{7, -1, 0x500000003});
    for (const std::int64_t width : {1, 5, 64, 1030})
        for (const bool reference : {false, true}) {
            const std::int64_t rows = 3;
            Buffer<float> u("u", static_cast<std::size_t>(rows * width));
            Buffer<bool> b("b", static_cast<std::size_t>(rows * width));
            const RandomUniform uniform{.y = u.data(),
                                        .seed = seed.data(),
                                        .draw = draw.data(),
                                        .numbers = numbers.data(),
                                        .rows = rows,
                                        .width = width};
            const RandomBernoulli bernoulli{.y = b.data(),
                                            .seed = seed.data(),
                                            .draw = draw.data(),
                                            .numbers = numbers.data(),
                                            .rows = rows,
                                            .width = width,
                                            .p = 0.3};
            reference ? reference_random_uniform(uniform, stream) : random_uniform(uniform, stream);
            reference ? reference_random_bernoulli(bernoulli, stream) : random_bernoulli(bernoulli, stream);
            for (std::int64_t row = 0; row < rows; ++row)
                for (std::int64_t i = 0; i < width; ++i) {
                    const auto number = static_cast<std::uint64_t>(numbers.values()[static_cast<std::size_t>(row)]);
                    const PhiloxCounter words =
                        philox({static_cast<std::uint32_t>(i / 4), 0, static_cast<std::uint32_t>(number),
                                static_cast<std::uint32_t>(number >> 32)},
                               {4, 0x23456789});
                    const double expected = (words[static_cast<std::size_t>(i % 4)] >> 8) * 0x1p-24;
                    const auto at = static_cast<std::size_t>(row * width + i);
                    ASSERT_EQ(u.values()[at], static_cast<float>(expected)) << width << " " << row << " " << i;
                    ASSERT_EQ(b.values()[at], expected < 0.3) << width << " " << row << " " << i;
                }
        }
}

TEST_F(Bundled, ReferenceIndexedAccess) {
    const std::int64_t outer = 3, entries = 10, count = 17, inner = 5;
    const std::vector<float> x = random(outer * entries * inner);
    const std::vector<std::int64_t> wanted = ids(count, entries);
    const std::vector<std::int32_t> narrow(wanted.begin(), wanted.end());
    Buffer<float> from("x", x), y("y", static_cast<std::size_t>(outer * count * inner));
    Buffer<std::int64_t> index("index", wanted);
    Buffer<std::int32_t> short_index("index", narrow);
    for (const Input of : {Input(static_cast<const std::int64_t*>(index.data())),
                           Input(static_cast<const std::int32_t*>(short_index.data()))}) {
        reference_gather({.y = y.data(),
                          .x = from.data(),
                          .index = of,
                          .outer = outer,
                          .entries = entries,
                          .count = count,
                          .inner = inner},
                         stream);
        Buffer<float> back("back", static_cast<std::size_t>(outer * entries * inner));
        reference_scatter_add({.y = back.data(),
                               .x = y.data(),
                               .index = of,
                               .outer = outer,
                               .entries = entries,
                               .count = count,
                               .inner = inner},
                              stream);
        std::vector<double> sums(x.size());
        for (std::int64_t o = 0; o < outer; ++o)
            for (std::int64_t i = 0; i < count; ++i)
                for (std::int64_t j = 0; j < inner; ++j) {
                    const auto there =
                        static_cast<std::size_t>((o * entries + wanted[static_cast<std::size_t>(i)]) * inner + j);
                    ASSERT_EQ(y[static_cast<std::size_t>((o * count + i) * inner + j)], x[there]);
                    sums[there] += static_cast<double>(x[there]);
                }
        for (std::size_t at = 0; at < sums.size(); ++at) ASSERT_EQ(back[at], static_cast<float>(sums[at]));
    }
}

template <typename T>
void check_conversion(const std::vector<float>& numbers, Stream& stream) {
    const auto elements = static_cast<std::int64_t>(numbers.size());
    Buffer<float> high("high", numbers), again("again", numbers.size());
    Buffer<T> low("low", numbers.size());
    convert(low.data(), high.data(), elements, stream);
    convert(again.data(), low.data(), elements, stream);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(bits_of(low.values()[i]), bits_of(narrow_to<T>(numbers[i])));
        ASSERT_EQ(again.values()[i], to_float(narrow_to<T>(numbers[i])));
    }
}

TEST_F(Bundled, ConvertsBetweenF32AndNarrowTypes) {
    for (const std::int64_t elements : {1, 1023, 1024, 4099}) {
        check_conversion<bf16>(random(elements), stream);
        check_conversion<f16>(random(elements), stream);
    }
}

// Columns of a unit of three ranks, of which each part is one element longer than what is taken of it.
TEST_F(Bundled, TakesColumnsOfAUnit) {
    for (const std::int64_t columns : {1, 255, 300}) {
        const std::int64_t rows = 3, ld = columns + 1;
        const std::vector<float> numbers = random(rows * ld);
        Buffer<float> unit("unit", numbers);
        Buffer<bf16> narrow("narrow", rounded(numbers));
        Buffer<f16> half("half", stored<f16>(numbers));
        for (const Input& x :
             {Input(static_cast<const float*>(unit.data())), Input(static_cast<const bf16*>(narrow.data())),
              Input(static_cast<const f16*>(half.data()))}) {
            Buffer<float> taken("taken", static_cast<std::size_t>(rows * columns));
            take_columns(taken.data(), x, rows, columns, ld, stream);
            for (std::int64_t r = 0; r < rows; ++r)
                for (std::int64_t j = 0; j < columns; ++j) {
                    const float expected = numbers[static_cast<std::size_t>(r * ld + j)];
                    ASSERT_EQ(taken.values()[static_cast<std::size_t>(r * columns + j)],
                              x.dtype == DType::f32    ? expected
                              : x.dtype == DType::bf16 ? to_float(to_bf16(expected))
                                                       : to_float(to_f16(expected)));
                }
        }
    }
}

TEST_F(Bundled, MilestonesAreCountedAndNamed) {
    Buffer<std::uint64_t> word("word", std::vector<std::uint64_t>{0});
    for (const std::uint16_t which : {7, 0, 65535}) milestone(word.data(), which, stream);
    EXPECT_EQ(word.values()[0], 3U << 16U | 65535U);
}

}  // namespace
}  // namespace thunder
