// SPDX-License-Identifier: Apache-2.0
// name_values: values are called after the module that computes them.
//
// Importers and raising passes call a value after its op: `matmul`, `mul`. Where a module holds that op alone, the
// value is called after the module: the product of model.layers.0.self_attn.q_proj becomes `q_proj`, the merged one of
// q, k and v `qkv_proj`; further results add their own name: `input_layernorm_rstd`. Where it holds several, the value
// is called by what it is to its one reader, the `q` of attention, or by what its op works on. Views are called after
// what they view. Runs before differentiation, which calls gradients after what they are gradients of. Only names
// change. Tests: tests/passes/layers/name_values_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module name_values(Module module, Report& report);

}  // namespace thunderc
