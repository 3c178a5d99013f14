// What a kernel costs: memory traffic and arithmetic.
#pragma once

#include <cstdint>

#include "compiler/kernels/description.h"

namespace thunderc {

// Bytes of tensors that the kernel reads and writes, each once.
std::int64_t bytes_moved(const KernelDescription& kernel);
// Scalar work in units of an addition, weighing transcendental functions.
double work(const KernelDescription& kernel);

}  // namespace thunderc
