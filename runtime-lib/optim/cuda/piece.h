// SPDX-License-Identifier: Apache-2.0
// How a piece of an optimizer's segments is written down: for the host and for kernels.
#pragma once

namespace thunder {

// begin and end, in elements of the arenas; 1 where the piece decays, else 0; numbers_of_group() of its group; its
// tensor, and which of its elements the first one is; how much further on its states lie, or where its codes do; where
// the scales of these do
inline constexpr int numbers_of_piece = 12;
inline constexpr int piece_elements = 16384;

}  // namespace thunder
