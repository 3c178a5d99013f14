// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// Adam whose weight decay does not pass through the moments.
struct AdamW : DecoupledDecay {
    static constexpr const char *name = "adamw", *title = "AdamW";
    static constexpr const char* formula =
        "g = clip_factor gradient; p (1 - learning_rate weight_decay) where it decays; m = m + (1 - beta1) (g - m); "
        "v = beta2 v + (1 - beta2) g g; p - learning_rate / (1 - beta1^step) m / (sqrt(v) / sqrt(1 - beta2^step) + "
        "eps)";
    static constexpr const char* source =
        "torch.optim.AdamW; Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019";

    THUNDER_FIELDS(States, first_moment, second_moment);
    static constexpr const char* stored_states = "m, v";
    static constexpr bool never_negative[] = {false, true};

    THUNDER_FIELDS(Options, beta1, beta2, eps);
    static constexpr Option options[] = {{0.9, Range::fraction, "AdamW's decay of the first moment"},
                                         {0.95, Range::fraction, "AdamW's decay of the second moment"},
                                         {1e-8, Range::not_negative, "AdamW's epsilon"}};

    THUNDER_FIELDS(Numbers, one_minus_beta1, beta2, one_minus_beta2, step_size, bias_correction2_sqrt, eps, kept);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        return {.one_minus_beta1 = 1 - o.beta1,
                .beta2 = o.beta2,
                .one_minus_beta2 = 1 - o.beta2,
                .step_size = step.learning_rate / (1 - pow(o.beta1, step.number)),
                .bias_correction2_sqrt = sqrt(1 - pow(o.beta2, step.number)),
                .eps = o.eps,
                .kept = 1 - step.learning_rate * step.weight_decay};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& m = s.first_moment;
        T& v = s.second_moment;
        m = m + n.one_minus_beta1 * (g - m);
        v = n.beta2 * v + n.one_minus_beta2 * g * g;
        p = n.kept * p - n.step_size * (m / (root(v) / n.bias_correction2_sqrt + n.eps));
    }
};

}  // namespace thunder::rules
