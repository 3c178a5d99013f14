// SPDX-License-Identifier: Apache-2.0
// What passes and printers ask of the ops by which ranks and streams speak to each other.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/ir/module.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {

// The kind of a collective that runs on a stream (after plan), or of one that is begun and awaited (before plan).
std::optional<Collective> collective_of(const Op& op);
std::optional<Collective> start_of(const Op& op);
std::string_view name_of(Collective kind);  // of the op that runs on a stream
bool is_collective(const Op& op);
bool is_collective(const Op& op, Collective kind);
bool is_start(const Op& op, Collective kind);

// The flag that the host knows, such as whether this is a step's last micro-step: where it is there and false, the op
// is not there. A collective sends nothing, an event is not recorded, and nobody waits for it. None: it is always
// there.
Value flag_of(const Op& op);

}  // namespace thunderc
