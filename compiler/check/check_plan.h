// SPDX-License-Identifier: Apache-2.0
// Checks a planned module against what its printed form says, by comparing every value with every other.
//
// It shares nothing with the planner: lifetimes, places and overlaps are found again, slowly and plainly. What it
// guarantees:
//
//   lifetimes    no two values share bytes while both are needed, unless one is a view of the other, or an op writes a
//                result over an operand that it reads for the last time and that its in-place pairs name
//   loops        slots of carried values follow each other without meeting; members of a family lie apart; a body is
//                checked with the bytes that its caller gives it, in the first two layers and in the last
//   views        a view lies where its op says in the memory that it views; no view is read that has no such place
//   arenas       everything lies inside its arena; what two functions call by one name lies in one place, and nothing
//                else does
//   calls        weights that a product takes as one lie side by side
//   alignment    64 bytes, except where a tensor has to follow another
//   streams      of two ops on different streams that touch the same bytes, one waits for the other, through events;
//                the work of a function begins and ends on the stream compute
//   updates      where the update of a step runs beside the next forward pass, this waits for each parameter before it
//                reads it, and for all of them before it writes a gradient; each is stepped once
//
// A violation is a sentence: "@f: %a (...) and %b (...) share bytes ...".
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/support/report.h"

namespace thunderc {

// In the order in which they are found, each once; empty for a sound plan.
std::vector<std::string> plan_violations(const Module& planned);

// Those of the forward pass beside the update of the step before, were its parts and waits these.
struct UpdateParts;
std::vector<std::string> update_violations(const Module& planned, const UpdateParts& parts);

// The pass behind `plan`: throws InternalError that lists the first violations; changes nothing.
Module check_plan(Module module, Report& report);

}  // namespace thunderc
