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
// Each arena is f32 or bf16, the two moments alike; what is computed is f32 and rounded where it is stored.
struct AdamW {
    Output parameters{};
    Input gradients{};
    Output first_moments{};   // m
    Output second_moments{};  // v
    Output shadows{};         // the new parameters once more, as bf16 for products to read; null: there are none
    std::span<const ParameterSegment> segments;
    const StepScalars* scalars = nullptr;  // on the device
};
void adamw(const AdamW& call, Stream& stream);

}  // namespace thunder
