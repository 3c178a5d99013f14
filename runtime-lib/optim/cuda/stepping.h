// SPDX-License-Identifier: Apache-2.0
// What kernels that step parameters share: pieces of segments, numbers of tensors, and how parameters are rounded.
#pragma once

#include "device/cuda/kernels/bundled.h"
#include "optim/clipping.h"
#include "optim/cuda/piece.h"
#include "optim/rounding.h"
#include "optim/rules/list.h"

namespace thunder::bundled {

struct Piece {
    std::int64_t begin, end;
    bool decays;
    std::int64_t numbers;  // where those of its group begin, behind those of the run
    std::uint64_t tensor;
    std::int64_t first;                       // of the tensor's elements
    std::int64_t shift[rules::most_states];   // of states that are codes, where these lie, in bytes
    std::int64_t scales[rules::most_states];  // and where their scales do, in floats
};
// The piece of this block.
THUNDER_FUNCTION Piece take_piece(Global<const std::int64_t> pieces) {
    const std::int64_t at = std::int64_t{block_index()} * numbers_of_piece;
    return {pieces[at],
            pieces[at + 1],
            pieces[at + 2] != 0,
            pieces[at + 3],
            static_cast<std::uint64_t>(pieces[at + 4]),
            pieces[at + 5],
            {pieces[at + 6], pieces[at + 7], pieces[at + 8]},
            {pieces[at + 9], pieces[at + 10], pieces[at + 11]}};
}

// Calls body(i) for the elements of a piece in groups of 4, aligned to 16 bytes, then one by one.
template <typename Four, typename One>
THUNDER_FUNCTION void walk_piece(const Piece& piece, Four&& four, One&& one) {
    const std::int64_t aligned = (piece.begin + 3) / 4 * 4 < piece.end ? (piece.begin + 3) / 4 * 4 : piece.end;
    const std::int64_t groups = (piece.end - aligned) / 4;
    for (std::int64_t g = thread_index(); g < groups; g += 256) four(aligned + g * 4);
    for (std::int64_t i = piece.begin + thread_index(); i < aligned; i += 256) one(i);
    for (std::int64_t i = aligned + groups * 4 + thread_index(); i < piece.end; i += 256) one(i);
}

// How the parameters of a piece are rounded: of_step is StepScalars::rounding.
struct Rounding {
    std::uint64_t of_step, tensor;
    std::int64_t first;  // element 0 of the arena would be this one of the tensor
};
template <typename P>
THUNDER_FUNCTION P rounded(float x, const Rounding&, std::int64_t) {
    return narrow<P>(x);
}
template <>
THUNDER_FUNCTION bf16 rounded<bf16>(float x, const Rounding& r, std::int64_t i) {
    if (r.of_step == 0) return narrow<bf16>(x);
    const std::uint32_t random = rounding_bits(r.of_step, r.tensor, static_cast<std::uint64_t>(r.first + i));
    std::uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bf16{rounded_at_random(bits, random)};
}

// The numbers of a matrix, and its elements in the arenas.
struct OfMatrix {
    std::int64_t begin, elements, numbers;
    bool decays;
};
template <typename Rule>
THUNDER_FUNCTION auto numbers_of(Global<const double> rule, const OfMatrix& matrix) {
    auto numbers = rules::fields_of<Rule::template Numbers, float>(rule + matrix.numbers);
    Rule::decay_where(matrix.decays, numbers);
    return numbers;
}
// Of a grid with a thread for each element; `elements` where there is none.
THUNDER_FUNCTION std::int64_t element_index() {
    return std::int64_t{block_index()} * 256 + thread_index();
}

}  // namespace thunder::bundled
