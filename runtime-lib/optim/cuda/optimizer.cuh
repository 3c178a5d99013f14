// SPDX-License-Identifier: Apache-2.0
// Optimizers and the norm of all gradients, over flat arenas; everything that changes from step to step is read from
// StepScalars, in device memory.
#pragma once

#include "optim/cuda/stepping.h"
#include "optim/interpolate.h"

namespace thunder::bundled {

// What a rule steps: all that its kernel is given.
template <typename P, typename G, typename S, typename C>
struct Stepped {
    Global<P> parameters;
    Global<const G> gradients;
    Global<S> states[rules::most_states];  // as many as the rule has
    Global<C> narrow_copies;               // null: none
};

// N elements from i on, as they are stored.
template <typename Rule, int N, typename P, typename G, typename S, typename C>
THUNDER_FUNCTION void step_elements(std::int64_t i, const Stepped<P, G, S, C>& to, const Rounding& rounding, float clip,
                                    const typename Rule::template Numbers<float>& numbers) {
    constexpr int states = rules::states<Rule>;
    const Vec<P, N> p = load<N>(to.parameters + i);
    const Vec<G, N> g = load<N>(to.gradients + i);
    Vec<S, N> s[rules::most_states] = {};
    THUNDER_UNROLL
    for (int k = 0; k < states; ++k) s[k] = load<N>(to.states[k] + i);
    Vec<float, N> moved{};
    THUNDER_UNROLL
    for (int e = 0; e < N; ++e) {
        float parameter = wide(p[e]), state[rules::most_states] = {};
        THUNDER_UNROLL
        for (int k = 0; k < states; ++k) state[k] = wide(s[k][e]);
        Rule::element(parameter, clip * wide(g[e]), rules::fields_of<Rule::template States, float&>(state), numbers);
        moved[e] = parameter;
        THUNDER_UNROLL
        for (int k = 0; k < states; ++k) s[k][e] = narrow<S>(state[k]);
    }
    const Vec<P, N> stored = rounded_all<P>(moved, rounding, i);
    store(to.parameters + i, stored);
    THUNDER_UNROLL
    for (int k = 0; k < states; ++k) store(to.states[k] + i, s[k]);
    if (!to.narrow_copies) return;
    Vec<C, N> narrow_copy{};
    THUNDER_UNROLL
    for (int e = 0; e < N; ++e) narrow_copy[e] = narrow<C>(wide(stored[e]));
    store(to.narrow_copies + i, narrow_copy);
}

template <typename Rule, typename P, typename G, typename S, typename C>
THUNDER_FUNCTION void step(const Stepped<P, G, S, C>& arenas, Global<const std::int64_t> pieces,
                           Global<const double> rule, Global<const float> clip_factor,
                           Global<const std::uint64_t> of_step) {
    const float clip = clip_factor[0];
    if (is_skipped(clip)) return;
    const Piece piece = take_piece(pieces);
    Stepped<P, G, S, C> to = arenas;
    THUNDER_UNROLL
    for (int k = 0; k < rules::states<Rule>; ++k) to.states[k] = arenas.states[k] + piece.shift[k];
    const Rounding rounding{of_step[0], piece.tensor, piece.first - piece.begin};
    auto numbers = rules::fields_of<Rule::template Numbers, float>(rule + piece.numbers);
    Rule::decay_where(piece.decays, numbers);
    // Accesses of 16 bytes, of the wider ones where types differ.
    constexpr int group = sizeof(P) == 2 && sizeof(G) == 2 && sizeof(S) == 2 ? 8 : 4;
    walk_piece<group>(
        piece, [&](std::int64_t i) { step_elements<Rule, group>(i, to, rounding, clip, numbers); },
        [&](std::int64_t i) { step_elements<Rule, 1>(i, to, rounding, clip, numbers); });
}

// What parameters, gradients and states may be stored as, and narrow copies: X(name, rule, suffix of the kernel's name,
// types of the four). A program has one narrow type, C.
#define BUNDLED_STORED_AS(X, name, Rule, C)                \
    X(name, Rule, f32_f32_f32_##C, float, float, float, C) \
    X(name, Rule, f32_f32_##C, float, float, C, C)         \
    X(name, Rule, f32_##C##_f32, float, C, float, C)       \
    X(name, Rule, f32_##C##_##C, float, C, C, C)           \
    X(name, Rule, C##_f32_f32, C, float, float, C)         \
    X(name, Rule, C##_f32_##C, C, float, C, C)             \
    X(name, Rule, C##_##C##_f32, C, C, float, C)           \
    X(name, Rule, C##_##C##_##C, C, C, C, C)
#define BUNDLED_STORED_TYPES(X, name, Rule) \
    BUNDLED_STORED_AS(X, name, Rule, bf16)  \
    BUNDLED_STORED_AS(X, name, Rule, f16)

// Four blocks on a processor are enough to keep memory busy: told so, the compiler spills no register to have eight.
#define BUNDLED_STEP(name, Rule, suffix, P, G, S, C)                                                               \
    THUNDER_KERNEL(256, 4)                                                                                         \
    bundled_##name##_##suffix(Global<P> parameters, Global<const G> gradients, Global<S> state0, Global<S> state1, \
                              Global<S> state2, Global<C> narrow_copies, Global<const std::int64_t> pieces,        \
                              Global<const double> rule, Global<const float> clip_factor,                          \
                              Global<const std::uint64_t> rounding) {                                              \
        wait_for_previous_kernel();                                                                                \
        step<Rule, P, G, S, C>({parameters, gradients, {state0, state1, state2}, narrow_copies}, pieces, rule,     \
                               clip_factor, rounding);                                                             \
    }
#define BUNDLED_RULE(name, Rule) BUNDLED_STORED_TYPES(BUNDLED_STEP, name, Rule)
THUNDER_ELEMENT_RULES(BUNDLED_RULE)
#undef BUNDLED_RULE
#undef BUNDLED_STEP

// ---- matrices that are stepped as wholes ----

template <typename Rule, typename G, typename S>
THUNDER_FUNCTION void direction(Global<float> x, Global<const G> gradients, Global<S> momentum, const OfMatrix& matrix,
                                Global<const double> rule, Global<const float> clip_factor) {
    const std::int64_t i = element_index();
    if (i >= matrix.elements) return;
    if (is_skipped(clip_factor[0])) {
        x[i] = 0;  // for the products, whose result nobody reads
        return;
    }
    float m = wide(momentum[matrix.begin + i]);
    x[i] = Rule::direction(clip_factor[0] * wide(gradients[matrix.begin + i]), m, numbers_of<Rule>(rule, matrix));
    momentum[matrix.begin + i] = narrow<S>(m);
}
#define BUNDLED_DIRECTION_OF(name, Rule, suffix, G, S)                                                                \
    THUNDER_KERNEL(256)                                                                                               \
    bundled_##name##_direction_##suffix(Global<float> x, Global<const G> gradients, Global<S> momentum,               \
                                        std::int64_t begin, std::int64_t elements, std::int64_t numbers, bool decays, \
                                        Global<const double> rule, Global<const float> clip_factor) {                 \
        wait_for_previous_kernel();                                                                                   \
        direction<Rule, G, S>(x, gradients, momentum, {begin, elements, numbers, decays}, rule, clip_factor);         \
    }

template <typename Rule, typename P, typename C>
THUNDER_FUNCTION void move(Global<P> parameters, Global<C> narrow_copies, Global<const float> x, const OfMatrix& matrix,
                           Global<const double> rule, Global<const float> clip_factor, const Rounding& rounding,
                           float shape, float size) {
    const std::int64_t i = element_index();
    if (i >= matrix.elements || is_skipped(clip_factor[0])) return;
    float p = wide(parameters[matrix.begin + i]);
    Rule::move(p, x[i], numbers_of<Rule>(rule, matrix), shape, size);
    const P stored = rounded<P>(p, rounding, matrix.begin + i);
    parameters[matrix.begin + i] = stored;
    if (narrow_copies) narrow_copies[matrix.begin + i] = narrow<C>(wide(stored));
}
#define BUNDLED_MOVE_OF(name, Rule, P, C)                                                                          \
    THUNDER_KERNEL(256)                                                                                            \
    bundled_##name##_move_##P##_##C(Global<P> parameters, Global<C> narrow_copies, Global<const float> x,          \
                                    std::int64_t begin, std::int64_t elements, std::int64_t numbers, bool decays,  \
                                    Global<const double> rule, Global<const float> clip_factor,                    \
                                    Global<const std::uint64_t> of_step, std::uint64_t tensor, std::int64_t first, \
                                    float shape, float size) {                                                     \
        wait_for_previous_kernel();                                                                                \
        move<Rule, P, C>(parameters, narrow_copies, x, {begin, elements, numbers, decays}, rule, clip_factor,      \
                         {of_step[0], tensor, first - begin}, shape, size);                                        \
    }
#define BUNDLED_MATRIX_RULE_AS(name, Rule, C)           \
    BUNDLED_DIRECTION_OF(name, Rule, f32_##C, float, C) \
    BUNDLED_DIRECTION_OF(name, Rule, C##_f32, C, float) \
    BUNDLED_DIRECTION_OF(name, Rule, C##_##C, C, C)     \
    BUNDLED_MOVE_OF(name, Rule, float, C)               \
    BUNDLED_MOVE_OF(name, Rule, C, C)
#define BUNDLED_MATRIX_RULE(name, Rule)                     \
    BUNDLED_DIRECTION_OF(name, Rule, f32_f32, float, float) \
    BUNDLED_MATRIX_RULE_AS(name, Rule, bf16)                \
    BUNDLED_MATRIX_RULE_AS(name, Rule, f16)
THUNDER_MATRIX_RULES(BUNDLED_MATRIX_RULE)
#undef BUNDLED_MATRIX_RULE
#undef BUNDLED_MATRIX_RULE_AS
#undef BUNDLED_MOVE_OF
#undef BUNDLED_DIRECTION_OF

// x = a x + b y
THUNDER_KERNEL(256)
bundled_combine(Global<float> x, Global<const float> y, float a, float b, std::int64_t elements) {
    wait_for_previous_kernel();
    if (const std::int64_t i = element_index(); i < elements) x[i] = a * x[i] + b * y[i];
}

// The sum of leaves' squares lies behind them as what divides by their norm.
THUNDER_KERNEL(512)
bundled_norm_factor(Global<double> sums, std::int64_t leaves, double least) {
    wait_for_previous_kernel();
    THUNDER_SHARED(double, shared, 16);
    double sum = 0;
    for (std::int64_t i = thread_index(); i < leaves; i += 512) sum += sums[i];
    sum = block_sum<512>(sum, shared);
    const double norm = sqrt(sum);
    if (thread_index() == 0) sums[leaves] = 1 / (norm > least ? norm : least);
}
THUNDER_KERNEL(256)
bundled_scale(Global<float> x, Global<const double> factor, std::int64_t elements) {
    wait_for_previous_kernel();
    if (const std::int64_t i = element_index(); i < elements) x[i] *= static_cast<float>(factor[0]);
}

// A part of the way from averages to parameters.
template <typename P>
THUNDER_FUNCTION void average(Global<float> averages, Global<const P> parameters, Global<const std::int64_t> pieces,
                              float part, Global<const float> part_of_step) {
    if (part_of_step) part = part_of_step[0];
    if (part == 0) return;
    walk_piece<4>(
        take_piece(pieces),
        [&](std::int64_t i) {
            Vec<float, 4> a = load<4>(averages + i);
            const Vec<P, 4> p = load<4>(parameters + i);
            THUNDER_UNROLL
            for (int e = 0; e < 4; ++e) a[e] = interpolate(a[e], wide(p[e]), part);
            store(averages + i, a);
        },
        [&](std::int64_t i) { averages[i] = interpolate(averages[i], wide(parameters[i]), part); });
}
#define BUNDLED_AVERAGE(P)                                                                                     \
    THUNDER_KERNEL(256)                                                                                        \
    bundled_average_##P(Global<float> averages, Global<const P> parameters, Global<const std::int64_t> pieces, \
                        float part, Global<const float> part_of_step) {                                        \
        wait_for_previous_kernel();                                                                            \
        average(averages, parameters, pieces, part, part_of_step);                                             \
    }
THUNDER_FLOAT_TYPES(BUNDLED_AVERAGE)
#undef BUNDLED_AVERAGE

// Sums of squares of leaves of 16 Ki elements: eight squares in float, these in double, then a fixed tree. Squares that
// a float has not are taken in double, where the sum is finite unless an element is not.
template <typename G>
THUNDER_FUNCTION void squares(Global<double> sums, Global<const G> gradients, std::int64_t elements) {
    THUNDER_SHARED(double, shared, 8);
    constexpr std::int64_t leaf = 16384;
    const std::int64_t begin = block_index() * leaf;
    const std::int64_t end = begin + leaf < elements ? begin + leaf : elements;
    double sum = 0;
    for (std::int64_t i = begin + thread_index() * 8; i < end; i += 256 * 8) {
        float some = 0;
        const std::int64_t last = i + 8 < end ? i + 8 : end;
        if (i + 8 <= end) {
            const Vec<G, 8> g = load<8>(gradients + i);
            THUNDER_UNROLL
            for (int k = 0; k < 8; ++k) some += wide(g[k]) * wide(g[k]);
        } else {
            for (std::int64_t k = i; k < end; ++k) some += wide(gradients[k]) * wide(gradients[k]);
        }
        double eight = static_cast<double>(some);
        if (some - some != 0) {
            eight = 0;
            for (std::int64_t k = i; k < last; ++k)
                eight += static_cast<double>(wide(gradients[k])) * static_cast<double>(wide(gradients[k]));
        }
        sum += eight;
    }
    sum = block_sum<256>(sum, shared);
    if (thread_index() == 0) sums[block_index()] = sum;
}
#define BUNDLED_SQUARES(G)                                                                       \
    THUNDER_KERNEL(256)                                                                          \
    bundled_squares_##G(Global<double> sums, Global<const G> gradients, std::int64_t elements) { \
        wait_for_previous_kernel();                                                              \
        squares(sums, gradients, elements);                                                      \
    }
THUNDER_FLOAT_TYPES(BUNDLED_SQUARES)
#undef BUNDLED_SQUARES

// What clipping_of() makes of the sum of leaves.
THUNDER_KERNEL(512)
bundled_clip_factor(Global<float> grad_norm, Global<float> clip_factor, Global<const double> max_norm,
                    Global<const float> loss_scale, Global<const double> limit, Global<const float> loss,
                    Global<const double> sums, std::int64_t leaves) {
    wait_for_previous_kernel();
    THUNDER_SHARED(double, shared, 16);
    double sum = 0;
    for (std::int64_t i = thread_index(); i < leaves; i += 512) sum += sums[i];
    sum = block_sum<512>(sum, shared);
    if (thread_index() != 0) return;
    const Clipping clipping = clipping_of(sum, max_norm[0], loss_scale[0], limit[0], loss[0]);
    grad_norm[0] = clipping.grad_norm;
    clip_factor[0] = clipping.clip_factor;
}

THUNDER_KERNEL(32)
bundled_seed_loss(Global<float> dloss, Global<const float> loss_weight) {
    wait_for_previous_kernel();
    if (thread_index() == 0) dloss[0] = 1.0F / loss_weight[0];
}

// `behind`: where the numbers of groups begin, from those of the run on.
THUNDER_KERNEL(256)
bundled_scale_loss(Global<float> dloss, Global<float> loss_scale, Global<double> rule, Global<const float> scale,
                   Global<const std::int32_t> last_skipped, Global<const double> numbers_after_skip,
                   std::int64_t groups, std::int64_t behind) {
    wait_for_previous_kernel();
    if (thread_index() == 0) {
        loss_scale[0] = scale[0];
        dloss[0] *= scale[0];
    }
    if (last_skipped[0] == 0) return;
    for (std::int64_t i = thread_index(); i < (1 + groups) * rules::most_numbers; i += 256)
        rule[i < rules::most_numbers ? i : behind + i - rules::most_numbers] = numbers_after_skip[i];
}

THUNDER_KERNEL(32)
bundled_next_loss_scale(Global<const float> clip_factor, Global<const float> grad_norm, Global<float> scale,
                        Global<std::int32_t> good, Global<std::int64_t> skipped, Global<std::int32_t> last_skipped,
                        Global<std::int32_t> averages, Global<float> average_part, std::int64_t interval,
                        float usual_part) {
    wait_for_previous_kernel();
    if (thread_index() != 0) return;
    const bool skips = is_skipped(clip_factor[0]);
    const Scale next = scale_after({scale[0], good[0]}, skips, grad_norm[0], interval);
    scale[0] = next.scale;
    good[0] = next.good;
    skipped[0] += skips ? 1 : 0;
    last_skipped[0] = skips ? 1 : 0;
    average_part[0] = skips ? 0.0F : averages[0] == 0 ? 1.0F : usual_part;
    if (!skips) averages[0] = 1;
}

}  // namespace thunder::bundled
