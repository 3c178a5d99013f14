// SPDX-License-Identifier: Apache-2.0
// Embedding, gather, scatter_add, copies.
#include <bit>
#include <cstring>

#include "check.h"
#include "device/api.h"

namespace thunder {
namespace lookup_test {

using testing::expect_close;
using testing::random;

std::vector<std::int64_t> some_ids(std::int64_t n, std::int64_t entries, unsigned seed) {
    std::mt19937 engine(seed);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(n));
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(engine() % static_cast<unsigned>(entries));
    ids[0] = entries - 1;
    return ids;
}

TEST(Embedding, ForwardTakesRows) {
    Device device(2);
    Stream stream(device);
    const std::int64_t rows = 301, entries = 77, width = 83;
    const std::vector<float> weight = random(entries * width, 1);
    const std::vector<std::int64_t> ids = some_ids(rows, entries, 2);
    const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
    std::vector<float> expected, y(static_cast<std::size_t>(rows * width)), z = y;
    for (const std::int64_t id : ids)
        expected.insert(expected.end(), weight.begin() + id * width, weight.begin() + (id + 1) * width);
    embedding_forward(
        {.y = y.data(), .weight = weight.data(), .ids = ids.data(), .rows = rows, .entries = entries, .width = width},
        stream);
    embedding_forward({.y = z.data(),
                       .weight = weight.data(),
                       .ids = narrow.data(),
                       .rows = rows,
                       .entries = entries,
                       .width = width},
                      stream);
    EXPECT_EQ(y, expected);
    EXPECT_EQ(z, expected);
}

TEST(Embedding, BackwardAddsRowsInOrder) {
    const std::int64_t rows = 513, entries = 41, width = 167;
    const std::vector<float> dy = random(rows * width, 3), before = random(entries * width, 4);
    const std::vector<std::int64_t> ids = some_ids(rows, entries - 2, 5);  // the last two entries are named by no id
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        // exactly the sums in row order, in f32
        std::vector<float> expected = mode == WriteMode::add ? before : std::vector<float>(before.size());
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t c = 0; c < width; ++c) {
                expected[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)] * width + c)] +=
                    dy[static_cast<std::size_t>(i * width + c)];
            }
        }
        testing::expect_same_bits_at_any_thread_count([&](Stream& stream) {
            std::vector<float> dweight = before;
            embedding_backward({.dweight = dweight.data(),
                                .dy = dy.data(),
                                .ids = ids.data(),
                                .mode = mode,
                                .rows = rows,
                                .entries = entries,
                                .width = width},
                               stream);
            EXPECT_EQ(dweight, expected);
            return dweight;
        });
    }
}

TEST(Gather, TakesAlongAnAxis) {
    Device device(2);
    Stream stream(device);
    const std::int64_t outer = 3, entries = 11, count = 29, inner = 7;
    const std::vector<float> x = random(outer * entries * inner, 6);
    const std::vector<std::int64_t> index = some_ids(count, entries, 7);
    std::vector<float> y(static_cast<std::size_t>(outer * count * inner)), expected;
    gather({.y = y.data(),
            .x = x.data(),
            .index = index.data(),
            .outer = outer,
            .entries = entries,
            .count = count,
            .inner = inner},
           stream);
    for (std::int64_t o = 0; o < outer; ++o) {
        for (const std::int64_t i : index) {
            for (std::int64_t c = 0; c < inner; ++c)
                expected.push_back(x[static_cast<std::size_t>((o * entries + i) * inner + c)]);
        }
    }
    EXPECT_EQ(y, expected);
}

TEST(Gather, OfAnyTypeByShortIndices) {
    Device device(2);
    Stream stream(device);
    const std::int32_t index[] = {2, 0, 2};
    const std::int64_t whole[] = {10, 11, 20, 21, 30, 31};
    std::int64_t y[6] = {};
    gather({.y = y, .x = whole, .index = index, .entries = 3, .count = 3, .inner = 2}, stream);
    EXPECT_EQ(std::vector<std::int64_t>(y, y + 6), (std::vector<std::int64_t>{30, 31, 10, 11, 30, 31}));
    const bool flags[] = {true, false, false};
    bool out[3] = {};
    gather({.y = out, .x = flags, .index = index, .entries = 3, .count = 3}, stream);
    EXPECT_EQ(std::vector<bool>(out, out + 3), (std::vector<bool>{false, true, false}));
    const float x[] = {1, 2, 4};
    float sums[3] = {7, 7, 7};
    scatter_add({.y = sums, .x = x, .index = index, .entries = 3, .count = 3}, stream);
    EXPECT_EQ(std::vector<float>(sums, sums + 3), (std::vector<float>{2, 0, 5}));
}

TEST(ScatterAdd, IsTheTransposeOfGather) {
    for (const std::int64_t outer : {1, 5}) {
        const std::int64_t entries = 13, count = 211, inner = 37;
        const std::vector<float> x = random(outer * count * inner, 8);
        const std::vector<std::int64_t> index = some_ids(count, entries, 9);
        std::vector<float> expected(static_cast<std::size_t>(outer * entries * inner));
        for (std::int64_t o = 0; o < outer; ++o) {
            for (std::int64_t i = 0; i < count; ++i) {
                for (std::int64_t c = 0; c < inner; ++c) {
                    expected[static_cast<std::size_t>((o * entries + index[static_cast<std::size_t>(i)]) * inner +
                                                      c)] += x[static_cast<std::size_t>((o * count + i) * inner + c)];
                }
            }
        }
        testing::expect_same_bits_at_any_thread_count([&](Stream& stream) {
            std::vector<float> y = random(outer * entries * inner, 10);
            scatter_add({.y = y.data(),
                         .x = x.data(),
                         .index = index.data(),
                         .outer = outer,
                         .entries = entries,
                         .count = count,
                         .inner = inner},
                        stream);
            EXPECT_EQ(y, expected);
            return y;
        });
    }
}

TEST(PlainMemory, CopiesAndZeroes) {
    Device device(2);
    Stream stream(device);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{3000001}}) {
        std::vector<unsigned char> from(bytes + 1, 7), to(bytes + 1, 9);
        copy(to.data(), from.data(), bytes, stream);
        EXPECT_EQ(std::count(to.begin(), to.end(), 7), static_cast<std::ptrdiff_t>(bytes));
        EXPECT_EQ(to.back(), 9);
        fill_zero(to.data(), bytes, stream);
        EXPECT_EQ(std::count(to.begin(), to.end(), 0), static_cast<std::ptrdiff_t>(bytes));
        EXPECT_EQ(to.back(), 9);
    }
}

}  // namespace lookup_test
}  // namespace thunder
