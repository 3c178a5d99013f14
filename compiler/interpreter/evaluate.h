// SPDX-License-Identifier: Apache-2.0
// Runs a function of a module on the host, in fp64, by the references of its ops: the compiler's notion of what a
// program means.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// The members of a family, in order; of a plain tensor, the one tensor.
using Members = std::vector<Tensor>;

struct EvaluateOptions {
    // Every result is rounded to its own floating point type, so that f32 programs give about f32 numbers; else all is
    // fp64.
    bool round_to_dtype = false;
    // Sees every op of every function after it ran, with its results (say, to look for the first NaN).
    std::function<void(const Function&, const Op&, std::span<const Members> results)> observe;
    // May put another tensor in the place of what a stop_gradient gives, or a lookup at ids that pad (`padding_idx`):
    // differences of a loss hold it still.
    std::function<void(Tensor&)> at_stop = {};
    // Sees the operands of every op but calls and loops, before it runs; an absent one has no members.
    std::function<void(const Function&, const Op&, std::span<const Members> operands)> before = {};
};

// Integers are exact in int64. Sums run in the order of indices, so equal programs give equal bits.
// Throws InternalError where arguments do not have the function's types.
std::vector<Members> evaluate(const Module& module, const Function& function, std::span<const Members> arguments,
                              const EvaluateOptions& options = {});

// For functions of plain tensors.
std::vector<Tensor> evaluate(const Module& module, const Function& function, std::span<const Tensor> arguments,
                             const EvaluateOptions& options = {});

// A value rounded to its own floating point type, in place.
void round_to_dtype(Tensor& tensor);

}  // namespace thunderc
