// The segments of an optimizer, cut into pieces for the blocks of a grid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/segments.h"

namespace thunder {

class Stream;

// begin and end, in elements of the arenas, and 1 where the piece decays, else 0
inline constexpr int numbers_of_piece = 3;
inline constexpr std::int64_t piece_elements = 16384;

// Those numbers for each piece.
std::vector<std::int64_t> cut_segments(std::span<const ParameterSegment> segments);

struct PieceTable {
    const std::int64_t* numbers = nullptr;  // on the device
    std::int64_t count = 0;
};
// Put on the device when the segments are first met.
PieceTable pieces_of(std::span<const ParameterSegment> segments, Stream& stream);

}  // namespace thunder
