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

// As many images at a time as have so many elements seen, or one.
inline std::int64_t images_of_part(const ConvolutionForm& f, std::int64_t elements_at_once) {
    const std::int64_t elements = f.steps() * f.C * count(f.window);
    return std::clamp<std::int64_t>(elements_at_once / std::max<std::int64_t>(1, elements), 1, f.N);
}
// What the matrices take of the workspace.
inline std::size_t bytes_of_parts(const ConvolutionForm& f, std::int64_t elements_at_once) {
    const std::int64_t rows = images_of_part(f, elements_at_once) * f.steps();
    return static_cast<std::size_t>(rows * (f.C * count(f.window) + f.M)) * sizeof(float);
}

// Calls body(part, first image) for all images. The matrices lie in the workspace, behind `taken` bytes of it that are
// in use.
template <typename Body>
void in_parts(const ConvolutionForm& f, std::int64_t elements_at_once, std::size_t taken, Stream& stream, Body&& body) {
    const std::int64_t steps = f.steps(), most = images_of_part(f, elements_at_once);
    auto* seen = reinterpret_cast<float*>(stream.workspace(taken + bytes_of_parts(f, elements_at_once)) + taken);
    for (std::int64_t n = 0; n < f.N; n += most) {
        const std::int64_t images = std::min(most, f.N - n);
        body(Part{images, images * steps, seen, seen + most * steps * f.C * count(f.window)}, n);
    }
}

}  // namespace thunder
