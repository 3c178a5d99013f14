// Kernels that read or write bf16 compute in f32. A part of `fuse`.
#pragma once

#include "compiler/ir/module.h"

namespace thunderc {

// A kernel function anew: what it reads in bf16 is cast to f32, all that it computes is f32, and only a result of type
// bf16 is rounded. So what ops hand on within a kernel has not lost anything. A kernel that only moves elements, and
// one without bf16, stays as it is.
Function widen_kernel(Function kernel);

// A cast from bf16 to f32: whoever reads the result may as well read what was cast.
bool is_widening(const Function& function, const Op& op);

}  // namespace thunderc
