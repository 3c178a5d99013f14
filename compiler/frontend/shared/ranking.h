// SPDX-License-Identifier: Apache-2.0
// Elements in the order of their size.
#pragma once

#include <cstdint>

#include "compiler/ir/builder.h"

namespace thunderc {

struct Ranked {
    Value values, numbers;  // numbers: i64, along the axis
};

// The first k elements along an axis, the largest or the smallest ones first; of equal ones the first. Throws UserError
// where there are fewer, and where every element would be compared with too many others.
Ranked top_k(Builder& b, Value x, std::int64_t axis, std::int64_t k, bool largest);

}  // namespace thunderc
