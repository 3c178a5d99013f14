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
struct Sgd {
    float* parameters = nullptr;
    const float* gradients = nullptr;
    float* momentum_buffers = nullptr;  // b; null where the program was made without momentum
    std::span<const ParameterSegment> segments;
    const StepScalars* scalars = nullptr;  // on the device
};
void sgd(const Sgd& call, Stream& stream);

}  // namespace thunder
