// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the model `words`, in plain loops.
#pragma once

#include <cmath>
#include <cstdint>

#include "optim/step_scalars.h"

namespace words {

inline constexpr std::int64_t T = 6, V = 11, D = 8;

struct Tensors {
    float* embed;   // (V, D)
    float* head;    // (V, D)
    float* bias;    // (V)
    float* scale;   // (D)
    float* frozen;  // (D)
};

inline float weight(const std::int64_t* labels, std::int64_t rows) {
    float weight = 0;
    for (std::int64_t i = 0; i < rows * T; ++i) weight += labels[i] == -100 ? 0.0F : 1.0F;
    return weight;
}

// Position after position, each adding to the gradients at once: two half batches give the same bits as a whole one.
inline void forward_backward(const Tensors& w, const Tensors& g, const float* table, const std::int64_t* ids,
                             const std::int64_t* labels, std::int64_t rows, thunder::StepScalars& scalars) {
    for (std::int64_t i = 0; i < rows * T; ++i) {
        if (labels[i] == -100) continue;
        float x[D], dx[D] = {}, probability[V], largest = -INFINITY, sum = 0;
        for (std::int64_t d = 0; d < D; ++d) x[d] = w.embed[ids[i] * D + d] * w.scale[d] * w.frozen[d] + table[d];
        for (std::int64_t v = 0; v < V; ++v) {
            probability[v] = w.bias[v];
            for (std::int64_t d = 0; d < D; ++d) probability[v] += x[d] * w.head[v * D + d];
            largest = std::fmax(largest, probability[v]);
        }
        const float logit = probability[labels[i]];
        for (float& p : probability) sum += p = std::exp(p - largest);
        scalars.loss_sum += largest + std::log(sum) - logit;
        for (std::int64_t v = 0; v < V; ++v) {
            const float dlogit = (probability[v] / sum - (v == labels[i] ? 1.0F : 0.0F)) * scalars.dloss;
            g.bias[v] += dlogit;
            for (std::int64_t d = 0; d < D; ++d) {
                g.head[v * D + d] += dlogit * x[d];
                dx[d] += dlogit * w.head[v * D + d];
            }
        }
        for (std::int64_t d = 0; d < D; ++d) {
            g.embed[ids[i] * D + d] += dx[d] * w.scale[d] * w.frozen[d];
            g.scale[d] += dx[d] * w.embed[ids[i] * D + d] * w.frozen[d];
        }
    }
}

}  // namespace words
