// SPDX-License-Identifier: Apache-2.0
// What convolutions as products of rows share on all devices: a few images at a time, and where their matrices lie.
#pragma once

#include <algorithm>

#include "device/api.h"
#include "device/stream.h"

namespace thunder {

// Some images, and the matrices that they become.
struct Part {
    std::int64_t images, rows;  // rows: steps of all of them
    float *seen, *by_steps;     // (rows, channels * window), (rows, M)
};

// Calls body(part, first image) for all images, as many at a time as have so many elements seen, or one. The matrices
// lie in the workspace.
template <typename Body>
void in_parts(const ConvolutionForm& f, std::int64_t elements_at_once, Stream& stream, Body&& body) {
    const std::int64_t columns = f.C * count(f.window), steps = f.steps();
    const std::int64_t most =
        std::clamp<std::int64_t>(elements_at_once / std::max<std::int64_t>(1, steps * columns), 1, f.N);
    auto* seen = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(most * steps * (columns + f.M)) * sizeof(float)));
    for (std::int64_t n = 0; n < f.N; n += most) {
        const std::int64_t images = std::min(most, f.N - n);
        body(Part{images, images * steps, seen, seen + most * steps * columns}, n);
    }
}

}  // namespace thunder
