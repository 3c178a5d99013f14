// AdamW over a flat arena, one pass over memory.
#pragma once

#include <span>

#include "device/types.h"
#include "optim/segments.h"
#include "optim/step_scalars.h"

namespace thunder {

class Stream;

// torch.optim.AdamW to the letter, on g = clip_factor * gradient:
//     p *= 1 - lr * weight_decay                    (where the segment decays)
//     m  = m + (1 - beta1) * (g - m);   v = beta2 * v + (1 - beta2) * g * g
//     p -= lr / bias_correction1 * m / (sqrt(v) / bias_correction2_sqrt + eps)
struct AdamW {
    float* parameters = nullptr;
    const float* gradients = nullptr;
    float* first_moments = nullptr;   // m
    float* second_moments = nullptr;  // v
    std::span<const ParameterSegment> segments;
    const StepScalars* scalars = nullptr;  // on the device
};
void adamw(const AdamW& call, Stream& stream);

}  // namespace thunder
