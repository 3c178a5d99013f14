// SPDX-License-Identifier: Apache-2.0
// What is quantised once a step, as weights are, which do not change from one micro-step to the next: the first
// micro-step quantises, and the others find what it has left.
#pragma once

#include "compiler/ir/op_def.h"

namespace thunderc {

// From the definition of an op that quantises whenever it runs, that of "<name>_once". Its operands are those of
// `each_time` with more among them: behind the scale and the amax, where it takes any, each result but the amax as it
// was before; and at the end `first`, bool[]: whether this is a step's first micro-step. A result is what was before
// where it is not.
OpDef once_a_step(const OpDef& each_time);

bool is_once_a_step(const Op& quantise);
// The op that quantises as this one does in a first micro-step.
Op each_time(const Op& once);
// Of `each_time(once)`'s operands the one that is operand k of that.
std::size_t operand_of_once(const Op& once, std::size_t k);
// The same made once a step; `before` are the results but the amax as they were.
Op once_a_step(Op each_time, const std::vector<Value>& before, Value first);

}  // namespace thunderc
