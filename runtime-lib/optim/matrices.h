// SPDX-License-Identifier: Apache-2.0
// Optimizers' steps of whole matrices, on any device: by products, and by a pass over the elements before, between and
// behind them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/api.h"
#include "optim/matrix_scratch.h"
#include "optim/update.h"

namespace thunder {

// A matrix and what its step goes by. The scratch holds x and y, of its shape, then two squares of its shorter side,
// then what norms are added up in.
struct MatrixStep {
    const OptimizerUpdate& call;
    const ParameterSegment& of;
    std::int64_t elements = of.rows * of.columns, side = std::min(of.rows, of.columns);
    float *x = call.scratch, *y = x + padded(elements), *gram = y + padded(elements),
          *inner = gram + padded(side * side);
    double* sums = reinterpret_cast<double*>(inner + padded(side * side));

    static std::int64_t padded(std::int64_t elements) { return (elements + 15) / 16 * 16; }
};

// ---- a device has these ----
// The momentum, and x = Rule::direction(), divided by its norm.
template <typename Rule>
void take_direction(const MatrixStep& step, Stream& stream);
// x = a x + b y
void combine(float* x, float a, const float* y, float b, std::int64_t elements, Stream& stream);
// The parameters by Rule::move() along x, and their narrow copies.
template <typename Rule>
void move_along(const MatrixStep& step, Stream& stream);

template <typename Rule>
void step_matrix(const MatrixStep& s, Stream& stream) {
    take_direction<Rule>(s, stream);
    const std::int64_t rows = s.of.rows, columns = s.of.columns, side = s.side;
    const bool tall = rows > columns;
    for (int k = 0; k < Rule::iterations; ++k) {
        matmul({.c = s.gram,
                .a = s.x,
                .b = s.x,
                .transpose_a = tall,
                .transpose_b = !tall,
                .m = side,
                .n = side,
                .k = std::max(rows, columns)},
               stream);
        matmul({.c = s.inner, .a = s.gram, .b = s.gram, .m = side, .n = side, .k = side}, stream);
        combine(s.inner, static_cast<float>(Rule::quintic), s.gram, static_cast<float>(Rule::cubic), side * side,
                stream);
        matmul({.c = s.y, .a = tall ? s.x : s.inner, .b = tall ? s.inner : s.x, .m = rows, .n = columns, .k = side},
               stream);
        combine(s.x, static_cast<float>(Rule::linear), s.y, 1, s.elements, stream);
    }
    move_along<Rule>(s, stream);
}

}  // namespace thunder
