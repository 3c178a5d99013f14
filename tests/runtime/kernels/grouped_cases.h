// SPDX-License-Identifier: Apache-2.0
// Grouped linear layers as tests of both devices call them, and by their definition.
#pragma once

#include <cstdint>
#include <vector>

#include "device/api.h"

namespace thunder::testing {

struct GroupedForm {
    std::int64_t rows, groups, in, out;
    bool transpose;

    GroupedLinear forward(const Output& y, const Input& x, const Input& weight, const Input& ids) const {
        return {.y = y,
                .x = x,
                .weight = weight,
                .ids = ids,
                .transpose = transpose,
                .rows = rows,
                .groups = groups,
                .in = in,
                .out = out};
    }
    GroupedLinearBackwardWeight backward(const Output& dweight, const Input& dy, const Input& x, const Input& ids,
                                         WriteMode mode) const {
        return {.dweight = dweight,
                .dy = dy,
                .x = x,
                .ids = ids,
                .mode = mode,
                .transpose = transpose,
                .rows = rows,
                .groups = groups,
                .in = in,
                .out = out};
    }
    // Calls body(element of x, of the weight, of y) for each product.
    template <typename Body>
    void for_each_product(const std::vector<std::int64_t>& ids, Body&& body) const {
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t o = 0; o < out; ++o)
                for (std::int64_t i = 0; i < in; ++i) {
                    const std::int64_t e = ids[static_cast<std::size_t>(row)];
                    const std::int64_t at = transpose ? (e * in + i) * out + o : (e * out + o) * in + i;
                    body(static_cast<std::size_t>(row * in + i), static_cast<std::size_t>(at),
                         static_cast<std::size_t>(row * out + o));
                }
    }
};

}  // namespace thunder::testing
