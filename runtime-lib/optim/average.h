// SPDX-License-Identifier: Apache-2.0
// The exponential moving average of parameters, over flat arenas.
#pragma once

#include <span>

#include "device/types.h"
#include "optim/segments.h"

namespace thunder {

class Stream;

// averages[i] = (1 - part) averages[i] + part parameters[i], for the elements of the segments. Averages are f32;
// parameters f32 or of a narrow type.
struct AverageUpdate {
    float* averages = nullptr;
    Input parameters{};
    float part = 1;  // 1: the parameters themselves
    std::span<const ParameterSegment> segments;
    // Where it is not null, what it points to is the part, on the device; 0: nothing moves.
    const float* part_of_step = nullptr;
};
void average_parameters(const AverageUpdate& call, Stream& stream);

}  // namespace thunder
