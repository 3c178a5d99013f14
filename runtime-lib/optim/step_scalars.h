// SPDX-License-Identifier: Apache-2.0
// What changes from step to step, in one place on the device: nothing else in a step depends on the step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rules/rule.h"  // a neighbour: tests of the compiler include this file by a path of their own

namespace thunder {

class Stream;

struct StepScalars {
    // written by the host before a step; in double, since 1 - beta of a float has lost what PyTorch's has
    double learning_rate = 0;
    double max_grad_norm = 0;               // 0: no clipping
    double rule[rules::most_numbers] = {};  // the Numbers of the optimizer's rule
    std::int64_t seed = 0;                  // the bits of --seed, as integers lie in programs
    std::int64_t step = 0;

    // written on the device within a step
    float loss_weight = 0;  // sum of the loss's weights over the micro-steps and ranks of this step
    float dloss = 0;        // what seeds the backward pass: see Loss in train/program.h
    float loss_sum = 0;     // sum of the weighted losses so far
    float grad_norm = 0;    // of all gradients, before clipping
    // what the optimizer multiplies gradients with; negative: the step is not taken (clipping.h)
    float clip_factor = 1;
    float loss_scale = 0;  // that dloss was multiplied with, see loss_scale.h; 0: it was not

    // written by the host before a step
    std::uint64_t rounding = 0;  // of parameters in bf16, see rounding.h; 0: to the nearest
    // where steps may be skipped: one with a larger norm is, and one whose loss_sum is no number; 0: neither
    double most_grad_norm = 0;

    // written on the device as a model of classes is evaluated
    float label_count = 0;  // so many labels so far
    float label_hits = 0;   // of these, those that the model gives the largest score
};

// Behind them, where a run has groups of parameters, lie the rule's numbers of each group: most_numbers doubles. From
// scalars->rule on, those of group k (from 1; 0: the run's own) begin there:
constexpr std::int64_t numbers_of_group(std::int64_t k) {
    constexpr std::int64_t behind = (sizeof(StepScalars) - offsetof(StepScalars, rule)) / sizeof(double);
    return k == 0 ? 0 : behind + (k - 1) * rules::most_numbers;
}

// The host follows no pointer to StepScalars: it writes and reads copies of them, and asks for what stands here.

// scalars->dloss = 1 / scalars->loss_weight.
void seed_loss(StepScalars* scalars, Stream& stream);

}  // namespace thunder
