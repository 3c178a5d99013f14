// SPDX-License-Identifier: Apache-2.0
// What slices take, with the axis counted from the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/module.h"

namespace thunderc {

struct SliceRange {
    std::size_t axis = 0;
    std::int64_t begin = 0, end = 0, step = 1;
    auto operator<=>(const SliceRange&) const = default;
};

// None where the op is no slice.
std::optional<SliceRange> slice_range(const Function& function, const Op& op);

// Pieces of one tensor along one axis, equally wide and one behind the other, forwards or backwards.
struct Pieces {
    Value whole;
    SliceRange range;  // from the first piece in the tensor to its last
    std::int64_t width = 0;
    Dims dims;               // of each piece, as it is read
    bool backwards = false;  // the first one reads the last piece
};

// None where the values are no such pieces, or are not of one type.
std::optional<Pieces> pieces_of(const Function& function, const Uses& uses, const std::vector<Value>& values);

}  // namespace thunderc
