// SPDX-License-Identifier: Apache-2.0
// Numbers of kernels against those of the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"

namespace thunderc::testing {

// f32 against fp64: one rounding is 6e-8 of the value. Sums of a few dozen terms and polynomials of 2 to 3 ulp stay
// within 2e-6 of the greatest element; a wrong index or factor is off by far more. Results in a narrow type are rounded
// behind that, each by half of its own spacing: at most 2^-digits of it (bf16: 2^-8). `roundings`: so many times that.
inline void expect_near(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, double tolerance,
                        const std::string& what, double roundings = 1) {
    // What is beyond f32, or the narrow type that it is stored in, is infinite in it.
    auto rounded = [tolerance](const Tensor& t, std::int64_t k) {
        if (!t.floating() || tolerance <= 0) return t.at(k);
        const double stored = rounded_to(is_narrow(t.type.dtype) ? t.type.dtype : DType::f32, t.at(k));
        return std::isinf(stored) ? stored : rounded_to(DType::f32, t.at(k));
    };
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t r = 0; r < expected.size(); ++r) {
        ASSERT_EQ(actual[r].type, expected[r].type);
        if (!actual[r].floating()) {  // integers are exact
            ASSERT_EQ(actual[r].i, expected[r].i) << what << ": result " << r;
            continue;
        }
        const double own = is_narrow(actual[r].type.dtype) ? roundings * rounding_of(actual[r].type.dtype) : 0;
        double scale = 1;
        for (std::int64_t k = 0; k < expected[r].size(); ++k) {
            const double e = rounded(expected[r], k);
            if (std::isfinite(e)) scale = std::max(scale, std::abs(e));
        }
        for (std::int64_t k = 0; k < expected[r].size(); ++k) {
            const double a = actual[r].at(k);
            const double e = rounded(expected[r], k);
            if (std::isnan(e) || std::isinf(e)) {
                ASSERT_TRUE(std::isnan(e) ? std::isnan(a) : a == e)
                    << what << ": result " << r << " element " << k << ": " << a << ", expected " << e;
            } else {
                ASSERT_LE(std::abs(a - e), tolerance * scale + own * std::abs(e))
                    << what << ": result " << r << " element " << k << ": " << a << ", expected " << e;
            }
        }
    }
}

}  // namespace thunderc::testing
