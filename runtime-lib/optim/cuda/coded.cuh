// SPDX-License-Identifier: Apache-2.0
// Optimizers' steps where states are codes of 8 bits with a scale for each block (optim/rules/codes.h): a block of
// threads takes block after block of a piece, a thread an element of each.
#pragma once

#include "optim/cuda/stepping.h"
#include "optim/rules/codes.h"

namespace thunder::bundled {

static_assert(rules::block_elements == 256, "as many threads");

// Of the element `further` of a piece, in its block; 0 where there is none.
template <bool signs>
THUNDER_FUNCTION float read_state(Aliased<const std::uint8_t> codes, Aliased<const float> scales, std::int64_t further,
                                  bool there) {
    if (!there) return 0;
    return scales[further / rules::block_elements] * rules::number_of_code<signs>(codes[further]);
}
// By all threads of the block. Where one of their numbers is not finite, the scale is none.
template <bool signs>
THUNDER_FUNCTION void write_state(float number, Aliased<std::uint8_t> codes, Aliased<float> scales,
                                  std::int64_t further, bool there) {
    THUNDER_SHARED(float, shared, 8);
    const float largest = block_max<256>(math::abs(number), shared);
    if (thread_index() == 0) scales[further / rules::block_elements] = largest + 0 * largest;
    if (there)
        codes[further] = static_cast<std::uint8_t>(rules::code_of_number<signs>(number * rules::scaling(largest)));
}

template <typename Rule, typename P, typename G, typename C, int... k>
THUNDER_FUNCTION void step_coded(Global<P> parameters, Global<const G> gradients,
                                 [[maybe_unused]] Aliased<std::uint8_t> codes, [[maybe_unused]] Aliased<float> scales,
                                 Global<C> narrow_copies, Global<const std::int64_t> pieces, Global<const double> rule,
                                 Global<const float> clip_factor, Global<const std::uint64_t> of_step,
                                 rules::Indices<k...>) {
    const float clip = clip_factor[0];
    if (is_skipped(clip)) return;
    const Piece piece = take_piece(pieces);
    const Rounding rounding{of_step[0], piece.tensor, piece.first - piece.begin};
    auto numbers = rules::fields_of<Rule::template Numbers, float>(rule + piece.numbers);
    Rule::decay_where(piece.decays, numbers);
    for (std::int64_t begin = piece.begin; begin < piece.end; begin += rules::block_elements) {
        const std::int64_t i = begin + thread_index();
        [[maybe_unused]] const std::int64_t further = i - piece.begin;
        const bool there = i < piece.end;
        [[maybe_unused]] float state[] = {read_state<rules::state_has_sign<Rule, k>()>(
                                              codes + piece.shift[k], scales + piece.scales[k], further, there)...,
                                          0};
        barrier();  // all have read the scales
        if (there) {
            float parameter = wide(parameters[i]);
            Rule::element(parameter, clip * wide(gradients[i]), typename Rule::template States<float&>{state[k]...},
                          numbers);
            const P stored = rounded<P>(parameter, rounding, i);
            parameters[i] = stored;
            if (narrow_copies) narrow_copies[i] = narrow<C>(wide(stored));
        }
        (write_state<rules::state_has_sign<Rule, k>()>(state[k], codes + piece.shift[k], scales + piece.scales[k],
                                                       further, there),
         ...);
    }
}

// What parameters, gradients and narrow copies may be stored as: X(name, rule, suffix, types of the three).
#define BUNDLED_CODED_AS(X, name, Rule, C)      \
    X(name, Rule, f32_f32_##C, float, float, C) \
    X(name, Rule, f32_##C##_##C, float, C, C)   \
    X(name, Rule, C##_f32_##C, C, float, C)     \
    X(name, Rule, C##_##C##_##C, C, C, C)
#define BUNDLED_CODED_TYPES(X, name, Rule) \
    BUNDLED_CODED_AS(X, name, Rule, bf16)  \
    BUNDLED_CODED_AS(X, name, Rule, f16)

#define BUNDLED_CODED(name, Rule, suffix, P, G, C)                                                                     \
    THUNDER_KERNEL(256)                                                                                                \
    bundled_##name##_coded_##suffix(Global<P> parameters, Global<const G> gradients, Aliased<std::uint8_t> codes,      \
                                    Aliased<float> scales, Global<C> narrow_copies, Global<const std::int64_t> pieces, \
                                    Global<const double> rule, Global<const float> clip_factor,                        \
                                    Global<const std::uint64_t> rounding) {                                            \
        wait_for_previous_kernel();                                                                                    \
        step_coded<Rule, P, G, C>(parameters, gradients, codes, scales, narrow_copies, pieces, rule, clip_factor,      \
                                  rounding, typename rules::IndicesBelow<rules::states<Rule>>::type());                \
    }
#define BUNDLED_CODED_RULE(name, Rule) BUNDLED_CODED_TYPES(BUNDLED_CODED, name, Rule)
THUNDER_ELEMENT_RULES(BUNDLED_CODED_RULE)
#undef BUNDLED_CODED_RULE
#undef BUNDLED_CODED

}  // namespace thunder::bundled
