// SPDX-License-Identifier: Apache-2.0
// The bytes that a collective works on, as few pieces as they lie in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Of a collective whose tensors lie beside each other: pieces between which no other tensor lies. Gaps, which are zero,
// are sent with them.
struct CollectiveRanges {
    struct Range {
        Value first;  // of the function that has the loop, where there is one: the tensor, or the family of all layers
        std::int64_t elements = 0;  // of one layer
    };
    std::vector<Range> ranges;
    bool layers_adjoin = false;  // the one piece of a layer is followed by that of the next
    std::int64_t stride = 0;     // elements, from layer to layer
};
// `loop`: whose body `function` is; nullptr where it is an entry.
CollectiveRanges collective_ranges(const Module& module, const Function& function, const Op* loop, const Op& op);

// The function that has the loop, and its value that a value of the loop's body is a member of.
const Function& caller_of(const Module& module, const Op& loop);
Value outside_value(const Function& body, const Op& loop, Value v);

// What their constants in model.h begin with: "bucket_0", or "bucket_0_1", "bucket_0_2", ...
std::vector<std::string> collective_names(const Op& op, const CollectiveRanges& ranges);

}  // namespace thunderc
