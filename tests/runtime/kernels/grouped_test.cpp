// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers against the sums of their definition in fp64.
#include <ostream>

#include "check.h"
#include "device/api.h"
#include "device/cpu/bf16.h"
#include "grouped_cases.h"

namespace thunder {
namespace grouped_test {

using testing::expect_close;
using testing::random;

struct Case {
    const char* name;
    std::int64_t rows, groups, in, out;
    std::int64_t used;  // ids are below it
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

// Groups without rows, of one, of fewer than the rows that are computed at once and of more, one group alone, more
// groups than rows; sizes that are no multiples of anything.
const Case cases[] = {
    {"as experts are", 200, 8, 48, 40, 8},
    {"with groups left out", 60, 9, 17, 5, 4},
    {"one row", 1, 3, 8, 8, 3},
    {"more groups than rows", 5, 40, 6, 7, 40},
    {"one group", 33, 1, 12, 20, 1},
    {"more rows than are computed at once", 1300, 2, 10, 6, 2},
};

std::vector<std::int64_t> ids_of(const Case& c) {
    std::mt19937 engine(5);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(c.rows));
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(engine() % static_cast<unsigned>(c.used));
    return ids;
}

class Grouped : public ::testing::TestWithParam<std::tuple<Case, bool>> {
  protected:
    const Case c = std::get<0>(GetParam());
    const bool transpose = std::get<1>(GetParam());
    const std::vector<std::int64_t> ids = ids_of(c);
    const std::vector<std::int32_t> narrow_ids{ids.begin(), ids.end()};
    const std::vector<float> x = random(c.rows * c.in, 1), weight = random(c.groups * c.in * c.out, 2),
                             y = random(c.rows * c.out, 3);

    const testing::GroupedForm form{c.rows, c.groups, c.in, c.out, transpose};

    template <typename Body>
    static void with_threads(Body&& body) {
        for (const int threads : {1, 2, 3}) {
            Device device(threads);
            Stream stream(device);
            for (int again = 0; again < 2; ++again) body(stream);
        }
    }
    std::vector<double> forward(const std::vector<float>& from, const std::vector<float>& by) const {
        std::vector<double> sums(y.size());
        form.for_each_product(ids, [&](std::size_t i, std::size_t w, std::size_t o) {
            sums[o] += static_cast<double>(from[i]) * static_cast<double>(by[w]);
        });
        return sums;
    }
    std::vector<double> backward(const std::vector<float>& from, const std::vector<float>& dy) const {
        std::vector<double> sums(weight.size());
        form.for_each_product(ids, [&](std::size_t i, std::size_t w, std::size_t o) {
            sums[w] += static_cast<double>(from[i]) * static_cast<double>(dy[o]);
        });
        return sums;
    }
    static std::vector<bf16> rounded(const std::vector<float>& v) {
        std::vector<bf16> out;
        for (const float f : v) out.push_back(to_bf16(f));
        return out;
    }
    static std::vector<float> widened(const std::vector<bf16>& v) {
        std::vector<float> out;
        for (const bf16 f : v) out.push_back(to_float(f));
        return out;
    }
};

// Of sums of n products of normal numbers: each addition rounds by 6e-8 of a size of sqrt(n); of the largest of some
// thousands such walks five deviations, 1.2e-7 sqrt(n) of it.
double relative(std::int64_t n) {
    return 1.2e-7 * (std::sqrt(static_cast<double>(n)) + 4);
}
double size(std::int64_t n) {
    return std::sqrt(static_cast<double>(n)) + 1;
}

TEST_P(Grouped, Forward) {
    const std::vector<double> expected = forward(x, weight);
    with_threads([&](Stream& stream) {
        std::vector<float> out = y;
        GroupedLinear call = form.forward(out.data(), x.data(), weight.data(), ids.data());
        grouped_linear(call, stream);
        expect_close(out, expected, relative(c.in), size(c.in), "y");
        const std::vector<float> first = out;
        call.ids = narrow_ids.data();
        grouped_linear(call, stream);
        EXPECT_EQ(out, first);
    });
}

TEST_P(Grouped, BackwardWeight) {
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        std::vector<double> expected = backward(x, y);
        if (mode == WriteMode::add)
            for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += static_cast<double>(weight[k]);
        with_threads([&](Stream& stream) {
            std::vector<float> out = weight;
            grouped_linear_backward_weight(form.backward(out.data(), y.data(), x.data(), ids.data(), mode), stream);
            expect_close(out, expected, relative(c.rows), size(c.rows), "dweight");
        });
    }
}

// Products of bf16 are exact in f32, and what is stored is rounded once: by 2^-8 of itself at most.
TEST_P(Grouped, OfBf16) {
    const std::vector<bf16> narrow_x = rounded(x), narrow_weight = rounded(weight), narrow_y = rounded(y);
    const std::vector<double> expected_y = forward(widened(narrow_x), widened(narrow_weight));
    const std::vector<double> expected_weight = backward(widened(narrow_x), widened(narrow_y));
    Device device(2);
    Stream stream(device);
    std::vector<bf16> out = narrow_y, dweight = narrow_weight;
    grouped_linear(form.forward(out.data(), narrow_x.data(), narrow_weight.data(), ids.data()), stream);
    const auto expect_rounded = [](const std::vector<float>& got, const std::vector<double>& expected, std::int64_t n) {
        for (std::size_t k = 0; k < got.size(); ++k)
            ASSERT_NEAR(got[k], expected[k], 0x1p-8 * std::abs(expected[k]) + 2 * relative(n) * size(n)) << k;
    };
    expect_rounded(widened(out), expected_y, c.in);
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        std::vector<bf16> sums = dweight;
        grouped_linear_backward_weight(form.backward(sums.data(), narrow_y.data(), narrow_x.data(), ids.data(), mode),
                                       stream);
        std::vector<double> expected = expected_weight;
        if (mode == WriteMode::add)
            for (std::size_t k = 0; k < expected.size(); ++k)
                expected[k] += static_cast<double>(to_float(narrow_weight[k]));
        expect_rounded(widened(sums), expected, c.rows);
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Grouped, ::testing::Combine(::testing::ValuesIn(cases), ::testing::Bool()),
                         [](const auto& info) {
                             std::string name = std::get<0>(info.param).name;
                             for (char& c : name)
                                 if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                             return name + (std::get<1>(info.param) ? "_turned_round" : "");
                         });

}  // namespace grouped_test
}  // namespace thunder
