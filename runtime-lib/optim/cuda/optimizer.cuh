// Optimizers and the norm of all gradients, over flat arenas; everything that changes from step to step is read from
// StepScalars, in device memory.
#pragma once

#include "device/cuda/kernels/bundled.h"
#include "optim/cuda/piece.h"

namespace thunder::bundled {

// StepScalars begins with numbers in double, in this order.
inline constexpr int at_learning_rate = 0, at_beta1 = 1, at_beta2 = 2, at_eps = 3, at_weight_decay = 4, at_momentum = 5,
                     at_bias_correction1 = 6, at_bias_correction2_sqrt = 7, at_max_grad_norm = 8;

struct Piece {
    std::int64_t begin, end;
    bool decays;
};
// The piece of this block.
THUNDER_FUNCTION Piece take_piece(Global<const std::int64_t> pieces) {
    const std::int64_t at = std::int64_t{block_index()} * numbers_of_piece;
    return {pieces[at], pieces[at + 1], pieces[at + 2] != 0};
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

struct AdamWStep {
    float clip, rest1, beta2, rest2, step_size, correction, eps, keep;
};

// torch.optim.AdamW on g = clip * gradient, as in optim/adamw.h.
THUNDER_FUNCTION void adamw_element(float& p, float& m, float& v, float gradient, const AdamWStep& s) {
    const float g = s.clip * gradient;
    m = m + s.rest1 * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    p = s.keep * p - s.step_size * (m / (math::sqrt(v) / s.correction + s.eps));
}

// N elements from i on, as they are stored.
template <int N, typename P, typename G, typename S>
THUNDER_FUNCTION void adamw_elements(std::int64_t i, Global<P> parameters, Global<const G> gradients, Global<S> first,
                                     Global<S> second, Global<bf16> shadows, const AdamWStep& step) {
    Vec<P, N> p = load<N>(parameters + i);
    const Vec<G, N> g = load<N>(gradients + i);
    Vec<S, N> m = load<N>(first + i), v = load<N>(second + i);
    Vec<bf16, N> shadow{};
    THUNDER_UNROLL
    for (int k = 0; k < N; ++k) {
        float parameter = wide(p[k]), moment1 = wide(m[k]), moment2 = wide(v[k]);
        adamw_element(parameter, moment1, moment2, wide(g[k]), step);
        p[k] = narrow<P>(parameter);
        m[k] = narrow<S>(moment1);
        v[k] = narrow<S>(moment2);
        shadow[k] = narrow<bf16>(wide(p[k]));
    }
    store(parameters + i, p);
    store(first + i, m);
    store(second + i, v);
    if (shadows) store(shadows + i, shadow);
}

template <typename P, typename G, typename S>
THUNDER_FUNCTION void adamw(Global<P> parameters, Global<const G> gradients, Global<S> first, Global<S> second,
                            Global<bf16> shadows, Global<const std::int64_t> pieces, Global<const double> s,
                            Global<const float> clip_factor) {
    const Piece piece = take_piece(pieces);
    const AdamWStep step{clip_factor[0],
                         static_cast<float>(1.0 - s[at_beta1]),
                         static_cast<float>(s[at_beta2]),
                         static_cast<float>(1.0 - s[at_beta2]),
                         static_cast<float>(s[at_learning_rate] / s[at_bias_correction1]),
                         static_cast<float>(s[at_bias_correction2_sqrt]),
                         static_cast<float>(s[at_eps]),
                         piece.decays ? static_cast<float>(1.0 - s[at_learning_rate] * s[at_weight_decay]) : 1.0F};
    walk_piece(
        piece,
        [&](std::int64_t i) { adamw_elements<4, P, G, S>(i, parameters, gradients, first, second, shadows, step); },
        [&](std::int64_t i) { adamw_elements<1, P, G, S>(i, parameters, gradients, first, second, shadows, step); });
}

struct SgdStep {
    float clip, rate, keep, decay;
};

// torch.optim.SGD on g = clip * gradient + decay * p, as in optim/sgd.h; momentum: null for none.
template <int N, typename P, typename G, typename S>
THUNDER_FUNCTION void sgd_elements(std::int64_t i, Global<P> parameters, Global<const G> gradients, Global<S> momentum,
                                   Global<bf16> shadows, const SgdStep& s) {
    Vec<P, N> p = load<N>(parameters + i);
    const Vec<G, N> g = load<N>(gradients + i);
    Vec<S, N> b{};
    if (momentum) b = load<N>(momentum + i);
    Vec<bf16, N> shadow{};
    THUNDER_UNROLL
    for (int k = 0; k < N; ++k) {
        const float parameter = wide(p[k]);
        float step = s.clip * wide(g[k]) + s.decay * parameter;
        if (momentum) {
            step = s.keep * wide(b[k]) + step;
            b[k] = narrow<S>(step);
        }
        p[k] = narrow<P>(parameter - s.rate * step);
        shadow[k] = narrow<bf16>(wide(p[k]));
    }
    store(parameters + i, p);
    if (momentum) store(momentum + i, b);
    if (shadows) store(shadows + i, shadow);
}

template <typename P, typename G, typename S>
THUNDER_FUNCTION void sgd(Global<P> parameters, Global<const G> gradients, Global<S> momentum, Global<bf16> shadows,
                          Global<const std::int64_t> pieces, Global<const double> s, Global<const float> clip_factor) {
    const Piece piece = take_piece(pieces);
    const SgdStep step{clip_factor[0], static_cast<float>(s[at_learning_rate]), static_cast<float>(s[at_momentum]),
                       piece.decays ? static_cast<float>(s[at_weight_decay]) : 0.0F};
    walk_piece(
        piece, [&](std::int64_t i) { sgd_elements<4, P, G, S>(i, parameters, gradients, momentum, shadows, step); },
        [&](std::int64_t i) { sgd_elements<1, P, G, S>(i, parameters, gradients, momentum, shadows, step); });
}

// What parameters, gradients and states may be stored as: X(suffix of the kernel's name, types of the three).
#define BUNDLED_STORED_TYPES(X)         \
    X(f32_f32_f32, float, float, float) \
    X(f32_f32_bf16, float, float, bf16) \
    X(f32_bf16_f32, float, bf16, float) \
    X(f32_bf16_bf16, float, bf16, bf16) \
    X(bf16_f32_f32, bf16, float, float) \
    X(bf16_f32_bf16, bf16, float, bf16) \
    X(bf16_bf16_f32, bf16, bf16, float) \
    X(bf16_bf16_bf16, bf16, bf16, bf16)

#define BUNDLED_OPTIMIZERS(suffix, P, G, S)                                                                            \
    THUNDER_KERNEL(256)                                                                                                \
    bundled_adamw_##suffix(Global<P> parameters, Global<const G> gradients, Global<S> first, Global<S> second,         \
                           Global<bf16> shadows, Global<const std::int64_t> pieces, Global<const double> s,            \
                           Global<const float> clip_factor) {                                                          \
        adamw<P, G, S>(parameters, gradients, first, second, shadows, pieces, s, clip_factor);                         \
    }                                                                                                                  \
    THUNDER_KERNEL(256)                                                                                                \
    bundled_sgd_##suffix(Global<P> parameters, Global<const G> gradients, Global<S> momentum, Global<bf16> shadows,    \
                         Global<const std::int64_t> pieces, Global<const double> s, Global<const float> clip_factor) { \
        sgd<P, G, S>(parameters, gradients, momentum, shadows, pieces, s, clip_factor);                                \
    }
