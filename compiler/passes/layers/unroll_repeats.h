// SPDX-License-Identifier: Apache-2.0
// Loops become calls in a row: the inverse of roll_repeats, for --no-roll and for comparing the two.
//
//     %y, %s = repeat(%x, %w, %c) {body = @layer, carried = 1, n = 2, per_layer = 1, reverse = false}
// becomes
//     %w_0 = member(%w) {index = 0}
//     %x_1, %s_0 = call(%x, %w_0, %c) {callee = @layer}
//     %w_1 = member(%w) {index = 1}
//     %y, %s_1 = call(%x_1, %w_1, %c) {callee = @layer}
//     %s = family(%s_0, %s_1)
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module unroll_repeats(Module module, Report& report);

// Only loops inside functions other than main: what such a loop collects could not be collected by a loop around it.
Module unroll_nested_repeats(Module module);

}  // namespace thunderc
