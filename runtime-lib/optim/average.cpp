// SPDX-License-Identifier: Apache-2.0
#include "optim/average.h"

#include <algorithm>

#include "device/cpu/elements.h"
#include "optim/describe.h"
#include "optim/interpolate.h"
#include "optim/walk_segments.h"

namespace thunder {

void average_parameters(const AverageUpdate& call, Stream& stream) {
    const Timed timed = timed_call("average_parameters", call, stream);
    require_float("average_parameters", "parameters", call.parameters);
    const float part = call.part_of_step != nullptr ? *call.part_of_step : call.part;
    if (part == 0) return;
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, const ParameterSegment&) {
        float buffer[piece_elements];
        const std::int64_t piece = piece_of(end - begin, {call.parameters.dtype});
        for (std::int64_t at = begin; at < end; at += piece) {
            const std::int64_t n = std::min(piece, end - at);
            const float* __restrict p = elements(call.parameters, at, n, buffer);
            float* __restrict average = call.averages + at;
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) average[i] = interpolate(average[i], p[i], part);
        }
    });
}

}  // namespace thunder
