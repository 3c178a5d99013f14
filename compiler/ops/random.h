// SPDX-License-Identifier: Apache-2.0
// What ops that draw numbers share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/ops/rules.h"

namespace thunderc {

// The number of [0, 1) that is drawn for a place of the row of this number, a multiple of 2^-24.
double drawn_number(std::int64_t seed, std::int64_t draw, std::int64_t row, std::int64_t place);

// The operands from `first` on are the seed, the number of the draw, and those of the rows: i64[], i64[], i64[R].
void require_numbers(const InferInput& in, std::size_t first);

}  // namespace thunderc
