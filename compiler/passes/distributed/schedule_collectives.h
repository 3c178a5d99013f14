// SPDX-License-Identifier: Apache-2.0
// Moves the two ends of collectives apart: awaits as late as their users allow, each with the reason why it stands
// where it stands (attribute `reason`, which generated text says).
//
// Requires: distribute. Guarantees: the same values. Awaits that come to stand together become one.
//
//     %a, %t = all_reduce_start(%g, %last) {...}
//     %b = await(%a, %t)
//     %h = linear_backward_weight(...)
//
// becomes
//
//     %a, %t = all_reduce_start(%g, %last) {reason = "...", ...}
//     %h = linear_backward_weight(...)
//     %b = await(%a, %t) {reason = "..."}
//
// Gathers of layers stand an iteration ahead of their loop's, and where a loop has a first layer to gather, a
// `begin_ahead` says where that begins: as early as its slots are free, in the order in which units are read.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module schedule_collectives(Module module, Report& report);

}  // namespace thunderc
