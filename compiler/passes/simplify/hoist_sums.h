// SPDX-License-Identifier: Apache-2.0
// hoist_sums: what a loop's steps add up, a product of few rows each, is one product behind the loop.
//
//     @step(%sum, …, %x) -> (%next, …)                      @step(…, %x) -> (…, %d)
//       %p = matmul(%d, %x) {transpose_a = true, …}    =>   %dw, … = repeat(…)
//       %next = add(%sum, %p)                               %dw = add(%sum, matmul(stack(%d), stack(%x)))
//     %dw, … = repeat(%sum, …)
//
// That is the gradient of a weight that all steps share, which a step would read and write once more. Which ops are
// such sums, and along which axes of their operands, their definitions say (OpDef::sums). Requires a body of this one
// loop, operands that are summed along their first axis and are read or given by step already or smaller than the sum,
// and that nothing but the addition reads sum and product. Where activations are computed again instead of kept, none
// is kept for this (`collect`). Guarantees the same values, summed in another order. Tests:
// tests/passes/simplify/hoist_sums_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct HoistSumsOptions {
    bool collect = true;  // what is not there by step yet is kept for all of them; else products that read it stay
};

Module hoist_sums(Module module, const HoistSumsOptions& options, Report& report);

}  // namespace thunderc
