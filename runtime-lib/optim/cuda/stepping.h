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

// Calls body(i) for the elements of a piece in groups of N, which begin at multiples of N, then one by one.
template <int N, typename Group, typename One>
THUNDER_FUNCTION void walk_piece(const Piece& piece, Group&& group, One&& one) {
    const std::int64_t next = (piece.begin + N - 1) / N * N, aligned = next < piece.end ? next : piece.end;
    const std::int64_t groups = (piece.end - aligned) / N;
    for (std::int64_t g = thread_index(); g < groups; g += 256) group(aligned + g * N);
    for (std::int64_t i = piece.begin + thread_index(); i < aligned; i += 256) one(i);
    for (std::int64_t i = aligned + groups * N + thread_index(); i < piece.end; i += 256) one(i);
}

// How the parameters of a piece are rounded: of_step is StepScalars::rounding.
struct Rounding {
    std::uint64_t of_step, tensor;
    std::int64_t first;  // element 0 of the arena would be this one of the tensor
};
// Of bf16 alone.
template <typename P>
inline constexpr bool rounds_at_random = false;
template <>
inline constexpr bool rounds_at_random<bf16> = true;

// What parameter i of the arena is stored as.
template <typename P>
THUNDER_FUNCTION P rounded(float x, const Rounding&, std::int64_t) {
    return narrow<P>(x);
}
THUNDER_FUNCTION bf16 rounded_by(std::uint32_t random, float x) {
    std::uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return bf16{rounded_at_random(bits, random)};
}
template <>
THUNDER_FUNCTION bf16 rounded<bf16>(float x, const Rounding& r, std::int64_t i) {
    if (r.of_step == 0) return narrow<bf16>(x);
    return rounded_by(rounding_bits(r.of_step, r.tensor, static_cast<std::uint64_t>(r.first + i)), x);
}

// The same of parameters i to i + N - 1: elements that share a word of bits have it made once.
template <typename P, int N>
THUNDER_FUNCTION Vec<P, N> rounded_all(const Vec<float, N>& x, const Rounding& r, std::int64_t i) {
    Vec<P, N> out{};
    const auto first = static_cast<std::uint64_t>(r.first + i);
    if constexpr (rounds_at_random<P> && N % elements_of_word == 0) {
        if (r.of_step != 0 && first % elements_of_word == 0) {  // as almost all parameters lie
            THUNDER_UNROLL
            for (int e = 0; e < N; e += elements_of_word) {
                const std::uint64_t word = rounding_word(r.of_step, r.tensor, first + e);
                THUNDER_UNROLL
                for (int k = 0; k < elements_of_word; ++k) out[e + k] = rounded_by(bits_of_word(word, k), x[e + k]);
            }
            return out;
        }
    }
    THUNDER_UNROLL
    for (int e = 0; e < N; ++e) out[e] = rounded<P>(x[e], r, i + e);
    return out;
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
