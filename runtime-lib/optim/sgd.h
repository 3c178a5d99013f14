// SGD with momentum over a flat arena.
#pragma once

#include <span>

#include "optim/segments.h"
#include "optim/step_scalars.h"

namespace thunder {

class Stream;

// torch.optim.SGD without dampening and without Nesterov, on g = clip_factor * gradient + weight_decay * p (the decay
// where the segment has it). With momentum: b = g in step 0, then b = momentum * b + g; p -= lr * b. Without: p -= lr *
// g.
// Each arena is f32 or bf16; what is computed is f32 and rounded where it is stored.
struct Sgd {
    Output parameters{};
    Input gradients{};
    Output momentum_buffers{};  // b; null where the program was made without momentum
    Output shadows{};           // the new parameters once more, as bf16 for products to read; null: there are none
    std::span<const ParameterSegment> segments;
    const StepScalars* scalars = nullptr;  // on the device
};
void sgd(const Sgd& call, Stream& stream);

}  // namespace thunder
