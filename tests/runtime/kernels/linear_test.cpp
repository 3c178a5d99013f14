// SPDX-License-Identifier: Apache-2.0
// Products against naive ones in fp64, in every orientation, with every epilogue, with strides.
#include <bit>
#include <optional>

#include "check.h"
#include "device/api.h"
#include "device/cpu/bf16.h"
#include "device/cpu/products.h"
#include "support/error.h"

namespace thunder {
namespace linear_test {

using testing::expect_close;
using testing::random;

// A sum of k products of normal numbers has size sqrt(k); each of its k roundings adds up to 6e-8 of that, in
// directions that mostly cancel: sqrt(k) * sqrt(k) * 6e-8 at k = 1000 is 6e-5, and this bound is that there.
double tolerance(std::int64_t k) {
    return 2e-6 * std::sqrt(static_cast<double>(k) + 1);
}

double activate(Activation activation, double x) {
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

struct Shape {
    std::int64_t rows, out, in;
};
const Shape shapes[] = {{1, 1, 1},     {1, 17, 5},     {7, 13, 33},    {33, 64, 64},
                        {65, 172, 64}, {128, 31, 257}, {3, 300, 1500}, {40, 24, 3100}};

// A matrix with rows `ld` apart; what lies between them must stay as it is.
struct Padded {
    std::int64_t rows, columns, ld;
    std::vector<float> data;
    Padded(std::int64_t rows_, std::int64_t columns_, std::int64_t padding, unsigned seed)
        : rows(rows_), columns(columns_), ld(columns_ + padding), data(random(rows_ * (columns_ + padding), seed)) {}
    double at(std::int64_t i, std::int64_t j) const { return data[static_cast<std::size_t>(i * ld + j)]; }
    std::vector<float> dense() const {
        std::vector<float> result;
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j) result.push_back(data[static_cast<std::size_t>(i * ld + j)]);
        return result;
    }
    // what is not the matrix
    std::vector<float> between() const {
        std::vector<float> result;
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = columns; j < ld; ++j) result.push_back(data[static_cast<std::size_t>(i * ld + j)]);
        return result;
    }
};

TEST(Linear, ForwardWithEveryEpilogue) {
    Device device(2);
    Stream stream(device);
    unsigned seed = 1;
    for (const Shape& s : shapes) {
        for (const std::int64_t padding : {0, 5}) {
            for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                                Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
                // the large ones, slow in the naive reference, with two activations
                if (s.rows * s.out * s.in > 1000000 && activation > Activation::relu) continue;
                for (const bool with_bias : {false, true}) {
                    for (const int residual : {0, 1, 2}) {  // none, elsewhere, in y
                        for (const bool keep : {false, true}) {
                            const Padded x(s.rows, s.in, padding, ++seed),
                                r(s.rows, s.out, padding == 0 ? 0 : 2, ++seed);
                            const Padded w(s.out, s.in, 0, ++seed);
                            Padded y(s.rows, s.out, padding == 0 ? 0 : 3, ++seed);
                            const Padded before = y;
                            const std::vector<float> bias = random(s.out, ++seed);
                            std::vector<float> pre(static_cast<std::size_t>(s.rows * s.out));
                            LinearForward call{.y = y.data.data(), .x = x.data.data(), .weight = w.data.data()};
                            if (with_bias) call.bias = bias.data();
                            if (residual == 1) call.residual = r.data.data(), call.ld_residual = r.ld;
                            if (residual == 2) call.residual = y.data.data(), call.ld_residual = y.ld;
                            if (keep) call.pre_activation = pre.data();
                            call.activation = activation;
                            call.rows = s.rows, call.in = s.in, call.out = s.out;
                            call.ld_x = padding == 0 ? 0 : x.ld, call.ld_y = padding == 0 ? 0 : y.ld;
                            linear_forward(call, stream);
                            std::vector<double> expected, expected_pre;
                            for (std::int64_t i = 0; i < s.rows; ++i) {
                                for (std::int64_t j = 0; j < s.out; ++j) {
                                    double sum = with_bias ? bias[static_cast<std::size_t>(j)] : 0.0;
                                    for (std::int64_t k = 0; k < s.in; ++k) sum += x.at(i, k) * w.at(j, k);
                                    expected_pre.push_back(sum);
                                    expected.push_back(activate(activation, sum) + (residual == 1   ? r.at(i, j)
                                                                                    : residual == 2 ? before.at(i, j)
                                                                                                    : 0.0));
                                }
                            }
                            const std::string what = std::to_string(s.rows) + "x" + std::to_string(s.out) + "x" +
                                                     std::to_string(s.in) + " activation " +
                                                     std::to_string(static_cast<int>(activation)) + " residual " +
                                                     std::to_string(residual);
                            expect_close(y.dense(), expected, tolerance(s.in), 2.0, what);
                            if (keep) expect_close(pre, expected_pre, tolerance(s.in), 2.0, what + " pre_activation");
                            ASSERT_EQ(y.between(), before.between()) << what;
                        }
                    }
                }
            }
        }
    }
}

