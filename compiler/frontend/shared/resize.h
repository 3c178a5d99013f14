// SPDX-License-Identifier: Apache-2.0
// Resizing along one axis: a gather by constant indices, or a product with a constant matrix that holds how much of
// each element is in each of the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/ir/builder.h"

namespace thunderc {

struct ResizedAxis {
    std::int64_t in = 0, out = 0;
    double scale = 1;
    double begin = 0, end = 1;  // of the region that is resized, as shares
};

// ONNX Resize: mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a.
struct ResizeForm {
    std::string mode, coordinates, nearest;
    bool antialias = false, exclude_outside = false;
    double cubic = -0.75;
    double outside = 0;  // what is there with tf_crop_and_resize
};

Value resized(Builder& b, const ResizeForm& form, const ResizedAxis& a, Value x, std::size_t axis);

}  // namespace thunderc
