// SPDX-License-Identifier: Apache-2.0
// sink_accumulation: the gradient of a layer is added where it is made.
//
// compose_step adds whole families of gradients behind the loop that collects them. This pass takes the addition into
// the loop's body, so that a layer's gradient is written once, at its place, and can become the epilogue of the product
// that gives it.
//
//     %dw = repeat(%dy; %x, %w) {body = @backward} : ..., 8 x f32[64,64]
//     %after = accumulate_gradient(%before, %dw, %first)
// becomes
//     %after = repeat(%dy; %x, %w, %before; %first) {body = @backward'} with the same op at the end of the body.
//
// Leaves alone: gradients that anything else reads, and bodies that several loops call.
// Tests: tests/passes/step/sink_accumulation_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module sink_accumulation(Module module, Report& report);

}  // namespace thunderc
