// SPDX-License-Identifier: Apache-2.0
// Which ops of a planned function stand in its text, and which values they name: what is printed and what is told of it
// (LAYOUT) agree on both.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// How many calls the op becomes: 0 for views, constants, what another call has done, and what ranks say to each other,
// which stands beside the calls; a loop is one.
std::size_t statement_count(const Function& f, const Op& op);

// The ops of an entry function by the functions of C++ that have them: of forward_backward its forward pass and its
// backward pass, unless a loop of this begins in that one; of update what comes before the first op that works on
// parameters or states, and the rest; of others all.
std::vector<std::span<const Op>> printed_parts(const Function& entry);

// The same with the names of those functions: "forward", "backward"; "clip", "update"; else the entry's own.
struct EntryPart {
    std::string name;
    std::span<const Op> ops;
};
std::vector<EntryPart> entry_parts(const Function& entry);

// The ops of a planned module that its text has as calls of the runtime API.
void for_each_call(const Module& planned, const std::function<void(const Function&, const Op&)>& visit);

// The values that the op's statements are given: operands, then results; a loop's are all of them.
void for_each_value_in_text(const Function& f, const Op& op, const std::function<void(Value)>& visit);

// When a value's bytes are in use, its views' included: from the first statement to the last that is given them,
// counted from 1. 0: no statement is.
struct Lifetimes {
    std::vector<std::size_t> first, last;

    explicit Lifetimes(const Function& f);
};

}  // namespace thunderc
