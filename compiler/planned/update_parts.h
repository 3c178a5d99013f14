// SPDX-License-Identifier: Apache-2.0
// The optimizer's update in parts, in the order in which the forward pass comes to what they write: on a device of
// several streams the update of a step runs beside the next step's forward pass, which waits for each part where it
// first reads it, and for all of them before anything writes a gradient, which the update reads.
//
// A part is what one op of forward_backward reads first, or one iteration of a loop of it. Each parameter that trains
// is in one part, all of it. Who prints the waits, who tells the runtime what the parts are, what the plan expects of
// them and the check that they are enough (check/check_updates.cpp) ask here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Elements [begin, end) of the arena of parameters; each further iteration's lie `stride` behind.
struct UpdateRange {
    std::int64_t begin = 0, end = 0, stride = 0;
};

struct UpdatePart {
    std::size_t op = 0;      // of forward_backward: the wait stands before it, or, of a loop, in each iteration
    std::int64_t first = 0;  // its number; parts are done in the order of their numbers
    std::int64_t count = 1;  // of a loop: one of each iteration, numbered one behind the other
    bool layered = false;    // whether the wait is in the loop
    std::string name;        // where it is: "lm_head", "decoder_layer"; one that another part may have as well
    std::vector<UpdateRange> ranges;

    std::int64_t elements() const;  // of one of `count`
};

struct UpdateParts {
    std::vector<UpdatePart> parts;  // none: the update stands behind the backward pass
    std::size_t join = 0;           // the op of forward_backward before which all of them are done
    std::string declined;           // why there are none

    std::int64_t count() const;
    // How many parts are waited for in front of an op of forward_backward, or of an iteration of one that is a loop.
    std::int64_t done_before(std::size_t op, std::int64_t iteration) const;
};
UpdateParts update_parts(const Module& planned);

// The op of `update` that steps the parameters; null: it is no training step.
const Op* parameter_step(const Module& planned);
// Whether an op of `update` works on parameters or states, or narrow copies: the step, and what has to stand behind it.
bool is_of_parameters(const Function& update, const Op& op);

}  // namespace thunderc
