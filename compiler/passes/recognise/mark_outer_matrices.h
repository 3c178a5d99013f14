// SPDX-License-Identifier: Apache-2.0
// Which matrices an optimizer that steps matrices as wholes is to step element by element: the tables that ids are
// looked up in, and the weight of the product that the model gives (compiler/analysis/outer_matrices.h).
//
//   %e: f32[6,3] parameter "embed"          %e: f32[6,3] parameter "embed" {outer}
//   %w: f32[3,3] parameter "hidden"    =>   %w: f32[3,3] parameter "hidden"
//   %h = embedding(%e, %ids)                %h = embedding(%e, %ids)
//   %y = linear(%h, %w)                     %y = linear(%h, %w)
//
// Requires: composites are raised, and main gives its loss first. Before layers are rolled, and products merged.
// Changes nothing but the arguments' `outer`: which states are kept of a parameter follows from it.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module mark_outer_matrices(Module module, Report& report);

}  // namespace thunderc
