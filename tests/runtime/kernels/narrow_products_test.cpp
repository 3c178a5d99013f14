// SPDX-License-Identifier: Apache-2.0
// The library's products of narrow types, cut into dense tiles and finished by us: every way to transpose, to leave
// gaps between rows, and to end a product, at sizes of one tile and of several, against sums in fp64 of the same
// numbers. Where the library multiplies a type at all it is asked to, however slowly.
#include <cmath>
#include <vector>

#include "check.h"
#include "device/cpu/activations.h"
#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/stream.h"

#ifdef THUNDER_PRODUCTS_ONEDNN

namespace thunder {
namespace narrow_products_test {

using testing::random;

struct Matrix {
    std::vector<float> numbers;  // as the type holds them
    std::vector<std::uint16_t> bits;
    std::int64_t ld;
    DType dtype;

    Matrix(std::int64_t rows, std::int64_t columns, std::int64_t gap, DType type, unsigned seed)
        : numbers(random(rows * (columns + gap), seed)),
          bits(type == DType::f32 ? 0 : numbers.size()),
          ld(columns + gap),
          dtype(type) {
        if (type == DType::f32) return;
        store_elements(output(), 0, numbers.data(), static_cast<std::int64_t>(numbers.size()));
        read();
    }
    Output output() {
        Output out;
        out.data = dtype == DType::f32 ? static_cast<void*>(numbers.data()) : bits.data();
        out.dtype = dtype;
        return out;
    }
    Input input() { return as_input(output()); }
    void read() {
        if (dtype != DType::f32) load_elements(numbers.data(), input(), 0, static_cast<std::int64_t>(numbers.size()));
    }
    double at(std::int64_t i, std::int64_t j) const {
        return static_cast<double>(numbers[static_cast<std::size_t>(i * ld + j)]);
    }
};

struct Case {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b, accumulate, bias, residual;
    Activation activation;
    std::int64_t gap_a, gap_b, gap_c;
    DType c;
};

double activated(Activation activation, double x) {
    switch (activation) {
        case Activation::relu: return x > 0 ? x : 0;
        case Activation::silu: return x / (1 + std::exp(-x));
        default: return x;
    }
}

void check(const Case& t, DType narrow, bool widened, Stream& stream) {
    Matrix a(t.transpose_a ? t.k : t.m, t.transpose_a ? t.m : t.k, t.gap_a, narrow, 1);
    Matrix b(t.transpose_b ? t.n : t.k, t.transpose_b ? t.k : t.n, t.gap_b, narrow, 2);
    Matrix c(t.m, t.n, t.gap_c, t.c, 3), bias(1, t.n, 0, t.c, 4), residual(t.m, t.n, t.gap_c, t.c, 5);
    const Matrix before = c;
    Product product{.c = c.output(), .a = a.input(), .b = b.input()};
    product.transpose_a = t.transpose_a, product.transpose_b = t.transpose_b, product.accumulate = t.accumulate;
    if (t.bias) product.bias = bias.input();
    if (t.residual) product.residual = residual.input();
    product.activation = t.activation;
    product.m = t.m, product.n = t.n, product.k = t.k;
    product.ld_a = a.ld, product.ld_b = b.ld, product.ld_c = c.ld, product.ld_residual = residual.ld;
    ASSERT_TRUE(widened ? onednn::widened_product(product, stream) : onednn::product(product, stream));
    c.read();
    // A rounding of each of: what the library makes of the sum before it adds to it (relu and a residual, where it does
    // that itself), the result; the order of the sum.
    const double rounding = t.c == DType::f32 ? 0 : std::ldexp(1.0, -dtype_digits[static_cast<std::size_t>(t.c)]);
    const double sums = 1e-6 * std::sqrt(static_cast<double>(t.k)) * 8;
    for (std::int64_t i = 0; i < t.m; ++i) {
        for (std::int64_t j = 0; j < t.n; ++j) {
            double sum = t.bias ? bias.at(0, j) : 0;
            for (std::int64_t p = 0; p < t.k; ++p)
                sum += (t.transpose_a ? a.at(p, i) : a.at(i, p)) * (t.transpose_b ? b.at(j, p) : b.at(p, j));
            double expected = activated(t.activation, sum);
            if (t.residual) expected += residual.at(i, j);
            if (t.accumulate) expected += before.at(i, j);
            ASSERT_NEAR(c.at(i, j), expected, rounding * std::abs(expected) * 1.01 + sums)
                << i << ", " << j << " of " << t.m << " x " << t.n << " x " << t.k << (t.transpose_a ? " a'" : "")
                << (t.transpose_b ? " b'" : "") << (t.accumulate ? " added" : "") << (t.bias ? " bias" : "")
                << (t.residual ? " residual" : "") << " gaps " << t.gap_a << t.gap_b << t.gap_c << " into "
                << name_of(t.c) << (widened ? ", widened" : "");
        }
        for (std::int64_t j = t.n; j < c.ld; ++j)
            ASSERT_EQ(c.at(i, j), before.at(i, j)) << "behind row " << i;  // what lies between rows stays
    }
}

void sweep(DType narrow, bool widened) {
    Device device(2);
    Stream stream(device);
    // Of one tile; of several in each direction, with ends that are no multiple of anything; of several pieces of a
    // sum.
    const std::int64_t sizes[][3] = {{24, 40, 33}, {523, 70, 40}, {35, 1057, 48}, {41, 37, 1601}};
    for (const auto& [m, n, k] : sizes)
        for (unsigned way = 0; way < 1U << 8U; ++way) {
            // Every way at the smallest size, and some at the others: 29 is odd, so that each bit is met in both
            // states.
            if (m != 24 && way % 29 != 0) continue;
            const auto bit = [way](unsigned i) { return (way >> i & 1U) != 0; };
            for (const Activation activation : {Activation::none, Activation::relu, Activation::silu}) {
                const unsigned turn = activation == Activation::none ? 0U : activation == Activation::relu ? 1U : 2U;
                if (m != 24 && turn != way % 3) continue;
                const Case t{m,
                             n,
                             k,
                             bit(0),
                             bit(1),
                             bit(2),
                             bit(3),
                             bit(4),
                             activation,
                             bit(5) ? 3 : 0,
                             bit(6) ? 5 : 0,
                             bit(7) ? 7 : 0,
                             (way ^ way >> 4U) % 3 == 0 ? DType::f32 : narrow};
                ASSERT_NO_FATAL_FAILURE(check(t, narrow, widened, stream));
            }
        }
}

TEST(NarrowProducts, AreTheLibrarysInEveryForm) {
    for (const DType narrow : {DType::bf16, DType::f16}) {
        if (onednn::multiplies(narrow))
            sweep(narrow, false);
        else  // programs go the way of the next test
            EXPECT_FALSE(native_products(narrow, nullptr)) << name_of(narrow);
    }
}

TEST(NarrowProducts, AreWidenedInEveryForm) {
    for (const DType narrow : {DType::bf16, DType::f16}) sweep(narrow, true);
}

}  // namespace narrow_products_test
}  // namespace thunder

#endif
