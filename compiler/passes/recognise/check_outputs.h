// SPDX-License-Identifier: Apache-2.0
// check_outputs: a program has something to compute.
//
// Outputs without elements may stand beside others; where all are such, there is nothing to train and nothing to give.
// `thunderc run` gives them, as ONNX does: it stops before this pass. Changes nothing; throws UserError. Tests:
// tests/passes/recognise/check_outputs_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module check_outputs(Module module, Report& report);

}  // namespace thunderc
