// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding of parameters that are held in bf16: what was computed goes to one of the two numbers beside it,
// the nearer the likelier, so that on average a step moves a parameter by what it is. To the nearest, steps of less
// than half a unit in the last place (1/256 to 1/512 of the parameter) would move nothing. Gupta, Agrawal,
// Gopalakrishnan and Narayanan, "Deep learning with limited numerical precision" (ICML 2015).
//
// What decides follows from the seed, the step, the tensor's name and the element's place in it alone: it is the same
// on every device, with any number of ranks and threads.
#pragma once

#include <cstdint>

#include "support/mix_bits.h"

namespace thunder {

// What decides in a step; never 0, which is to round to the nearest.
THUNDER_HOST_DEVICE constexpr std::uint64_t rounding_of_step(std::uint64_t seed, std::int64_t step) {
    return mix_bits(mix_bits(seed) ^ static_cast<std::uint64_t>(step)) | 1;
}

// The 64 bits that four elements share, from one that 4 divides on; and the 16 of an element, of which any are as
// likely.
inline constexpr int elements_of_word = 4;
THUNDER_HOST_DEVICE constexpr std::uint64_t rounding_word(std::uint64_t of_step, std::uint64_t tensor,
                                                          std::uint64_t element) {
    return mix_bits((of_step ^ tensor) + element / elements_of_word);
}
THUNDER_HOST_DEVICE constexpr std::uint32_t bits_of_word(std::uint64_t word, std::uint64_t element) {
    return static_cast<std::uint32_t>(word >> (element % elements_of_word * 16)) & 0xFFFF;
}
THUNDER_HOST_DEVICE constexpr std::uint32_t rounding_bits(std::uint64_t of_step, std::uint64_t tensor,
                                                          std::uint64_t element) {
    return bits_of_word(rounding_word(of_step, tensor, element), element);
}

// The bits of an f32 to those of a bf16. What is cut off, of 2^16, is how likely the larger one of the two is. Infinity
// and NaN stay what they are.
THUNDER_HOST_DEVICE constexpr std::uint16_t rounded_at_random(std::uint32_t f32, std::uint32_t random) {
    const bool finite = (f32 & 0x7F800000) != 0x7F800000, nan = !finite && (f32 & 0x007FFFFF) != 0;
    return static_cast<std::uint16_t>(((finite ? f32 + random : f32) >> 16) | (nan ? 0x40 : 0));
}

}  // namespace thunder
