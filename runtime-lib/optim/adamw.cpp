#include "optim/adamw.h"

#include "device/cpu/bf16.h"
#include "device/cpu/vec_math.h"
#include "optim/walk_segments.h"

namespace thunder {

namespace {

template <typename P, typename G, typename S>
void step(P* __restrict p, const G* __restrict g, S* __restrict m, S* __restrict v, bf16* __restrict shadow,
          const AdamW& call) {
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
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            const float gradient = clip * to_float(g[i]);
            const float before = to_float(m[i]);
            const float first = before + rest1 * (gradient - before);
            const float second = beta2 * to_float(v[i]) + rest2 * gradient * gradient;
            store(m[i], first);
            store(v[i], second);
            store(p[i], keep * to_float(p[i]) - step_size * (first / (math::sqrt(second) / correction + eps)));
        }
        if (shadow == nullptr) return;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) shadow[i] = to_bf16(to_float(p[i]));
    });
}

}  // namespace

void adamw(const AdamW& call, Stream&) {
    constexpr const char* name = "adamw";
    require_dtype(name, "shadows", call.shadows, DType::bf16);
    require_dtype(name, "second_moments", call.second_moments, call.first_moments.dtype);
    auto* shadows = static_cast<bf16*>(call.shadows.data);
    with_elements(name, "parameters", call.parameters, [&](auto* p) {
        with_elements(name, "gradients", call.gradients, [&](const auto* g) {
            with_elements(name, "first_moments", call.first_moments, [&](auto* m) {
                step(p, g, m, static_cast<decltype(m)>(call.second_moments.data), shadows, call);
            });
        });
    });
}

}  // namespace thunder
