// SPDX-License-Identifier: Apache-2.0
#include "learned_swish.h"

#include <cmath>

#include "device/parallel.h"

void learned_swish_forward(const LearnedSwishForward& call, thunder::Stream&) {
    thunder::parallel_rows(call.rows, call.C, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
            for (std::int64_t c = 0; c < call.C; ++c) {
                const std::int64_t k = r * call.C + c;
                call.gate[k] = 1 / (1 + std::exp(-call.beta[c] * call.x[k]));
                call.y[k] = call.x[k] * call.gate[k];
            }
    });
}

// dy/dx = gate + x beta gate (1 - gate); dy/dbeta = x^2 gate (1 - gate)
void learned_swish_backward(const LearnedSwishBackward& call, thunder::Stream& stream) {
    thunder::column_reduction(
        call.rows, call.C, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t r = begin; r < end; ++r)
                for (std::int64_t c = 0; c < call.C; ++c) {
                    const std::int64_t k = r * call.C + c;
                    const float x = call.x[k], gate = call.gate[k], slope = x * gate * (1 - gate);
                    call.dx[k] = call.dy[k] * (gate + call.beta[c] * slope);
                    partial[c] += call.dy[k] * x * slope;
                }
        },
        [&](std::int64_t c, float sum) { call.dbeta[c] = sum; });
}
