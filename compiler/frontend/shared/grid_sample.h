// SPDX-License-Identifier: Apache-2.0
// Sampling at the places of a grid: at each, elements of the input around it, each times how near it is. Which elements
// follows from the data, so they are gathered; the gradient goes to them and, through the distances, to the grid.
#pragma once

#include <string>

#include "compiler/ir/builder.h"

namespace thunderc {

struct GridForm {
    std::string mode = "linear";    // nearest, cubic
    std::string padding = "zeros";  // border, reflection
    bool aligned = false;           // -1 and 1 are the outer elements' middles, else their outer borders
    // With "border" a place outside stays where it is, and each element that it takes is the one on the border:
    // PyTorch's cubic samples. Else the place itself is moved to the border: ONNX's, and others of PyTorch.
    bool clips_elements = false;
};

// x (N, C, d…) at the places of a grid (N, o…, as many as there are d, the last one first): (N, C, o…). Throws
// UserError where they do not fit.
Value grid_sampled(Builder& b, Value x, Value grid, const GridForm& form);

}  // namespace thunderc