// What is no number stays none, whoever applies the activation: a model that diverged is seen to.
template <typename T>
void expect_none_stays_none(T none, T one) {
    Device device(2);
    Stream stream(device);
    const auto is_none = [](T x) {
        if constexpr (std::is_same_v<T, float>) {
            return std::isnan(x);
        } else {
            return std::isnan(to_float(x));
        }
    };
    for (const Shape& s : shapes) {
        std::vector<T> x(static_cast<std::size_t>(s.rows * s.in), one), w(static_cast<std::size_t>(s.out * s.in), one);
        std::vector<T> bias(static_cast<std::size_t>(s.out), one),
            residual(static_cast<std::size_t>(s.rows * s.out), one);
        x[0] = none;
        for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                            Activation::silu, Activation::tanh}) {
            for (const unsigned ends : {0U, 1U, 2U, 3U}) {
                std::vector<T> y(residual.size());
                LinearForward call{.x = x.data(),
                                   .weight = w.data(),
                                   .activation = activation,
                                   .rows = s.rows,
                                   .in = s.in,
                                   .out = s.out};
                call.y = y.data();
                if ((ends & 1U) != 0) call.bias = bias.data();
                if ((ends & 2U) != 0) call.residual = residual.data();
                linear_forward(call, stream);
                for (std::size_t i = 0; i < y.size(); ++i)
                    ASSERT_EQ(is_none(y[i]), i < static_cast<std::size_t>(s.out))
                        << s.rows << " x " << s.in << " x " << s.out << ", activation " << static_cast<int>(activation)
                        << ", ends " << ends << " at " << i;
            }
        }
    }
}
TEST(Linear, WhatIsNoNumberStaysNone) {
    expect_none_stays_none<float>(std::nanf(""), 1.0F);
    expect_none_stays_none<bf16>(bf16{0x7fc0}, bf16{0x3f80});
}

TEST(Linear, BackwardInput) {
    Device device(2);
    Stream stream(device);
    unsigned seed = 1000;
    for (const Shape& s : shapes) {
        for (const std::int64_t padding : {0, 4}) {
            for (const bool add : {false, true}) {
                for (const int residual : {0, 1, 2}) {
                    const Padded dy(s.rows, s.out, padding, ++seed), r(s.rows, s.in, padding, ++seed),
                        w(s.out, s.in, 0, ++seed);
                    Padded dx(s.rows, s.in, padding, ++seed);
                    const Padded before = dx;
                    LinearBackwardInput call{.dx = dx.data.data(), .dy = dy.data.data(), .weight = w.data.data()};
                    call.mode = add ? WriteMode::add : WriteMode::overwrite;
                    if (residual == 1) call.residual = r.data.data(), call.ld_residual = r.ld;
                    if (residual == 2) call.residual = dx.data.data(), call.ld_residual = dx.ld;
                    call.rows = s.rows, call.in = s.in, call.out = s.out, call.ld_dx = dx.ld, call.ld_dy = dy.ld;
                    linear_backward_input(call, stream);
                    std::vector<double> expected;
                    for (std::int64_t i = 0; i < s.rows; ++i) {
                        for (std::int64_t j = 0; j < s.in; ++j) {
                            double sum = (add ? before.at(i, j) : 0) + (residual == 1   ? r.at(i, j)
                                                                        : residual == 2 ? before.at(i, j)
                                                                                        : 0.0);
                            for (std::int64_t k = 0; k < s.out; ++k) sum += dy.at(i, k) * w.at(k, j);
                            expected.push_back(sum);
                        }
                    }
                    expect_close(dx.dense(), expected, tolerance(s.out), 2.0, "dx");
                    ASSERT_EQ(dx.between(), before.between());
                }
            }
        }
    }
}

