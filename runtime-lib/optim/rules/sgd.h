// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// SGD with momentum. torch begins the buffer as the first gradient; from zero that is the same, since momentum only
// multiplies it.
struct Sgd : CoupledDecay {
    static constexpr const char *name = "sgd", *title = "SGD";
    static constexpr const char* formula =
        "g = clip_factor gradient + weight_decay p where it decays; b = momentum b + g; p - learning_rate b, or with "
        "nesterov p - learning_rate (g + momentum b)";
    static constexpr const char* source = "torch.optim.SGD without dampening";

    THUNDER_FIELDS(States, momentum);
    static constexpr const char* stored_states = names_of_States;

    THUNDER_FIELDS(Options, momentum, nesterov);
    static constexpr Option options[] = {
        {0.9, Range::fraction, "SGD's momentum"},
        {0, Range::flag, "SGD steps by the gradient and the momentum that it leaves: Nesterov's variant"}};

    // What a step takes of the gradient and of the buffer: 0 and 1, which change no bit, or Nesterov's 1 and momentum.
    THUNDER_FIELDS(Numbers, learning_rate, momentum, of_gradient, of_buffer, weight_decay);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        const bool nesterov = o.nesterov != 0;
        return {.learning_rate = step.learning_rate,
                .momentum = o.momentum,
                .of_gradient = nesterov ? 1.0 : 0.0,
                .of_buffer = nesterov ? o.momentum : 1.0,
                .weight_decay = step.weight_decay};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& b = s.momentum;
        g = g + n.weight_decay * p;
        b = n.momentum * b + g;
        p = p - n.learning_rate * (n.of_gradient * g + n.of_buffer * b);
    }
};

}  // namespace thunder::rules
