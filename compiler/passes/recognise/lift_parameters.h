// SPDX-License-Identifier: Apache-2.0
// Tells parameters from constants and gives parameters the names, the shape and the ties they have in the framework.
//
// Exporters turn every weight into an "initializer", rename it (`val_110`), transpose it, merge equal ones and fold
// tables into more of the same. What is a parameter is decided by decide_parameters.h: by names and scopes and, where
// these are gone, by numbers and structure. What nothing decides is an error that asks. A graph that names no modules
// gets the names that name_modules.h makes up, so that what follows is the same program but for names.
//
//   in:   %val_110: f32[64,128] value, %x …
//         %y = matmul(%x, %val_110)                      // model.layers.0.mlp.up_proj (Linear)
//   out:  %w: f32[128,64] parameter "model.layers.0.mlp.up_proj.weight"
//         %t = transpose(%w) {permutation = [1, 0]}
//         %y = matmul(%x, %t)
//
// Requires: phase values, main alone. Guarantees: no argument of kind value or constant is left in main; parameters
// stand in the order of their first use, behind the inputs; every parameter has one name, unique. Does not fold: that
// is fold_constants' work.
#pragma once

#include <string>
#include <vector>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct LiftOptions {
    // Regular expressions over names, the exporter's or the restored ones. One that finds none is refused.
    std::vector<std::string> trainable, constant;
};

Module lift_parameters(Module module, const LiftOptions& options, Report& report);

}  // namespace thunderc
