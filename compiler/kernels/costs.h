// SPDX-License-Identifier: Apache-2.0
// What a kernel costs: memory traffic and arithmetic.
#pragma once

#include <cstdint>

#include "compiler/kernels/description.h"

namespace thunderc {

// Bytes of tensors that the kernel reads and writes, each once.
std::int64_t bytes_moved(const KernelDescription& kernel);
// Scalar work in units of an addition, weighing transcendental functions.
double work(const KernelDescription& kernel);

// What the start of a nest on all threads costs, as bytes of memory traffic.
inline constexpr double bytes_per_start = 8192;
// The time that a kernel takes, in bytes of memory traffic: what it moves, what it computes (half a byte's time for an
// operation of a vectorised loop), and its starts.
double cost_of(const KernelDescription& kernel);

}  // namespace thunderc
