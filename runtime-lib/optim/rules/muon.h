// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// Hidden matrices move by a matrix near the orthogonal one that is nearest to their momentum; all else is stepped as by
// AdamW.
struct Muon : DecoupledDecay {
    static constexpr const char *name = "muon", *title = "Muon";
    static constexpr const char* formula =
        "of a hidden matrix of R x C: g = clip_factor gradient; p (1 - learning_rate weight_decay) where it decays; "
        "m = m + (1 - momentum) (g - m); u = g + momentum (m - g), or m; x = u / max(|u|, 1e-7); five times "
        "x = 3.4445 x + (-4.775 x xT + 2.0315 (x xT)^2) x, xT x where R > C; p - learning_rate sqrt(max(1, R / C)) x, "
        "or 0.2 sqrt(max(R, C)) for the root. Of all else: AdamW's";
    static constexpr const char* source =
        "torch.optim.Muon; Jordan and others, Muon: An optimizer for hidden layers in neural networks, 2024; Liu and "
        "others, Muon is scalable for LLM training, 2025";

    THUNDER_FIELDS(States, first_moment, second_moment);
    static constexpr const char* stored_states = "m, v";
    static constexpr StateShape shapes_of_matrices[] = {StateShape::as_parameter, StateShape::none};

    static constexpr const char* by_element = "adamw";
    THUNDER_FIELDS(Options, momentum, plain_momentum, match_rms_adamw, adamw, beta1, beta2, eps);
    static constexpr Option options[] = {
        {0.95, Range::fraction, "Muon's decay of the momentum of matrices"},
        {0, Range::flag, "Muon without Nesterov's look ahead"},
        {0, Range::flag, "Muon's steps of a size that AdamW's learning rates fit: 0.2 sqrt(max(R, C)) of the rate"},
        {0, Range::flag, "step matrices as by AdamW too; of groups: --group 'head:adamw=1' (0: by Muon)"},
        {0.9, Range::fraction, "AdamW's decay of the first moment, of what is no hidden matrix"},
        {0.95, Range::fraction, "AdamW's decay of the second moment"},
        {1e-8, Range::not_negative, "AdamW's epsilon"}};

    THUNDER_FIELDS(Numbers, one_minus_beta1, beta2, one_minus_beta2, step_size, bias_correction2_sqrt, eps, kept,
                   one_minus_momentum, look_ahead, rate_by_shape, rate_by_size);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        return {.one_minus_beta1 = 1 - o.beta1,
                .beta2 = o.beta2,
                .one_minus_beta2 = 1 - o.beta2,
                .step_size = step.learning_rate / (1 - pow(o.beta1, step.number)),
                .bias_correction2_sqrt = sqrt(1 - pow(o.beta2, step.number)),
                .eps = o.eps,
                .kept = 1 - step.learning_rate * step.weight_decay,
                .one_minus_momentum = 1 - o.momentum,
                .look_ahead = o.plain_momentum != 0 ? 1 : o.momentum,
                .rate_by_shape = o.match_rms_adamw != 0 ? 0 : step.learning_rate,
                .rate_by_size = o.match_rms_adamw != 0 ? step.learning_rate : 0};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& m = s.first_moment;
        T& v = s.second_moment;
        m = m + n.one_minus_beta1 * (g - m);
        v = n.beta2 * v + n.one_minus_beta2 * g * g;
        p = n.kept * p - n.step_size * (m / (root(v) / n.bias_correction2_sqrt + n.eps));
    }

    // ---- whole matrices: of X, which +, - and products with numbers N take element by element
    template <typename X, typename N>
    THUNDER_RULE X direction(X g, X& m, const Numbers<N>& n) {
        m = m + n.one_minus_momentum * (g - m);
        return g + n.look_ahead * (m - g);
    }
    static constexpr double least_norm = 1e-7, linear = 3.4445, cubic = -4.775, quintic = 2.0315;
    static constexpr int iterations = 5;
    // What a rate is multiplied with for a matrix of this shape.
    THUNDER_RULE double by_shape(double rows, double columns) { return rows > columns ? sqrt(rows / columns) : 1; }
    THUNDER_RULE double by_size(double rows, double columns) { return 0.2 * sqrt(rows > columns ? rows : columns); }
    template <typename X, typename N>
    THUNDER_RULE void move(X& p, X x, const Numbers<N>& n, N shape, N size) {
        p = n.kept * p - (n.rate_by_shape * shape + n.rate_by_size * size) * x;
    }

#ifndef __CUDACC_RTC__
    // All of it, where X has product(), transposed() and norm() as well.
    template <typename X, typename N>
    static void matrix(X& p, const X& g, States<X&> s, const Numbers<N>& n, double rows, double columns) {
        X x = direction(g, s.first_moment, n);
        x = x / at_least(norm(x), N(least_norm));
        const bool tall = rows > columns;
        for (int k = 0; k < iterations; ++k) {
            const X gram = tall ? product(transposed(x), x) : product(x, transposed(x));
            const X inner = N(cubic) * gram + N(quintic) * product(gram, gram);
            x = N(linear) * x + (tall ? product(x, inner) : product(inner, x));
        }
        move(p, x, n, N(by_shape(rows, columns)), N(by_size(rows, columns)));
    }
#endif
};

}  // namespace thunder::rules
