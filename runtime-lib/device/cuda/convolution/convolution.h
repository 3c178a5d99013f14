// SPDX-License-Identifier: Apache-2.0
// What convolutions are beside products: the rows that a window sees, and what moves between these and images.
#pragma once

#include "device/api.h"

namespace thunder {

// rows[(n, s), (c, k)] = x[n, c, s * strides + k * dilations - before] of so many images, 0 beyond the elements.
void see(float* rows, const float* x, const ConvolutionForm& form, std::int64_t images, Stream& stream);
// x[n, c, i] = the sum of what rows have of it, in the order of k.
void put_back(float* x, const float* rows, const ConvolutionForm& form, std::int64_t images, Stream& stream);
// to[n, j, i] = from[n, i, j]
void turn(float* to, const float* from, std::int64_t images, std::int64_t rows, std::int64_t columns, Stream& stream);

}  // namespace thunder
