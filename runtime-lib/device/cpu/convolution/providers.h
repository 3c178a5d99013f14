// SPDX-License-Identifier: Apache-2.0
// Who computes convolutions on a CPU.
#pragma once

#include "device/api.h"

namespace thunder {

// As products: what the window sees is the rows of a matrix, one for each step of each image, in the workspace.
namespace by_rows {
void convolution(const ConvolutionForward& call, Stream& stream);
void convolution(const ConvolutionBackwardInput& call, Stream& stream);
void convolution(const ConvolutionBackwardWeight& call, Stream& stream);
}  // namespace by_rows

// By the library's own primitives; false, and nothing is written, where these are no quicker than products of rows.
namespace onednn {
bool convolution(const ConvolutionForward& call, Stream& stream);
bool convolution(const ConvolutionBackwardInput& call, Stream& stream);
bool convolution(const ConvolutionBackwardWeight& call, Stream& stream);
}  // namespace onednn

}  // namespace thunder
