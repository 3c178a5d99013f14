// SPDX-License-Identifier: Apache-2.0
// The segments of an optimizer, cut into pieces for the blocks of a grid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/cuda/piece.h"
#include "optim/segments.h"

namespace thunder {

class Stream;

// numbers_of_piece for each piece.
std::vector<std::int64_t> cut_segments(std::span<const ParameterSegment> segments);

struct PieceTable {
    const std::int64_t* numbers = nullptr;  // on the device
    std::int64_t count = 0;
};
// Put on the device when the segments are first met.
PieceTable pieces_of(std::span<const ParameterSegment> segments, Stream& stream);

}  // namespace thunder
