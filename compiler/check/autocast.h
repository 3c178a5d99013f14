// SPDX-License-Identifier: Apache-2.0
// What PyTorch itself would compute in a narrow type: the yardstick of `thunderc verify --dtype`.
//
// A model's graph, with the casts that torch.autocast puts into it on GPUs (torch/amp's documentation, "Autocast Op
// Reference"). What becomes of an op is a field of its definition (OpDef::autocast):
//
//   low       products read and give the narrow type
//   wide      on the list of those that stay f32: they read f32 and give it
//   promotes  on no list: of the widest type that it reads, where numbers and scalars do not count. It is computed in
//             f32, as PyTorch's kernels are, and rounded once
//
//     %h = linear(%x, %w) : f32[2,8,24]
//     %y = silu(%h) : f32[2,8,24]
//
// becomes
//
//     %x_1 = cast(%x) {dtype = bf16}, %w_1 = cast(%w) {dtype = bf16}
//     %h = linear(%x_1, %w_1) : bf16[2,8,24]
//     %h_1 = cast(%h) {dtype = f32}
//     %y_1 = silu(%h_1) : f32[2,8,24]
//     %y = cast(%y_1) {dtype = bf16}
//
// What is differentiated behind that is what autograd does: a gradient has the type of what it is the gradient of, and
// a backward op runs in the type of its forward op.
#pragma once

#include <set>
#include <string>

#include "compiler/ir/dtype.h"
#include "compiler/ir/module.h"

namespace thunderc {

// Passes that make one op of several of PyTorch's, each of which rounds; what is compared does without.
std::set<std::string> passes_beyond_pytorch();

// Requires a main in f32 that calls no function, before it is differentiated; other functions are left out. Casts
// nothing where `low` is f32. A swiglu is a silu and a product again.
Module autocast(const Module& module, DType low);

// The step of that, as compose_step leaves it: `module` is what comes before differentiate, without loops.
Module autocast_step(const Module& module, DType low, const std::string& optimizer);

}  // namespace thunderc
