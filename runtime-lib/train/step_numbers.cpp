// SPDX-License-Identifier: Apache-2.0
#include "train/step_numbers.h"

#include "optim/rounding.h"
#include "train/schedule.h"

namespace thunder {

StepNumbers numbers_of_step(const ProgramSpec& program, const Options& options, const BatchCut& cut,
                            std::int64_t step) {
    StepNumbers numbers(program, options);
    StepScalars& scalars = numbers.scalars;
    scalars.learning_rate = learning_rate(options, step);
    scalars.max_grad_norm = options.grad_clip;
    scalars.seed = static_cast<std::int64_t>(options.seed);
    scalars.step = step;
    scalars.rounding = options.stochastic_rounding ? rounding_of_step(options.seed, step) : 0;
    // Of a mean, set_loss_gradient sets it when the weight is known.
    scalars.dloss = program.loss == Loss::average ? 1 / static_cast<float>(cut.micro_steps * cut.world) : 1;
    return numbers;
}

}  // namespace thunder
