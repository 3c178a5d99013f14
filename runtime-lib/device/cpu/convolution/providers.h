// SPDX-License-Identifier: Apache-2.0
// Who computes convolutions of f32 on a CPU.
#pragma once

#include "device/convolution/epilogue.h"

namespace thunder {

// What follows the sums of some channels of images, rows of `result` from `begin` to `end`, on the calling thread.
void finish_rows(float* result, const ConvolutionEpilogue& epilogue, std::int64_t begin, std::int64_t end);

// As products: what the window sees is the rows of a matrix, one for each step of each image, in the workspace.
namespace by_rows {
// Behind `taken` bytes of the workspace that are in use.
void convolution(const ConvolutionForward& call, std::size_t taken, Stream& stream);
void convolution(const ConvolutionBackwardInput& call, std::size_t taken, Stream& stream);
void convolution(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream);
std::size_t workspace_bytes(const ConvolutionForm& form);
}  // namespace by_rows

// Filters that see one channel each: the gradient of the weight alone, behind `taken` bytes of the workspace that are
// in use, of so many more. False, and nothing is written, where that is not its form.
namespace by_channel {
bool convolution(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream);
std::size_t workspace_bytes(const ConvolutionForm& form, int threads);
}  // namespace by_channel

// By the library's own primitives; false, and nothing is written, where these are no quicker than products of rows.
namespace onednn {
bool convolution(const ConvolutionForward& call, Stream& stream);
bool convolution(const ConvolutionBackwardInput& call, Stream& stream);
bool convolution(const ConvolutionBackwardWeight& call, Stream& stream);
}  // namespace onednn

}  // namespace thunder
