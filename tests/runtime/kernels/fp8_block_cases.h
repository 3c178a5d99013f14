// SPDX-License-Identifier: Apache-2.0
// Tensors whose blocks have scales of their own, and their products, by their definition: for tests of both devices.
// The scale of an amax is held against a table (fp8_recipes.h).
#pragma once

#include "device/fp8_recipe.h"
#include "fp8_quantise_cases.h"

namespace thunder::testing {

struct BlockCase {
    std::int64_t rows, width, ld;
};

// Whole squares of 128 and parts of them, parts of blocks, rows apart, fewer than a block.
inline const BlockCase block_cases[] = {{128, 256, 256}, {136, 168, 168}, {40, 33, 40}, {1, 300, 300}, {257, 1, 1}};

struct BlockShape {
    std::int64_t rows, columns;
};
inline BlockShape block_shape(Fp8Blocks blocks) {
    if (blocks == Fp8Blocks::squares_of_128) return {128, 128};
    return {1, blocks == Fp8Blocks::rows_of_32 ? 32 : 128};
}

// A copy by its definition: element (i, j) is at(i, j), and blocks are found by division.
template <typename Scale>
struct BlockCopy {
    std::vector<std::uint8_t> codes;
    std::vector<Scale> scales;

    template <typename At>
    BlockCopy(std::int64_t rows, std::int64_t width, Fp8Blocks blocks, float most, const At& at) {
        const BlockShape shape = block_shape(blocks);
        const std::int64_t across = (width + shape.columns - 1) / shape.columns;
        std::vector<float> amaxes(static_cast<std::size_t>((rows + shape.rows - 1) / shape.rows * across));
        const auto block = [&](std::int64_t i, std::int64_t j) {
            return static_cast<std::size_t>(i / shape.rows * across + j / shape.columns);
        };
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < width; ++j)
                if (std::abs(at(i, j)) > amaxes[block(i, j)]) amaxes[block(i, j)] = std::abs(at(i, j));
        std::vector<float> factors;
        for (const float amax : amaxes) {
            if constexpr (sizeof(Scale) == sizeof(e8m0)) {
                factors.push_back(mx_scale_of_block(amax).factor);
                scales.push_back(mx_scale_of_block(amax).scale);
            } else {
                factors.push_back(scale_of_block(amax, true, 0, most).factor);
                scales.push_back(scale_of_block(amax, true, 0, most).scale);
            }
        }
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < width; ++j)
                codes.push_back(bits_of(quantised<e4m3>(at(i, j) * factors[block(i, j)])));
    }
};

template <typename T>
void expect_same_bytes(const T* got, const std::vector<T>& expected, const char* what) {
    for (std::size_t k = 0; k < expected.size(); ++k)
        ASSERT_EQ(std::memcmp(got + k, &expected[k], sizeof(T)), 0) << what << " at " << k;
}

template <template <typename> typename Memory, typename Scale, typename X, typename Narrow, typename Widen>
void expect_blocks(const BlockCase& c, Fp8Blocks blocks, float most, const Narrow& narrow, const Widen& widen,
                   Stream& stream) {
    std::vector<X> x0;
    // Sizes from row to row and from column to column, so that blocks have scales of their own.
    std::vector<float> numbers = numbers_of_all_sizes(c.rows * c.ld, c.rows % 2 == 0);
    for (std::size_t k = 0; k < numbers.size(); ++k) {
        const auto row = static_cast<std::int64_t>(k) / c.ld, column = static_cast<std::int64_t>(k) % c.ld;
        x0.push_back(narrow(numbers[k] * std::exp2(static_cast<float>(row % 7 - column % 5))));
    }
    const auto at = [&](std::int64_t i, std::int64_t j) { return widen(x0[static_cast<std::size_t>(i * c.ld + j)]); };
    const BlockCopy<Scale> copy(c.rows, c.width, blocks, most, at);
    const BlockCopy<Scale> transposed(c.width, c.rows, blocks, most,
                                      [&](std::int64_t i, std::int64_t j) { return at(j, i); });
    Memory<X> x("x", x0), others("others", std::vector<X>(x0.size(), narrow(1e9F)));
    for (const bool both : {true, false}) {
        Memory<e4m3> q("q", std::vector<e4m3>(copy.codes.size())),
            t("q_transposed", std::vector<e4m3>(copy.codes.size()));
        Memory<Scale> scales("scales", std::vector<Scale>(copy.scales.size())),
            scales_transposed("scales_transposed", std::vector<Scale>(transposed.scales.size()));
        Fp8QuantiseBlocks call{.q = both ? Output(q.data()) : Output(),
                               .scales = both ? Output(scales.data()) : Output(),
                               .q_transposed = t.data(),
                               .scales_transposed = scales_transposed.data(),
                               .x = static_cast<const X*>(x.data()),
                               .blocks = blocks,
                               .rows = c.rows,
                               .width = c.width,
                               .ld_x = c.ld};
        fp8_quantise_blocks(call, stream);
        call.mode = WriteMode::add;  // a later micro-step leaves it all, whatever it is given
        call.x = static_cast<const X*>(others.data());
        fp8_quantise_blocks(call, stream);
        if (both) {
            expect_same_bytes(reinterpret_cast<std::uint8_t*>(q.data()), copy.codes, "codes");
            expect_same_bytes(scales.data(), copy.scales, "scales");
        }
        expect_same_bytes(reinterpret_cast<std::uint8_t*>(t.data()), transposed.codes, "transposed codes");
        expect_same_bytes(scales_transposed.data(), transposed.scales, "scales of the transposed copy");
    }
}

