// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation on the IR: every op's own VJP rule appends backward ops.
//
// Requires a `main` whose first result is a float scalar, the loss; behind it come its weights and what buffers will
// be. Guarantees: `main` takes one more argument, the scalar `dloss` (what the loss is multiplied with before it is
// differentiated), and gives, behind its own results, a gradient for each wanted argument, named "d" + the argument's
// name; of a family it is a family. A trainable parameter that the loss does not depend on is frozen, with a warning;
// in whole programs freeze_unreached has done that before. Each function that takes part becomes two that stand side by
// side:
//
//     func @layer(%x, %w) -> (%y)
//
//     func @layer_forward(%x, %w) -> (%y, %pre)                      its results, then what it saves
//     func @layer_backward(%dy, %x, %pre, %w) -> (%dx, %dw)          cotangents, what was saved, arguments
//
// The backward function of a loop carries cotangents of carried values and sums of gradients of shared values, and
// collects gradients of per-layer values; the loop runs the other way round. What is saved is decided by recompute.h.
// Sums of gradients are folded from the last use to the first, so that calls in a row and the same loop give equal
// bits. Does not: share work between forward and backward functions, or decide where a gradient is added in place.
#pragma once

#include <functional>

#include "compiler/passes/autodiff/recompute.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct DifferentiateOptions {
    Keeping keeping;
    // Which arguments of main get a gradient (floats only); empty: trainable parameters.
    std::function<bool(const ArgInfo&)> wanted;
    // For library functions: instead of `dloss`, a cotangent for each float result, an input "d" + its name whose
    // source is "cotangent"; and a gradient for each wanted argument, zeros where no result depends on it.
    bool cotangent_for_each_result = false;
};

// What is said of a parameter that is frozen since no gradient comes to it.
inline constexpr const char* unreached_parameter = "the loss does not depend on it: it is left as it is";

Module differentiate(Module module, const DifferentiateOptions& options, Report& report);

}  // namespace thunderc
