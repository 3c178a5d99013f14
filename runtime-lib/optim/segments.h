// SPDX-License-Identifier: Apache-2.0
// Which parts of the flat parameter arena an optimizer works on.
#pragma once

#include <cstdint>

#include "rules/rule.h"  // a neighbour, as in step_scalars.h

namespace thunder {

// Elements [begin, end) of the arena; parameters and gradients lie at the same place in theirs, and so do the
// optimizer's states where these are shaped as the parameters. Segments do not overlap, and are sorted: behind all
// others those whose states are codes, then those that are stepped as wholes. What lies between them (padding) or
// behind (frozen parameters) is not touched.
struct ParameterSegment {
    std::int64_t begin = 0, end = 0;
    bool decay = false;  // weight decay applies
    // Whose numbers step it: 0: those of the run, else of a group of parameters, from 1.
    std::int32_t group = 0;
    // Which tensor it is of, and from which of its elements on: rounding.h asks that.
    std::uint64_t tensor = 0;
    std::int64_t first = 0;
    // Of a matrix that is stepped as a whole (rules/rule.h), or of several; of a vector that is, 0 rows. 0 columns:
    // element by element.
    std::int64_t rows = 0, columns = 0;
    // How much further on in its arena each state lies than the parameter in its own: state_layout.h.
    std::int64_t shift[rules::most_states] = {};

    // Of states that are codes of 8 bits (rules/codes.h): where in their arena those of the first element lie, in
    // bytes, and where its block's scales do, in floats. It is the first one of a block of the tensor.
    bool coded = false;
    std::int64_t codes[rules::most_states] = {}, scales[rules::most_states] = {};

    bool is_whole() const { return columns > 0; }
};

}  // namespace thunder
