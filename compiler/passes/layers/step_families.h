// SPDX-License-Identifier: Apache-2.0
// Families of time steps: what each step reads a piece of, and what all of them give, is one tensor outside of the
// loop. A part of `roll_repeats`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/slices.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"

namespace thunderc {

// The family of the pieces, in the order of the tensor.
Value family_of_steps(Builder& b, const Pieces& steps);

// Member `index` of a family.
struct FamilyMember {
    Value family;
    std::int64_t index = 0;
    auto operator<=>(const FamilyMember&) const = default;
};

// What puts all members of a family that a loop collected side by side reads them as one tensor:
//
//     %all = concat(%m0, %m1, …) {axis = 1}       %s = stack(%family)
//                                            =>   %t = transpose(%s) {permutation = [1, 0, 2]}
//                                                 %all = reshape(%t) …
//
// `carried` are results of loops that are members as well: what the last step hands on.
void stack_members(Function& function, const std::map<Value, FamilyMember>& carried);

}  // namespace thunderc
