// SPDX-License-Identifier: Apache-2.0
// merge_siblings: products of one input become one product.
//
//     %q = linear(%x, %wq)        %qkv = linear(%x, %wq, _, _, %wk, _, %wv, _) {adjacent_weights = true}
//     %k = linear(%x, %wk)   =>   %q = slice(%qkv) …; %k = slice(%qkv) …; %v = slice(%qkv) …
//     %v = linear(%x, %wv)
//
// Runs before differentiation, so that the backward pass is one product as well: the cotangents of the slices are
// joined (join_pads) and the VJP of the merged product does the rest. The planner lays the weights side by side. Merges
// only products of parameters (arguments of the function) that nothing else reads, in any function, all with a bias or
// none, without residual or activation. Tests: tests/passes/fusion/merge_siblings_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module merge_siblings(Module module, Report& report);

}  // namespace thunderc