TEST(Linear, BackwardWeight) {
    Device device(2);
    Stream stream(device);
    unsigned seed = 2000;
    for (const Shape& s : shapes) {
        for (const std::int64_t padding : {0, 4}) {
            for (const bool add : {false, true}) {
                const Padded dy(s.rows, s.out, padding, ++seed), x(s.rows, s.in, padding, ++seed);
                Padded dw(s.out, s.in, 0, ++seed), db(1, s.out, 0, ++seed);
                const Padded dw_before = dw, db_before = db;
                linear_backward_weight({.dweight = dw.data.data(),
                                        .dbias = db.data.data(),
                                        .dy = dy.data.data(),
                                        .x = x.data.data(),
                                        .mode = add ? WriteMode::add : WriteMode::overwrite,
                                        .rows = s.rows,
                                        .in = s.in,
                                        .out = s.out,
                                        .ld_dy = dy.ld,
                                        .ld_x = x.ld},
                                       stream);
                std::vector<double> expected, expected_bias;
                for (std::int64_t i = 0; i < s.out; ++i) {
                    double bias = add ? db_before.at(0, i) : 0;
                    for (std::int64_t k = 0; k < s.rows; ++k) bias += dy.at(k, i);
                    expected_bias.push_back(bias);
                    for (std::int64_t j = 0; j < s.in; ++j) {
                        double sum = add ? dw_before.at(i, j) : 0;
                        for (std::int64_t k = 0; k < s.rows; ++k) sum += dy.at(k, i) * x.at(k, j);
                        expected.push_back(sum);
                    }
                }
                expect_close(dw.data, expected, tolerance(s.rows), 2.0, "dweight");
                expect_close(db.data, expected_bias, tolerance(s.rows), 2.0, "dbias");
            }
        }
    }
}

TEST(Linear, BiasGradientHasTheSameBitsAtAnyThreadCount) {
    const std::int64_t rows = 1037, out = 333;
    const std::vector<float> dy = random(rows * out, 5);
    testing::expect_same_bits_at_any_thread_count([&](Stream& stream) {
        std::vector<float> db(out);
        linear_backward_weight({.dbias = db.data(), .dy = dy.data(), .rows = rows, .in = 1, .out = out}, stream);
        return db;
    });
}

TEST(Matmul, EveryOrientationBatchedAndBroadcast) {
    Device device(2);
    Stream stream(device);
    unsigned seed = 3000;
    const std::int64_t m = 19, n = 35, k = 23;
    for (const std::int64_t batch : {1, 3}) {
        for (const bool ta : {false, true}) {
            for (const bool tb : {false, true}) {
                for (const bool add : {false, true}) {
                    for (const int repeat : {0, 1, 2}) {  // none, a, b
                        const std::vector<float> a = random(batch * m * k, ++seed), b = random(batch * k * n, ++seed);
                        std::vector<float> c = random(batch * m * n, ++seed);
                        const std::vector<float> before = c;
                        const std::int64_t stride_a = repeat == 1 ? 0 : m * k, stride_b = repeat == 2 ? 0 : k * n;
                        matmul({.c = c.data(),
                                .a = a.data(),
                                .b = b.data(),
                                .transpose_a = ta,
                                .transpose_b = tb,
                                .mode = add ? WriteMode::add : WriteMode::overwrite,
                                .batch = batch,
                                .m = m,
                                .n = n,
                                .k = k,
                                .stride_a = stride_a,
                                .stride_b = stride_b,
                                .stride_c = m * n},
                               stream);
                        std::vector<double> expected;
                        for (std::int64_t z = 0; z < batch; ++z) {
                            for (std::int64_t i = 0; i < m; ++i) {
                                for (std::int64_t j = 0; j < n; ++j) {
                                    double sum = add ? before[expected.size()] : 0.0;
                                    for (std::int64_t p = 0; p < k; ++p) {
                                        sum += static_cast<double>(a[static_cast<std::size_t>(
                                                   z * stride_a + (ta ? p * m + i : i * k + p))]) *
                                               static_cast<double>(b[static_cast<std::size_t>(
                                                   z * stride_b + (tb ? j * k + p : p * n + j))]);
                                    }
                                    expected.push_back(sum);
                                }
                            }
                        }
                        expect_close(c, expected, tolerance(k), 2.0, "c");
                    }
                }
            }
        }
    }
}

