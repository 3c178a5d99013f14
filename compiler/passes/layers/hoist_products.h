// SPDX-License-Identifier: Apache-2.0
// hoist_products: what each step of a loop multiplies with the same weights, of its own input alone, is one product for
// all steps, before the loop.
//
//     @step(%h, %x, %w) -> (…)                      @step(%h, %p, …) -> (…)
//       %p = linear(%x, %w)                           %all = linear(%steps, %w)
//       …                                      =>     %p = unstack(%all)
//     %x = unstack(%steps)                            … = repeat(%h, %p, …)
//     … = repeat(%h, %x, %w)
//
// A cell in a loop of Python multiplies its input in every step; a product of many rows reads the weights once.
// Requires a product that keeps rows apart (OpDef::rows), whose rows are pieces of one tensor, a piece for each step,
// and whose other operands are shared by all steps; a body of this one loop. Guarantees the same values. Tests:
// tests/passes/layers/hoist_products_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module hoist_products(Module module, Report& report);

}  // namespace thunderc
