// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// RMSprop, neither centered nor with momentum.
struct RmsProp : CoupledDecay {
    static constexpr const char *name = "rmsprop", *title = "RMSprop";
    static constexpr const char* formula =
        "g = clip_factor gradient + weight_decay p where it decays; v = alpha v + (1 - alpha) g g; "
        "p - learning_rate g / (sqrt(v) + eps)";
    static constexpr const char* source = "torch.optim.RMSprop with momentum = 0 and centered = False";

    THUNDER_FIELDS(States, square_average);
    static constexpr const char* stored_states = names_of_States;
    static constexpr bool never_negative[] = {true};

    THUNDER_FIELDS(Options, alpha, eps);
    static constexpr Option options[] = {{0.99, Range::fraction, "RMSprop's decay of the average of squares"},
                                         {1e-8, Range::not_negative, "RMSprop's epsilon"}};

    THUNDER_FIELDS(Numbers, learning_rate, alpha, one_minus_alpha, eps, weight_decay);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        return {.learning_rate = step.learning_rate,
                .alpha = o.alpha,
                .one_minus_alpha = 1 - o.alpha,
                .eps = o.eps,
                .weight_decay = step.weight_decay};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& v = s.square_average;
        g = g + n.weight_decay * p;
        v = n.alpha * v + n.one_minus_alpha * g * g;
        p = p - n.learning_rate * (g / (root(v) + n.eps));
    }
};

}  // namespace thunder::rules
