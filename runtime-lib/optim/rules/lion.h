// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// Each element moves by the learning rate, in the direction that gradients have had of late.
struct Lion : DecoupledDecay {
    static constexpr const char *name = "lion", *title = "Lion";
    static constexpr const char* formula =
        "g = clip_factor gradient; p (1 - learning_rate weight_decay) where it decays; "
        "p - learning_rate sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g";
    static constexpr const char* source = "Chen and others, Symbolic Discovery of Optimization Algorithms, 2023";

    THUNDER_FIELDS(States, momentum);
    static constexpr const char* stored_states = names_of_States;

    THUNDER_FIELDS(Options, beta1, beta2);
    static constexpr Option options[] = {{0.9, Range::fraction, "Lion's part of the momentum in a step's direction"},
                                         {0.99, Range::fraction, "Lion's decay of the momentum"}};

    THUNDER_FIELDS(Numbers, learning_rate, beta1, one_minus_beta1, beta2, one_minus_beta2, kept);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        return {.learning_rate = step.learning_rate,
                .beta1 = o.beta1,
                .one_minus_beta1 = 1 - o.beta1,
                .beta2 = o.beta2,
                .one_minus_beta2 = 1 - o.beta2,
                .kept = 1 - step.learning_rate * step.weight_decay};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& m = s.momentum;
        p = n.kept * p - n.learning_rate * sign(n.beta1 * m + n.one_minus_beta1 * g);
        m = n.beta2 * m + n.one_minus_beta2 * g;
    }
};

}  // namespace thunder::rules
