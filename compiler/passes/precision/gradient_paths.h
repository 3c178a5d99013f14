// SPDX-License-Identifier: Apache-2.0
// Which values become gradients of parameters and nothing else. A part of `lower_precision`.
#pragma once

#include "compiler/ir/function_tools.h"

namespace thunderc {

// By value: all its uses end in the accumulation of a gradient, or in one of the function's results that `results`
// marks, perhaps by way of views, sums and calls. `results`: by result of the function.
Mask gradient_values(const Module& module, const Function& function, const Mask& results);

}  // namespace thunderc
