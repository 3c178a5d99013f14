// SPDX-License-Identifier: Apache-2.0
// What a slice takes, with the axis counted from the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compiler/ir/module.h"

namespace thunderc {

struct SliceRange {
    std::size_t axis = 0;
    std::int64_t begin = 0, end = 0, step = 1;
    auto operator<=>(const SliceRange&) const = default;
};

// None where the op is no slice.
std::optional<SliceRange> slice_range(const Function& function, const Op& op);

}  // namespace thunderc
