// SPDX-License-Identifier: Apache-2.0
// add_adapters: beside linear layers stand adapters of low rank, which alone are trained (LoRA, Hu and others 2021).
//
//     %y = linear(%x, %w) at "layers.0.q_proj"
//
//     %y = linear(%x, %w)                                        %w: frozen
//     %a = linear(%x, %A)                                        %A: f32[r, in], "base_model.model.….lora_A.weight"
//     %s = mul(%a, scale)                                        scale: alpha / r, or alpha / sqrt(r)
//     %b = linear(%s, %B)                                        %B: f32[out, r], "base_model.model.….lora_B.weight"
//     %z = add(%y, %b)
//
// With a dropout, that of x goes into the adapter alone. Names and what they begin as (A uniform, as torch's Linear
// begins, B at 0) are PEFT's; see docs/finetuning.md. All other parameters are frozen, but those of modules_to_save.
// Module::adapters says what was added, as a file of such adapters says it.
//
// A layer is a parameter "<module>.weight" that a linear op reads, also one that is stored (in, out) and transposed.
// All uses of one weight share its adapter. Embeddings, convolutions and what else reads a weight that is asked for are
// refused by name. Requires: raised composites in main, before the loss is added; no layer is rolled, no product
// merged.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"
#include "compiler/passes/recognise/lora_options.h"

namespace thunderc {

Module add_adapters(Module module, const LoraOptions& options, Report& report);

}  // namespace thunderc
