// SPDX-License-Identifier: Apache-2.0
// Groups what is left of primitives into kernel functions.
//
// Before:   %a = mul(%x, %w) : f32[2,8]
//           %b = tanh(%a) : f32[2,8]
// After:    %b = fused(%x, %w) {kernel = "mlp_mul_tanh"} : f32[2,8]
//           func @mlp_mul_tanh(%x: f32[2,8], %w: f32[8]) -> (%b) kind "kernel:pointwise" { ... }
//
// Requires that composites are claimed or decomposed. Guarantees that of primitives only views are left that the
// planner can place in the memory of what they view, and constants. A group is one kernel description
// (kernels/description.h); two groups become one where a description of both exists, no third op stands between
// them, and fewer bytes move than it costs in recomputation. Views and lazy constants are copied into every kernel that
// reads them; so are values that take fewer bytes to compute again than to keep (recompute_in_kernels.h). Equal kernel
// functions are one function. It does not look across calls and loops.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct FuseOptions {
    bool fuse = true;  // false: each primitive is a kernel of its own
};

Module fuse(Module module, const FuseOptions& options, Report& report);

}  // namespace thunderc
