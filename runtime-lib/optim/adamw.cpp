#include "optim/adamw.h"

#include "device/cpu/elements.h"
#include "device/cpu/vec_math.h"
#include "optim/describe.h"
#include "optim/walk_segments.h"

namespace thunder {

void adamw(const AdamW& call, Stream& stream) {
    const Timed timed = timed_call("adamw", call, stream);
    constexpr const char* name = "adamw";
    require_float(name, "parameters", call.parameters);
    require_float(name, "gradients", call.gradients);
    require_float(name, "first_moments", call.first_moments);
    require_dtype(name, "second_moments", call.second_moments, call.first_moments.dtype);
    require_dtype(name, "shadows", call.shadows, DType::bf16);
    const StepScalars& s = *call.scalars;
    const auto clip = s.clip_factor;
    const auto beta2 = static_cast<float>(s.beta2);
    const auto rest1 = static_cast<float>(1.0 - s.beta1), rest2 = static_cast<float>(1.0 - s.beta2);
    const auto step_size = static_cast<float>(s.learning_rate / s.bias_correction1);
    const auto correction = static_cast<float>(s.bias_correction2_sqrt);
    const auto eps = static_cast<float>(s.eps);
    const auto kept = static_cast<float>(1.0 - s.learning_rate * s.weight_decay);
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, bool decay) {
        const float keep = decay ? kept : 1.0F;
        float buffers[4][piece_elements];
        const std::int64_t piece =
            piece_of(end - begin, {call.parameters.dtype, call.gradients.dtype, call.first_moments.dtype,
                                   call.shadows ? DType::bf16 : DType::f32});
        for (std::int64_t at = begin; at < end; at += piece) {
            const std::int64_t n = std::min(piece, end - at);
            float* __restrict p = elements(call.parameters, at, n, buffers[0]);
            const float* __restrict g = elements(call.gradients, at, n, buffers[1]);
            float* __restrict m = elements(call.first_moments, at, n, buffers[2]);
            float* __restrict v = elements(call.second_moments, at, n, buffers[3]);
#pragma omp simd
            for (std::int64_t i = 0; i < n; ++i) {
                const float gradient = clip * g[i];
                const float first = m[i] + rest1 * (gradient - m[i]);
                const float second = beta2 * v[i] + rest2 * gradient * gradient;
                m[i] = first;
                v[i] = second;
                p[i] = keep * p[i] - step_size * (first / (math::sqrt(second) / correction + eps));
            }
            put_back(call.parameters, at, p, n);
            put_back(call.first_moments, at, m, n);
            put_back(call.second_moments, at, v, n);
            put_back(call.shadows, at, p, n);
        }
    });
}

}  // namespace thunder
