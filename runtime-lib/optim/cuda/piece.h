// SPDX-License-Identifier: Apache-2.0
// How a piece of an optimizer's segments is written down: for the host and for kernels.
#pragma once

namespace thunder {

// begin and end, in elements of the arenas, and 1 where the piece decays, else 0
inline constexpr int numbers_of_piece = 3;
inline constexpr int piece_elements = 16384;

}  // namespace thunder
