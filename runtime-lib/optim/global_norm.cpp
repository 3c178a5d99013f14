// SPDX-License-Identifier: Apache-2.0
#include "optim/global_norm.h"

#include <algorithm>

#include "device/cpu/elements.h"
#include "device/parallel.h"
#include "optim/clipping.h"
#include "optim/describe.h"

namespace thunder {

void sum_of_squares(double* sum, const Input& gradients, std::int64_t all, Stream& stream) {
    require_float("sum_of_squares", "gradients", gradients);
    // Leaves of 16 Ki elements, whatever the number of threads; within a leaf each of 16 lanes sums in double.
    constexpr std::int64_t leaf = 16384, lanes = 16;
    const std::int64_t leaves = (all + leaf - 1) / leaf;
    auto* sums = reinterpret_cast<double*>(stream.workspace(static_cast<std::size_t>(leaves) * sizeof(double)));
    const std::int64_t piece = piece_of(leaf, {gradients.dtype});
    parallel_for(leaves, 1, [&](std::int64_t first, std::int64_t last) {
        float buffer[piece_elements];
        for (std::int64_t l = first; l < last; ++l) {
            double lane[lanes] = {};
            const std::int64_t end = std::min((l + 1) * leaf, all);
            for (std::int64_t at = l * leaf; at < end; at += piece) {
                const std::int64_t n = std::min(piece, end - at);
                const float* g = elements(gradients, at, n, buffer);
                std::int64_t i = 0;
                for (; i + lanes <= n; i += lanes) {
#pragma omp simd
                    for (std::int64_t j = 0; j < lanes; ++j)
                        lane[j] += static_cast<double>(g[i + j]) * static_cast<double>(g[i + j]);
                }
                for (; i < n; ++i) lane[i % lanes] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
            }
            double total = 0;
            for (const double x : lane) total += x;
            sums[l] = total;
        }
    });
    double total = 0;
    for (std::int64_t l = 0; l < leaves; ++l) total += sums[l];
    *sum = total;
}

void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, Stream& stream) {
    const Timed timed = timed_call("global_norm", GlobalNorm{scalars, gradients, elements}, stream);
    double sum = 0;
    sum_of_squares(&sum, gradients, elements, stream);
    set_norm(scalars, sum);
}

void set_norm(StepScalars* scalars, double squares) {
    const Clipping clipping =
        clipping_of(squares, scalars->max_grad_norm, scalars->loss_scale, scalars->most_grad_norm, scalars->loss_sum);
    scalars->grad_norm = clipping.grad_norm;
    scalars->clip_factor = clipping.clip_factor;
}

}  // namespace thunder
