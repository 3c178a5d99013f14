// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// Adagrad. What it keeps only grows: in bf16 it soon does not.
struct Adagrad : CoupledDecay {
    static constexpr const char *name = "adagrad", *title = "Adagrad";
    static constexpr const char* formula =
        "g = clip_factor gradient + weight_decay p where it decays; v = v + g g; "
        "p - learning_rate / (1 + (step - 1) lr_decay) g / (sqrt(v) + eps)";
    static constexpr const char* source =
        "torch.optim.Adagrad with initial_accumulator_value = 0; Duchi, Hazan and Singer, Adaptive Subgradient Methods "
        "for Online Learning and Stochastic Optimization, 2011";

    THUNDER_FIELDS(States, sum_of_squares);
    static constexpr const char* stored_states = "sum";
    static constexpr bool never_negative[] = {true};

    THUNDER_FIELDS(Options, lr_decay, eps);
    static constexpr Option options[] = {
        {0, Range::not_negative, "Adagrad's decay of the learning rate: step t has 1 / (1 + (t - 1) X) of it"},
        {1e-10, Range::not_negative, "Adagrad's epsilon"}};

    THUNDER_FIELDS(Numbers, step_size, eps, weight_decay);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        return {.step_size = step.learning_rate / (1 + (step.number - 1) * o.lr_decay),
                .eps = o.eps,
                .weight_decay = step.weight_decay};
    }

    template <typename T>
    THUNDER_RULE void element(T& p, T g, States<T&> s, const Numbers<T>& n) {
        T& v = s.sum_of_squares;
        g = g + n.weight_decay * p;
        v = v + g * g;
        p = p - n.step_size * (g / (root(v) + n.eps));
    }
};

}  // namespace thunder::rules
