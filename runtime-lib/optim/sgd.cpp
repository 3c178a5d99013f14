#include "optim/sgd.h"

#include "device/cpu/elements.h"
#include "optim/describe.h"
#include "optim/walk_segments.h"

namespace thunder {

void sgd(const Sgd& call, Stream& stream) {
    const Timed timed = timed_call("sgd", call, stream);
    constexpr const char* name = "sgd";
    require_float(name, "parameters", call.parameters);
    require_float(name, "gradients", call.gradients);
    require_float(name, "momentum_buffers", call.momentum_buffers);
    require_dtype(name, "shadows", call.shadows, DType::bf16);
    const StepScalars& s = *call.scalars;
    const auto clip = s.clip_factor;
    const auto rate = static_cast<float>(s.learning_rate);
    // torch starts the buffer with the first gradient; from zero that is the same for a momentum that only multiplies
    // it
    const auto momentum = static_cast<float>(s.momentum);
    const auto weight_decay = static_cast<float>(s.weight_decay);
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, bool decays) {
        const float decay = decays ? weight_decay : 0.0F;
        float buffers[3][piece_elements];
        const std::int64_t piece =
            piece_of(end - begin, {call.parameters.dtype, call.gradients.dtype, call.momentum_buffers.dtype,
                                   call.shadows ? DType::bf16 : DType::f32});
        for (std::int64_t at = begin; at < end; at += piece) {
            const std::int64_t n = std::min(piece, end - at);
            float* __restrict p = elements(call.parameters, at, n, buffers[0]);
            const float* __restrict g = elements(call.gradients, at, n, buffers[1]);
            float* __restrict b = elements(call.momentum_buffers, at, n, buffers[2]);
            if (b == nullptr) {
#pragma omp simd
                for (std::int64_t i = 0; i < n; ++i) p[i] -= rate * (clip * g[i] + decay * p[i]);
            } else {
#pragma omp simd
                for (std::int64_t i = 0; i < n; ++i) {
                    b[i] = momentum * b[i] + (clip * g[i] + decay * p[i]);
                    p[i] -= rate * b[i];
                }
            }
            put_back(call.parameters, at, p, n);
            put_back(call.momentum_buffers, at, b, n);
            put_back(call.shadows, at, p, n);
        }
    });
}

}  // namespace thunder
