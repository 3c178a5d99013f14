// SPDX-License-Identifier: Apache-2.0
// How each parameter begins where no weights are given: by what it is to the program, never by its name.
//
// A vector that scales (the weight of a normalisation, a factor by elements) begins at 1, one that is added (a bias) at
// 0, everything else is drawn. A vector is a tensor with at most one dimension of more than one element; the scale and
// the shift of a norm are what they are in any shape. What is used in two ways that do not agree is drawn.
//
//   %w: f32[4] parameter "w"          %w: f32[4] parameter "w" {init = ones}
//   %y = rms_norm(%x, %w)        =>   %y = rms_norm(%x, %w)
//
// Requires: norms and linear layers are raised. Changes nothing but the arguments' `init`.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module choose_init(Module module, Report& report);

}  // namespace thunderc
