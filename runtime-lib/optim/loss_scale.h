// SPDX-License-Identifier: Apache-2.0
// Dynamic scaling of the loss, as torch.amp.GradScaler has it: the loss is multiplied before it is differentiated, so
// that small gradients are not lost to their type, and gradients are divided again where they are read. A step whose
// gradient is not finite is skipped, and the scale halved; one that is skipped as --on-nan says leaves the scale.
//
// All of it is decided on the device. The host learns of a step when the next one has been issued already, and sends
// the numbers of a step in two versions, one for each outcome of the step before.
#pragma once

#include <cstdint>

#include "optim/step_scalars.h"

namespace thunder {

// What of it lasts from step to step. On the device.
struct LossScale {
    float scale = 65536;            // of the step to come
    std::int32_t good = 0;          // steps that were taken since it last changed
    std::int64_t skipped = 0;       // steps of the run that were skipped
    std::int32_t last_skipped = 0;  // 1: the step before was
    std::int32_t averages = 0;      // 1: the average of weights has begun, as after its first step
    float average_part = 0;         // of the way to the parameters that the average goes in this step
};

// Before the backward pass, when dloss is set: multiplies it. Where the step before was skipped, the rule's numbers
// become those that were sent for that case: of the run, then of each group, most_numbers each.
struct ScaleLoss {
    StepScalars* scalars = nullptr;
    const LossScale* scale = nullptr;
    const double* numbers_after_skip = nullptr;
    std::int64_t groups = 0;
};
void scale_loss(const ScaleLoss& call, Stream& stream);

// After the optimizer: what the step was makes the scale of the next one.
struct NextLossScale {
    const StepScalars* scalars = nullptr;
    LossScale* scale = nullptr;
    std::int64_t interval = 0;  // steps in a row after which the scale doubles; 0: it stays
    float average_part = 1;     // of averages that have begun
};
void next_loss_scale(const NextLossScale& call, Stream& stream);

}  // namespace thunder
