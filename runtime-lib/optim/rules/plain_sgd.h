// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// SGD that keeps nothing beside the parameters.
struct PlainSgd : CoupledDecay {
    static constexpr const char *name = "plain_sgd", *title = "SGD without momentum";
    static constexpr const char* formula =
        "g = clip_factor gradient + weight_decay p where it decays; p - learning_rate g";
    static constexpr const char* source = "torch.optim.SGD with momentum = 0";

    THUNDER_NO_FIELDS(States);
    static constexpr const char* stored_states = names_of_States;

    THUNDER_NO_FIELDS(Options);
    static constexpr const Option* options = nullptr;

    THUNDER_FIELDS(Numbers, learning_rate, weight_decay);
    THUNDER_RULE Numbers<double> numbers(const Options<double>&, const Step& step) {
        return {.learning_rate = step.learning_rate, .weight_decay = step.weight_decay};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&>, const Numbers<T>& n) {
        p = p - n.learning_rate * (g + n.weight_decay * p);
    }
};

}  // namespace thunder::rules
