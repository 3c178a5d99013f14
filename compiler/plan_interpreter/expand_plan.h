// SPDX-License-Identifier: Apache-2.0
// A function of a planned module with its loops and calls written out: what runs on which stream, over which bytes.
//
// The actions stand in the order of the list, layer after layer, which is one order in which the program may run. What
// works on several layers at once (attribute `layers`) stands where the last of them is done: in a loop that runs
// backwards, at layers that are multiples of it. Streams and events say which others there are: actions of one stream
// run in their order, and a wait runs after its record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// A tensor as one action reads or writes it.
struct PlannedAccess {
    std::size_t tensor = 0;  // what it holds, by whatever names functions call it: index into ExpandedPlan::tensors
    Value value;             // in the action's function; for a family's member, the family
    Type type;               // of the member
    Placement::Arena arena = Placement::Arena::unplaced;
    std::int64_t offset = 0;  // bytes from the start of the arena
    Dims strides;             // elements; empty: dense

    std::int64_t bytes() const;  // from its first byte to the end of its last
    // Of one arena, whether they share no byte: rows that alternate, as those of pieces that lie in one tensor, do not.
    bool is_apart_from(const PlannedAccess& other) const;
};

struct PlannedAction {
    const Function* function = nullptr;
    const Op* op = nullptr;                           // of the module that was expanded
    std::size_t stream = 0;                           // 0: compute; k + 1: stream k of the module
    std::size_t entry_op = 0;                         // of the entry function, which it is a part of
    std::int64_t entry_iteration = 0;                 // of that op, where it is a loop
    std::vector<std::optional<PlannedAccess>> reads;  // by operand, families member by member; none where absent
    std::vector<PlannedAccess> writes;                // by result, families member by member
    std::optional<std::size_t> awaits;                // of a wait: the action that is the record
    // The flag that the host knows (flag_of): where it is there and false, the action is not.
    std::optional<PlannedAccess> enabled;
};

struct PlannedTensor {
    std::optional<PlannedAccess> place;  // where it was written; none for arguments and constants
    bool temporary = false;              // its bytes are free when nothing reads it any more
    std::vector<std::size_t> parts;      // of one that is others side by side: these, which were written by themselves
};

struct ExpandedPlan {
    std::vector<PlannedAction> actions;
    std::vector<PlannedTensor> tensors;
};

// The actions point into the module. Throws InternalError where the plan lacks a place.
ExpandedPlan expand_plan(const Module& planned, const Function& entry);

}  // namespace thunderc