// A matrix that is held may be read in an order that the library made of it. That is made anew when it is held anew,
// for each matrix of one shape, and for each product; many rows read it where it lies.
TEST(HeldMatrices, AreReadAsTheyAreSinceTheyAreHeld) {
    struct Case {
        std::int64_t m, n, k;
        bool transposed;
    };
    const Case cases[] = {{1, 17, 5, false},   {1, 64, 300, true},   {16, 512, 96, true}, {16, 96, 1300, false},
                          {19, 35, 23, true},  {128, 96, 64, false}, {129, 96, 64, true}, {33, 1000, 1, false},
                          {7, 130, 700, true}, {40, 128, 96, false}};
    unsigned seed = 5000;
    for (const int threads : {1, 2, 3}) {
        Device device(threads);
        Stream stream(device);
        for (const Case& s : cases) {
            std::vector<float> first = random(s.k * s.n, ++seed), second = random(s.k * s.n, ++seed);
            const auto expect = [&](const std::vector<float>& b, const char* what) {
                const std::vector<float> a = random(s.m * s.k, ++seed);
                std::vector<float> c(static_cast<std::size_t>(s.m * s.n));
                matmul({.c = c.data(),
                        .a = a.data(),
                        .b = b.data(),
                        .transpose_b = s.transposed,
                        .m = s.m,
                        .n = s.n,
                        .k = s.k},
                       stream);
                std::vector<double> expected(c.size());
                for (std::int64_t i = 0; i < s.m; ++i)
                    for (std::int64_t p = 0; p < s.k; ++p)
                        for (std::int64_t j = 0; j < s.n; ++j)
                            expected[static_cast<std::size_t>(i * s.n + j)] +=
                                static_cast<double>(a[static_cast<std::size_t>(i * s.k + p)]) *
                                static_cast<double>(
                                    b[static_cast<std::size_t>(s.transposed ? j * s.k + p : p * s.n + j)]);
                expect_close(c, expected, tolerance(s.k), 2.0, what);
            };
            for (int round = 0; round < 2; ++round) {
                {
                    const HeldMatrices held({first.data(), second.data()}, stream);
                    for (int step = 0; step < 2; ++step) {
                        expect(first, "held");
                        expect(second, "another one that is held");
                    }
                }
                const std::vector<float> others = random(s.k * s.n, ++seed);
                std::copy(others.begin(), others.end(), first.begin());
                std::rotate(second.begin(), second.begin() + 1, second.end());
                expect(first, "changed, and no longer held");
            }
        }
    }
}

// The plain loops are what a build without a library computes with: they are held to the same numbers.
TEST(ReferenceProducts, AgreeWithTheProvider) {
    Device device(2);
    Stream stream(device);
    const std::int64_t m = 37, n = 29, k = 301;
    const std::vector<float> a = random(m * k, 1), b = random(k * n, 2);
    for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
            std::vector<float> c(static_cast<std::size_t>(m * n)), ours = c;
            const Matmul call{.c = c.data(),
                              .a = a.data(),
                              .b = b.data(),
                              .transpose_a = ta,
                              .transpose_b = tb,
                              .m = m,
                              .n = n,
                              .k = k};
            matmul(call, stream);
            ASSERT_TRUE(reference::product({.c = ours.data(),
                                            .a = a.data(),
                                            .b = b.data(),
                                            .transpose_a = ta,
                                            .transpose_b = tb,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .ld_a = ta ? m : k,
                                            .ld_b = tb ? k : n,
                                            .ld_c = n},
                                           stream));
            expect_close(c, testing::wide(ours), tolerance(k), 2.0, "c");
        }
    }
}

}  // namespace linear_test
}  // namespace thunder
