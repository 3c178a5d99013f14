// SPDX-License-Identifier: Apache-2.0
// From main to the entry function of a library, which writes its results to memory that has a name.
//
// Requires the forward pass, or what differentiate leaves of it with a cotangent for each result: main(inputs,
// parameters, cotangents) -> (outputs, gradients). Guarantees that main is called `name`, and that it has one more
// argument for each result, whose place the result takes: of kind output, named like the output, or "d" + the input's
// name; of kind state, "grad.<parameter>", for the gradients of parameters. What reads a file and what writes one have
// names that differ. Bodies of loops and callees of a forward pass are called <layer>_forward.
//
//     func @main(%x: f32[4] input "x", %w: f32[4] parameter "w", %dy: f32[4] input "dy" {source = "cotangent"})
//         -> (%y "y", %dx "dx", %dw "dw")
// becomes
//     func @vjp(%x: …, %w: …, %dy: …, %y: f32[4] output "y", %dx: f32[4] output "dx", %grad_w: f32[4] state "grad.w")
//         -> (%y_after "y", %dx_after "dx", %dw "grad_w")
//
// Tests: tests/passes/step/compose_function_test.cpp
#pragma once

#include <string>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

// Whether a library's vjp gives a gradient of this argument of main, if it is of floats: an input, or a parameter that
// is not frozen.
bool wants_gradient(const ArgInfo& info);

Module compose_function(Module module, const std::string& name, Report& report);

}  // namespace thunderc
