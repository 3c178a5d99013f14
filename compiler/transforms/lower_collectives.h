// Turns starts and awaits into collectives on streams of their own, with events. A part of `plan`: the first thing it
// does.
//
//     %a, %t = all_reduce_start(%g, %last) {name = "bucket_0"}
//     ...
//     %b = await(%a, %t)
//
// becomes
//
//     record() {event = "bucket_0_ready"}
//     wait() {event = "bucket_0_ready"} on reduce
//     %a = all_reduce(%g, %last) on reduce
//     record() {event = "bucket_0_done"} on reduce
//     ...
//     wait() {event = "bucket_0_done"}
//
// Of the tokens of one await that belong to one stream, the last one's event is enough: a stream keeps its order.
#pragma once

#include "compiler/ir/module.h"

namespace thunderc::planning {

void lower_collectives(Module& module);

}  // namespace thunderc::planning
