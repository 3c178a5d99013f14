// SPDX-License-Identifier: Apache-2.0
// Who computes products of FP8 on a GPU: cuBLASLt, or a kernel of plain threads.
#pragma once

#include "device/api.h"

namespace thunder {

// By cuBLASLt. False, and nothing done, where it has no such product. `fast_sums`: of Product.
bool fp8_product_by_library(const Fp8Product& call, bool fast_sums, Stream& stream);

// On any GPU, of any sizes; slow.
void fp8_product_by_threads(const Fp8Product& call, Stream& stream);

}  // namespace thunder
