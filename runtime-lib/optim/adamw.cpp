#include "optim/adamw.h"

#include "device/cpu/vec_math.h"
#include "optim/walk_segments.h"

namespace thunder {

void adamw(const AdamW& call, Stream&) {
    const StepScalars& s = *call.scalars;
    const auto clip = s.clip_factor;
    const auto beta2 = static_cast<float>(s.beta2);
    const auto rest1 = static_cast<float>(1.0 - s.beta1), rest2 = static_cast<float>(1.0 - s.beta2);
    const auto step_size = static_cast<float>(s.learning_rate / s.bias_correction1);
    const auto correction = static_cast<float>(s.bias_correction2_sqrt);
    const auto eps = static_cast<float>(s.eps);
    const auto kept = static_cast<float>(1.0 - s.learning_rate * s.weight_decay);
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, bool decay) {
        float* __restrict p = call.parameters;
        const float* __restrict g = call.gradients;
        float* __restrict m = call.first_moments;
        float* __restrict v = call.second_moments;
        const float keep = decay ? kept : 1.0F;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const float gradient = clip * g[i];
            const float first = m[i] + rest1 * (gradient - m[i]);
            const float second = beta2 * v[i] + rest2 * gradient * gradient;
            m[i] = first;
            v[i] = second;
            p[i] = keep * p[i] - step_size * (first / (math::sqrt(second) / correction + eps));
        }
    });
}

}  // namespace thunder
