// SPDX-License-Identifier: Apache-2.0
// Windows as nodes say them, of pooling and convolutions.
#pragma once

#include "compiler/frontend/onnx/importer.h"
#include "compiler/ops/windows.h"

namespace thunderc::onnx_frontend {

// The attributes strides, dilations, pads and auto_pad (VALID and NOTSET: of the pads, SAME: as many steps as elements
// by stride).
Window window_of(Node& n, const Dims& in, const Dims& size);
// What the attribute auto_pad says: NOTSET, SAME_UPPER, SAME_LOWER or VALID.
std::string padding_of(Node& n);
// What the attributes say of the windows' form; the padding as pads say it, and no steps.
Window window_form(Node& n, const Dims& in, const Dims& size);
// Windows of convolutions, and of what takes them apart.
void convolution(Node& n);
void transposed_convolution(Node& n);
void columns_to_image(Node& n);

}  // namespace thunderc::onnx_frontend