BUNDLED_STORED_TYPES(BUNDLED_OPTIMIZERS)
#undef BUNDLED_OPTIMIZERS

// Sums of squares of leaves of 16 Ki elements: eight squares in float, these in double, then a fixed tree.
template <typename G>
THUNDER_FUNCTION void squares(Global<double> sums, Global<const G> gradients, std::int64_t elements) {
    THUNDER_SHARED(double, shared, 8);
    constexpr std::int64_t leaf = 16384;
    const std::int64_t begin = block_index() * leaf;
    const std::int64_t end = begin + leaf < elements ? begin + leaf : elements;
    double sum = 0;
    for (std::int64_t i = begin + thread_index() * 8; i < end; i += 256 * 8) {
        float some = 0;
        if (i + 8 <= end) {
            const Vec<G, 8> g = load<8>(gradients + i);
            THUNDER_UNROLL
            for (int k = 0; k < 8; ++k) some += wide(g[k]) * wide(g[k]);
        } else {
            for (std::int64_t k = i; k < end; ++k) some += wide(gradients[k]) * wide(gradients[k]);
        }
        sum += static_cast<double>(some);
    }
    sum = block_sum<256>(sum, shared);
    if (thread_index() == 0) sums[block_index()] = sum;
}
THUNDER_KERNEL(256)
bundled_squares_f32(Global<double> sums, Global<const float> gradients, std::int64_t elements) {
    squares(sums, gradients, elements);
}
THUNDER_KERNEL(256)
bundled_squares_bf16(Global<double> sums, Global<const bf16> gradients, std::int64_t elements) {
    squares(sums, gradients, elements);
}

// grad_norm = sqrt(sum of leaves); clip_factor = min(1, max_norm / (grad_norm + 1e-6)), 1 where max_norm is 0.
THUNDER_KERNEL(512)
bundled_clip_factor(Global<float> grad_norm, Global<float> clip_factor, Global<const double> max_norm,
                    Global<const double> sums, std::int64_t leaves) {
    THUNDER_SHARED(double, shared, 16);
    double sum = 0;
    for (std::int64_t i = thread_index(); i < leaves; i += 512) sum += sums[i];
    sum = block_sum<512>(sum, shared);
    if (thread_index() != 0) return;
    const double norm = sqrt(sum), most = max_norm[0], factor = most / (norm + 1e-6);
    grad_norm[0] = static_cast<float>(norm);
    clip_factor[0] = most > 0 ? static_cast<float>(factor > 1.0 ? 1.0 : factor) : 1.0F;
}

THUNDER_KERNEL(32)
bundled_begin_micro_step(Global<bool> first_micro_step, bool first) {
    if (thread_index() == 0) first_micro_step[0] = first;
}

THUNDER_KERNEL(32)
bundled_seed_loss(Global<float> dloss, Global<const float> loss_weight) {
    if (thread_index() == 0) dloss[0] = 1.0F / loss_weight[0];
}

}  // namespace thunder::bundled
