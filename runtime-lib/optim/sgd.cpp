#include "optim/sgd.h"

#include "device/cpu/bf16.h"
#include "optim/walk_segments.h"

namespace thunder {

namespace {

template <typename P, typename G, typename S>
void step(P* __restrict p, const G* __restrict g, S* __restrict b, bf16* __restrict shadow, const Sgd& call) {
    const StepScalars& s = *call.scalars;
    const auto clip = s.clip_factor;
    const auto rate = static_cast<float>(s.learning_rate);
    // torch starts the buffer with the first gradient; from zero that is the same for a momentum that only multiplies
    // it
    const auto momentum = static_cast<float>(s.momentum);
    const auto weight_decay = static_cast<float>(s.weight_decay);
    walk_segments(call.segments, [&](std::int64_t begin, std::int64_t end, bool decays) {
        const float decay = decays ? weight_decay : 0.0F;
        if (b == nullptr) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                const float before = to_float(p[i]);
                store(p[i], before - rate * (clip * to_float(g[i]) + decay * before));
            }
        } else {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
                const float before = to_float(p[i]);
                const float buffer = momentum * to_float(b[i]) + (clip * to_float(g[i]) + decay * before);
                store(b[i], buffer);
                store(p[i], before - rate * buffer);
            }
        }
        if (shadow == nullptr) return;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) shadow[i] = to_bf16(to_float(p[i]));
    });
}

}  // namespace

void sgd(const Sgd& call, Stream&) {
    constexpr const char* name = "sgd";
    require_dtype(name, "shadows", call.shadows, DType::bf16);
    auto* shadows = static_cast<bf16*>(call.shadows.data);
    with_elements(name, "parameters", call.parameters, [&](auto* p) {
        with_elements(name, "gradients", call.gradients, [&](const auto* g) {
            with_elements(name, "momentum_buffers", call.momentum_buffers,
                          [&](auto* b) { step(p, g, b, shadows, call); });
        });
    });
}

}  // namespace thunder
