#include "optim/sgd.h"

#include "optim/walk_segments.h"

namespace thunder {

void sgd(const Sgd& call, Stream&) {
    const StepScalars& s = *call.scalars;
    const auto clip = s.clip_factor;
    const auto rate = static_cast<float>(s.learning_rate);
    // torch starts the buffer with the first gradient; from zero that is the same for a momentum that only multiplies
    // it
    const auto momentum = static_cast<float>(s.momentum);
    const auto weight_decay = static_cast<float>(s.weight_decay);
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, bool decays) {
        float* __restrict p = call.parameters;
        const float* __restrict g = call.gradients;
        float* __restrict b = call.momentum_buffers;
        const float decay = decays ? weight_decay : 0.0F;
        if (b == nullptr) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) p[i] = p[i] - rate * (clip * g[i] + decay * p[i]);
            return;
        }
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const float buffer = momentum * b[i] + (clip * g[i] + decay * p[i]);
            b[i] = buffer;
            p[i] = p[i] - rate * buffer;
        }
    });
}

}  // namespace thunder
