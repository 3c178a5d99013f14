// SPDX-License-Identifier: Apache-2.0
// A product with all that belongs to it: by cuBLASLt as a whole, or by that and a kernel over its result.
#pragma once

#include "device/cuda/gemm/cublaslt.h"

namespace thunder {

// `p` has no addend: `residual` is added after the activation, and with `accumulate` what c holds as well. False, and
// nothing done, where the library has no product of these factors: of FP8 alone.
bool whole_product(Product p, Input residual, std::int64_t ld_residual, bool accumulate, Stream& stream);

}  // namespace thunder