struct BlockProductCase {
    std::int64_t m, n, k;
    bool bias, residual, add;
};
inline const BlockProductCase block_products[] = {{70, 130, 160, true, true, false}, {3, 5, 300, false, false, true}};

// c of two tensors that were quantised, in double, from what their codes and scales mean.
template <template <typename> typename Memory, typename Scale, typename C, typename Narrow, typename Widen>
void expect_block_product(const BlockProductCase& p, Fp8Blocks blocks_a, Fp8Blocks blocks_b, double relative,
                          const Narrow& narrow, const Widen& widen, Stream& stream) {
    const std::vector<float> x = numbers_of_all_sizes(p.m * p.k, false), w = numbers_of_all_sizes(p.n * p.k, false);
    const auto numbers = [](const std::vector<float>& from, std::int64_t ld) {
        return [&from, ld](std::int64_t i, std::int64_t j) { return from[static_cast<std::size_t>(i * ld + j)]; };
    };
    const BlockCopy<Scale> a(p.m, p.k, blocks_a, fp8_most, numbers(x, p.k)),
        b(p.n, p.k, blocks_b, fp8_most, numbers(w, p.k));
    std::vector<C> before, residual0, bias0;
    for (std::int64_t i = 0; i < p.m * p.n; ++i) {
        before.push_back(narrow(static_cast<float>(i % 7) - 3));
        residual0.push_back(narrow(static_cast<float>(i % 5) - 2));
    }
    for (std::int64_t j = 0; j < p.n; ++j) bias0.push_back(narrow(static_cast<float>(j % 3)));
    const auto codes = [](const std::vector<std::uint8_t>& bits) {
        std::vector<e4m3> out;
        for (const std::uint8_t code : bits) out.push_back(e4m3{code});
        return out;
    };
    Memory<e4m3> of_a("a", codes(a.codes)), of_b("b", codes(b.codes));
    Memory<Scale> scales_a("scales_a", a.scales), scales_b("scales_b", b.scales);
    Memory<C> c("c", before), residual("residual", residual0), bias("bias", bias0);
    fp8_block_product({.c = c.data(),
                       .a = static_cast<const e4m3*>(of_a.data()),
                       .b = static_cast<const e4m3*>(of_b.data()),
                       .scales_a = static_cast<const Scale*>(scales_a.data()),
                       .scales_b = static_cast<const Scale*>(scales_b.data()),
                       .blocks_a = blocks_a,
                       .blocks_b = blocks_b,
                       .mode = p.add ? WriteMode::add : WriteMode::overwrite,
                       .bias = p.bias ? Input(static_cast<const C*>(bias.data())) : Input(),
                       .residual = p.residual ? Input(static_cast<const C*>(residual.data())) : Input(),
                       .m = p.m,
                       .n = p.n,
                       .k = p.k},
                      stream);
    const auto number_of_scale = [](Scale scale) {
        if constexpr (sizeof(Scale) == sizeof(e8m0))
            return static_cast<double>(to_float(scale));
        else
            return static_cast<double>(scale);
    };
    const auto meaning = [&](const BlockCopy<Scale>& copy, Fp8Blocks blocks, std::int64_t i, std::int64_t l) {
        const BlockShape shape = block_shape(blocks);
        const std::int64_t across = (p.k + shape.columns - 1) / shape.columns;
        return static_cast<double>(to_float(e4m3{copy.codes[static_cast<std::size_t>(i * p.k + l)]})) *
               number_of_scale(copy.scales[static_cast<std::size_t>(i / shape.rows * across + l / shape.columns)]);
    };
    for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
            const auto to = static_cast<std::size_t>(i * p.n + j);
            double sum = 0, size = 0;
            const auto with = [&](double term) {
                sum += term;
                size += std::abs(term);
            };
            for (std::int64_t l = 0; l < p.k; ++l) with(meaning(a, blocks_a, i, l) * meaning(b, blocks_b, j, l));
            if (p.bias) with(static_cast<double>(widen(bias0[static_cast<std::size_t>(j)])));
            if (p.residual) with(static_cast<double>(widen(residual0[to])));
            if (p.add) with(static_cast<double>(widen(before[to])));
            ASSERT_NEAR(static_cast<double>(widen(c.data()[to])), sum, relative * size) << i << ", " << j;
        }
}

}  // namespace thunder::testing
