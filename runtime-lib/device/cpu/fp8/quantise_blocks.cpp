// SPDX-License-Identifier: Apache-2.0
// Tensors whose blocks have scales of their own, on a CPU: a square of 128 rows and columns at a time, which has whole
// blocks of both copies.
#include <algorithm>
#include <cmath>
#include <vector>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/elements.h"
#include "device/describe.h"
#include "device/fp8_blocks.h"
#include "device/fp8_recipe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

constexpr std::int64_t square_side = 128;

// Elements of a square, and where it begins.
struct Square {
    const float* x;  // rows `square_side` apart
    std::int64_t row, column, rows, columns;
};

// One copy of a square; of the transposed one the blocks are turned: (shape.columns, shape.rows) of x.
template <typename Scale>
void quantise_square(const Fp8QuantiseBlocks& call, const Square& s, bool transposed) {
    const Fp8BlockShape of_copy = shape_of(call.blocks);
    const Fp8BlockShape shape = transposed ? Fp8BlockShape{of_copy.columns, of_copy.rows} : of_copy;
    auto* q = static_cast<e4m3*>(transposed ? call.q_transposed.data : call.q.data);
    auto* scales = static_cast<Scale*>(transposed ? call.scales_transposed.data : call.scales.data);
    const std::int64_t ld_q = transposed ? call.rows : call.width;
    const std::int64_t ld_scales = blocks_along(ld_q, of_copy.columns);
    for (std::int64_t i0 = 0; i0 < s.rows; i0 += shape.rows)
        for (std::int64_t j0 = 0; j0 < s.columns; j0 += shape.columns) {
            const std::int64_t i1 = std::min(s.rows, i0 + shape.rows), j1 = std::min(s.columns, j0 + shape.columns);
            float amax = 0;
            for (std::int64_t i = i0; i < i1; ++i)
                for (std::int64_t j = j0; j < j1; ++j) amax = larger_amax(amax, std::abs(s.x[i * square_side + j]));
            Fp8BlockScale<Scale> scale;
            if constexpr (sizeof(Scale) == sizeof(e8m0))
                scale = mx_scale_of_block(amax);
            else
                scale = scale_of_block(amax, call.powers_of_two, call.least_amax, largest_number(call.x.dtype));
            const std::int64_t block_row = (s.row + i0) / shape.rows, block_column = (s.column + j0) / shape.columns;
            scales[transposed ? block_column * ld_scales + block_row : block_row * ld_scales + block_column] =
                scale.scale;
            for (std::int64_t i = i0; i < i1; ++i)
                for (std::int64_t j = j0; j < j1; ++j) {
                    const std::int64_t row = s.row + i, column = s.column + j;
                    q[transposed ? column * ld_q + row : row * ld_q + column] =
                        quantised<e4m3>(s.x[i * square_side + j] * scale.factor);
                }
        }
}

template <typename Scale>
void quantise_blocks(const Fp8QuantiseBlocks& call) {
    const std::int64_t ld = or_dense(call.ld_x, call.width), across = blocks_along(call.width, square_side);
    parallel_for(blocks_along(call.rows, square_side) * across, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> x(square_side * square_side);
        for (std::int64_t at = begin; at < end; ++at) {
            Square s{x.data(), at / across * square_side, at % across * square_side, 0, 0};
            s.rows = std::min(square_side, call.rows - s.row);
            s.columns = std::min(square_side, call.width - s.column);
            for (std::int64_t i = 0; i < s.rows; ++i)
                load_elements(x.data() + i * square_side, call.x, (s.row + i) * ld + s.column, s.columns);
            if (call.q) quantise_square<Scale>(call, s, false);
            if (call.q_transposed) quantise_square<Scale>(call, s, true);
        }
    });
}

}  // namespace

void fp8_quantise_blocks(const Fp8QuantiseBlocks& call, Stream& stream) {
    const Timed timed = timed_call("fp8_quantise_blocks", call, stream);
    check_types(call);
    if (call.mode == WriteMode::add) return;
    if (call.blocks == Fp8Blocks::rows_of_32)
        quantise_blocks<e8m0>(call);
    else
        quantise_blocks<float>(call);
}

}  // namespace thunder
