// What passes and printers ask of the ops by which ranks and streams speak to each other.
#pragma once

#include "compiler/ir/module.h"

namespace thunderc {

// all_reduce, all_gather, reduce_scatter: after plan.
bool is_collective(const Op& op);
// record, wait: after plan.
bool is_event(const Op& op);

// The flag that the host knows, such as whether this is a step's last micro-step: where it is there and false, the op
// is not there. A collective sends nothing, an event is not recorded, and nobody waits for it. None: it is always
// there.
Value flag_of(const Op& op);

}  // namespace thunderc
