// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers on the emulated GPU, against their definition in double.
#include <cmath>

#include "device/api.h"
#include "emulation/bundled.h"
#include "runtime/kernels/grouped_cases.h"

namespace thunder {

namespace {

struct GroupedCase {
    std::int64_t rows, groups, in, out;
    std::int64_t used;  // ids are below it
};

// Groups of more than a tile and without rows, sizes that are no multiples of a tile's, more groups than rows.
constexpr GroupedCase grouped_cases[] = {{150, 3, 17, 70, 2}, {5, 9, 33, 5, 9}, {300, 2, 8, 3, 2}, {1, 1, 1, 1, 1}};

class BundledGrouped : public Bundled {
  protected:
    template <typename C, typename T>
    void check_grouped(const GroupedCase& c, bool transpose);
};

template <typename C, typename T>
void BundledGrouped::check_grouped(const GroupedCase& c, bool transpose) {
    const std::vector<float> x = random(c.rows * c.in), w = random(c.groups * c.in * c.out), y = random(c.rows * c.out);
    const std::vector<std::int64_t> wanted = ids(c.rows, c.used);
    Buffer<T> rows("x", stored<T>(x)), weight("weight", stored<T>(w)), dy("dy", stored<T>(y));
    Buffer<C> result("y", stored<C>(y));
    Buffer<std::int64_t> index("ids", wanted);
    const std::vector<T> x0 = stored<T>(x), w0 = stored<T>(w), y0 = stored<T>(y);
    const std::vector<C> before = stored<C>(w);
    std::vector<double> expected(y.size()), sums(w.size());
    const testing::GroupedForm form{c.rows, c.groups, c.in, c.out, transpose};
    form.for_each_product(wanted, [&](std::size_t from, std::size_t at, std::size_t to) {
        const auto factor = static_cast<double>(wide(x0[from]));
        expected[to] += factor * static_cast<double>(wide(w0[at]));
        sums[at] += factor * static_cast<double>(wide(y0[to]));
    });
    // f32: each of up to 300 additions rounds; narrow types are rounded to 8 or 11 bits once more
    const double relative = std::is_same_v<C, float> ? 2e-6 : std::is_same_v<C, bf16> ? 0x1p-8 : 0x1p-10;
    grouped_linear(form.forward(result.data(), rows.data(), weight.data(), index.data()), stream);
    expect_close(result.values(), expected, relative, std::sqrt(static_cast<double>(c.in)), "y");
    for (const bool add : {false, true}) {
        Buffer<C> dweight("dweight", before);
        std::vector<double> with_before = sums;
        for (std::size_t k = 0; add && k < sums.size(); ++k) with_before[k] += static_cast<double>(wide(before[k]));
        grouped_linear_backward_weight(form.backward(dweight.data(), dy.data(), rows.data(), index.data(),
                                                     add ? WriteMode::add : WriteMode::overwrite),
                                       stream);
        expect_close(dweight.values(), with_before, relative, std::sqrt(static_cast<double>(c.rows)), "dweight");
    }
}

TEST_F(BundledGrouped, LinearLayers) {
    for (const GroupedCase& c : grouped_cases)
        for (const bool transpose : {false, true}) {
            check_grouped<float, float>(c, transpose);
            check_grouped<float, bf16>(c, transpose);
            check_grouped<bf16, bf16>(c, transpose);
            check_grouped<f16, f16>(c, transpose);
        }
}

}  // namespace
}  // namespace thunder
