// SPDX-License-Identifier: Apache-2.0
// Calls of one function in a row become one loop.
//
//     %y = call(%x, %w0, %c) {callee = @layer}
//     %z = call(%y, %w1, %c) {callee = @layer}
// becomes
//     %z = repeat(%x, %w, %c) {body = @layer, carried = 1, n = 2, per_layer = 1, reverse = false}
//
// Where %w0 and %w1 are parameters (or constant tables) of main that nothing else reads, main takes the family %w: 2 x
// f32[...] in their place, with a framework name for each member; else `family(%w0, %w1)` stands before the loop.
// What each call reads a piece of (a time step) is that tensor, taken apart: `unstack(…)`; the loop runs backwards
// where the calls take the last piece first. What puts all that the calls give side by side reads it as one:
// `stack(…)`. Requires calls whose first operands are the first results of the call before (what outline_blocks makes);
// says why a row stays. unroll_repeats is the inverse.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module roll_repeats(Module module, Report& report);

}  // namespace thunderc
