// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// SGD with momentum. torch begins the buffer as the first gradient; from zero that is the same, since momentum only
// multiplies it.
struct Sgd {
    static constexpr const char *name = "sgd", *title = "SGD";
    static constexpr const char* formula =
        "g = clip_factor gradient + weight_decay p where it decays; b = momentum b + g; p - learning_rate b";
    static constexpr const char* source = "torch.optim.SGD without dampening and without Nesterov's variant";

    THUNDER_FIELDS(States, momentum);
    static constexpr const char* stored_states = names_of_States;

    THUNDER_FIELDS(Options, momentum);
    static constexpr Option options[] = {{0.9, Range::fraction, "SGD's momentum"}};

    THUNDER_FIELDS(Numbers, learning_rate, momentum, weight_decay);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        return {.learning_rate = step.learning_rate, .momentum = o.momentum, .weight_decay = step.weight_decay};
    }

    template <typename T, typename Flag>
    THUNDER_RULE void decay_where(Flag decays, Numbers<T>& n) {
        n.weight_decay = where(decays, n.weight_decay, T(0));
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& b = s.momentum;
        b = n.momentum * b + (g + n.weight_decay * p);
        p = p - n.learning_rate * b;
    }
};

}  // namespace thunder::rules
