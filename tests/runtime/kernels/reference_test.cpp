// SPDX-License-Identifier: Apache-2.0
// The calls of naive programs are their definition to the last bit: one sum in double for each element, in order, that
// is rounded once. And who computes products can be chosen.
#include "device/reference.h"

#include <cstring>

#include "check.h"
#include "device/cpu/bf16.h"
#include "device/cpu/products.h"
#include "support/error.h"

namespace thunder {
namespace reference_test {

using testing::random;

// On one thread and on more than there may be cores, with rows that these do not share evenly.
template <typename Compute>
void expect_on_any_number_of_threads(const std::vector<float>& expected, Compute&& compute) {
    for (const int threads : {1, 2, 3, 5, 7}) {
        Device device(threads);
        Stream stream(device);
        const std::vector<float> got = compute(stream);
        ASSERT_EQ(got.size(), expected.size());
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << threads << " threads";
    }
}

struct ProductCase {
    std::int64_t batch, m, n, k;
};

TEST(ReferenceCalls, ProductsAreOneSumForEachElement) {
    unsigned seed = 0;
    // 101 x 131 x 67: threads share the rows; the others have one row, one column, one term, and more than 64 columns
    for (const ProductCase& c :
         {ProductCase{1, 101, 131, 67}, {3, 19, 35, 23}, {2, 1, 65, 5}, {1, 7, 1, 300}, {1, 3, 4, 1}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true})
                for (const bool add : {false, true}) {
                    const bool one_b = c.batch == 3;
                    const std::vector<float> a = random(c.batch * c.m * c.k, ++seed),
                                             b = random(c.batch * c.k * c.n, ++seed),
                                             before = random(c.batch * c.m * c.n, ++seed);
                    std::vector<float> expected;
                    for (std::int64_t z = 0; z < c.batch; ++z)
                        for (std::int64_t i = 0; i < c.m; ++i)
                            for (std::int64_t j = 0; j < c.n; ++j) {
                                double sum = 0;
                                for (std::int64_t p = 0; p < c.k; ++p) {
                                    const std::int64_t of_a = z * c.m * c.k + (ta ? p * c.m + i : i * c.k + p);
                                    const std::int64_t of_b =
                                        (one_b ? 0 : z) * c.k * c.n + (tb ? j * c.k + p : p * c.n + j);
                                    sum += static_cast<double>(a[static_cast<std::size_t>(of_a)]) *
                                           static_cast<double>(b[static_cast<std::size_t>(of_b)]);
                                }
                                const double start = add ? static_cast<double>(before[expected.size()]) : 0.0;
                                expected.push_back(static_cast<float>(start + sum));
                            }
                    expect_on_any_number_of_threads(expected, [&](Stream& stream) {
                        std::vector<float> out = before;
                        reference_matmul({.c = out.data(),
                                          .a = a.data(),
                                          .b = b.data(),
                                          .transpose_a = ta,
                                          .transpose_b = tb,
                                          .mode = add ? WriteMode::add : WriteMode::overwrite,
                                          .batch = c.batch,
                                          .m = c.m,
                                          .n = c.n,
                                          .k = c.k,
                                          .stride_a = c.m * c.k,
                                          .stride_b = one_b ? 0 : c.k * c.n,
                                          .stride_c = c.m * c.n},
                                         stream);
                        return out;
                    });
                }
}

// Of the numbers of bf16 around that to which a float is rounded the nearest one; of two as near the even one.
bf16 nearest_bf16(double x) {
    const bf16 near = to_bf16(static_cast<float>(x));
    bf16 best = near;
    for (const int step : {-1, 1}) {
        const bf16 other{static_cast<std::uint16_t>(bits_of(near) + step)};
        const double off = std::abs(static_cast<double>(to_float(other)) - x),
                     least = std::abs(static_cast<double>(to_float(best)) - x);
        if (off < least || (off == least && bits_of(other) % 2 == 0)) best = other;
    }
    return best;
}

TEST(ReferenceCalls, ProductsOfBf16AreRoundedOnce) {
    Device device(2);
    Stream stream(device);
    const std::int64_t m = 5, n = 9, k = 33;
    std::vector<bf16> a, b, low(static_cast<std::size_t>(m * n));
    std::vector<float> whole(low.size());
    for (const float x : random(m * k, 1)) a.push_back(to_bf16(x));
    for (const float x : random(k * n, 2)) b.push_back(to_bf16(x));
    reference_matmul({.c = whole.data(), .a = a.data(), .b = b.data(), .m = m, .n = n, .k = k}, stream);
    reference_matmul({.c = low.data(), .a = a.data(), .b = b.data(), .m = m, .n = n, .k = k}, stream);
    for (std::size_t at = 0; at < low.size(); ++at) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
            sum +=
                static_cast<double>(to_float(
                    a[at / static_cast<std::size_t>(n) * static_cast<std::size_t>(k) + static_cast<std::size_t>(p)])) *
                static_cast<double>(to_float(b[static_cast<std::size_t>(p * n) + at % static_cast<std::size_t>(n)]));
        EXPECT_EQ(whole[at], static_cast<float>(sum));
        EXPECT_EQ(bits_of(low[at]), bits_of(nearest_bf16(sum)));
    }
    // 1 + 2^-8 lies halfway between two numbers of bf16, and 2^-30 is lost in a float: rounded by way of a float these
    // would become 1, the even one of the two. From below, with 3 * 2^-8, likewise.
    const std::vector<bf16> terms = {to_bf16(1), to_bf16(0x1p-8F), to_bf16(0x1p-15F), to_bf16(0x3p-8F),
                                     to_bf16(-0x1p-15F)};
    const auto sum_of = [&](bf16 second, bf16 third) {
        const std::vector<bf16> row = {terms[0], second, third}, column = {terms[0], terms[0], terms[2]};
        bf16 sum{};
        reference_matmul({.c = &sum, .a = row.data(), .b = column.data(), .m = 1, .n = 1, .k = 3}, stream);
        return to_float(sum);
    };
    EXPECT_EQ(sum_of(terms[1], terms[2]), 1 + 0x1p-7F);
    EXPECT_EQ(sum_of(terms[1], terms[4]), 1.0F);
    EXPECT_EQ(sum_of(terms[3], terms[4]), 1 + 0x1p-7F);
    EXPECT_EQ(sum_of(terms[3], terms[2]), 1 + 0x1p-6F);
}

TEST(ReferenceCalls, IndexedAccess) {
    const std::int64_t outer = 3, entries = 5, count = 11, inner = 7;
    const std::vector<float> x = random(outer * count * inner, 3), table = random(outer * entries * inner, 4);
    const std::vector<std::int64_t> wide = {4, 0, 0, 2, 4, 4, 1, 0, 2, 2, 0};  // no row has index 3
    const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
    std::vector<float> taken, summed;
    for (std::int64_t o = 0; o < outer; ++o)
        for (const std::int64_t id : wide)
            for (std::int64_t c = 0; c < inner; ++c)
                taken.push_back(table[static_cast<std::size_t>((o * entries + id) * inner + c)]);
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t e = 0; e < entries; ++e)
            for (std::int64_t c = 0; c < inner; ++c) {
                double sum = 0;
                for (std::size_t i = 0; i < wide.size(); ++i)
                    if (wide[i] == e)
                        sum += static_cast<double>(
                            x[static_cast<std::size_t>((o * count + static_cast<std::int64_t>(i)) * inner + c)]);
                summed.push_back(static_cast<float>(sum));
            }
    for (const Input index : {Input(wide.data()), Input(narrow.data())}) {
        expect_on_any_number_of_threads(taken, [&](Stream& stream) {
            std::vector<float> y(taken.size(), 9.0F);
            reference_gather({.y = y.data(),
                              .x = table.data(),
                              .index = index,
                              .outer = outer,
                              .entries = entries,
                              .count = count,
                              .inner = inner},
                             stream);
            return y;
        });
        expect_on_any_number_of_threads(summed, [&](Stream& stream) {
            std::vector<float> y(summed.size(), 9.0F);
            reference_scatter_add({.y = y.data(),
                                   .x = x.data(),
                                   .index = index,
                                   .outer = outer,
                                   .entries = entries,
                                   .count = count,
                                   .inner = inner},
                                  stream);
            return y;
        });
    }
    Device device(1);
    Stream stream(device);
    const bool flags[] = {true, false, false};
    bool out[2] = {};
    const std::int64_t ids[] = {2, 0};
    reference_gather({.y = out, .x = flags, .index = ids, .entries = 3, .count = 2}, stream);
    EXPECT_FALSE(out[0]);
    EXPECT_TRUE(out[1]);
}

std::string refused(const char* asked) {
    try {
        products_by_library(asked);
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

TEST(ProductsProvider, IsNamedOrRefused) {
    EXPECT_FALSE(products_by_library("reference"));
    if (refused("onednn").empty()) {
        EXPECT_TRUE(products_by_library("onednn"));
        EXPECT_TRUE(products_by_library(nullptr));
    } else {
        EXPECT_FALSE(products_by_library(nullptr));
        EXPECT_EQ(refused("onednn"),
                  "error: THUNDER_PRODUCTS is onednn, and this program was built without oneDNN\n"
                  "help: build it with -DTHUNDERC_PRODUCTS=onednn, or leave THUNDER_PRODUCTS unset");
    }
    EXPECT_EQ(refused("mkl"),
              "error: THUNDER_PRODUCTS is 'mkl': products are onednn's or those of plain loops, reference\n"
              "help: set it to onednn or to reference, or leave it unset: onednn where the program was built with it");
}

}  // namespace reference_test
}  // namespace thunder
