// SPDX-License-Identifier: Apache-2.0
// Who computes convolutions on a GPU: cuDNN, or products of the rows that a window sees.
#pragma once

#include "device/api.h"

namespace thunder {

// Of f32, behind `taken` bytes of the workspace that are in use.
//
// By a graph of cuDNN's: the same bits in every run, on tensor cores only with --tf32, or where the factors are `exact`
// in the 10 bits of these. False, and nothing done, where it takes none: tensors that do not begin at 16 bytes, a form
// that it refuses, which is told once, or a build without cuDNN.
bool cudnn_convolution(const ConvolutionForward& call, bool exact, std::size_t taken, Stream& stream);
bool cudnn_convolution(const ConvolutionBackwardInput& call, bool exact, std::size_t taken, Stream& stream);
bool cudnn_convolution(const ConvolutionBackwardWeight& call, bool exact, std::size_t taken, Stream& stream);

// By products.
void convolution_by_rows(const ConvolutionForward& call, std::size_t taken, Stream& stream);
void convolution_by_rows(const ConvolutionBackwardInput& call, std::size_t taken, Stream& stream);
void convolution_by_rows(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream);

// to[i] += from[i]
void add_to(float* to, const float* from, std::int64_t elements, Stream& stream);

}  // namespace thunder
