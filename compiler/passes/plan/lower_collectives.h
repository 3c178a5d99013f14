// SPDX-License-Identifier: Apache-2.0
// Turns starts and awaits into collectives on streams of their own, with events, and gives the flat tensors of a
// sharded model their places. A part of `plan`: the first thing it does.
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
// Of the tokens of one await that belong to one stream, the last one's event is enough: a stream keeps its order. What
// only another collective reads is waited for on that one's stream.
//
// Gathers wait for nothing but their memory: in the body of a loop, layer i's for the release of the layer that had
// its slot before, `slots` iterations ago; and so do the gradients of a unit for the sum of those that lay there.
#pragma once

#include <cstdint>

#include "compiler/ir/module.h"

namespace thunderc::planning {

struct UnitMemory {
    std::int64_t gathered = 0, gradients = 0;  // bytes of the two arenas
};

UnitMemory lower_collectives(Module& module);

}  // namespace thunderc::planning
