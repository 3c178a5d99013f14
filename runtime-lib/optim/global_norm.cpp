#include "optim/global_norm.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/bf16.h"
#include "device/parallel.h"

namespace thunder {

void sum_of_squares(double* sum, const Input& gradients, std::int64_t elements, Stream& stream) {
    // Leaves of 16 Ki elements, whatever the number of threads; within a leaf each of 16 lanes sums in double.
    constexpr std::int64_t leaf = 16384, lanes = 16;
    const std::int64_t leaves = (elements + leaf - 1) / leaf;
    auto* sums = reinterpret_cast<double*>(stream.workspace(static_cast<std::size_t>(leaves) * sizeof(double)));
    with_elements("sum_of_squares", "gradients", gradients, [&](const auto* all) {
        parallel_for(leaves, 1, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t l = first; l < last; ++l) {
                const auto* g = all + l * leaf;
                const std::int64_t n = std::min(leaf, elements - l * leaf);
                double lane[lanes] = {};
                std::int64_t i = 0;
                for (; i + lanes <= n; i += lanes) {
#pragma omp simd
                    for (std::int64_t j = 0; j < lanes; ++j) {
                        const auto x = static_cast<double>(to_float(g[i + j]));
                        lane[j] += x * x;
                    }
                }
                for (; i < n; ++i) {
                    const auto x = static_cast<double>(to_float(g[i]));
                    lane[i % lanes] += x * x;
                }
                double total = 0;
                for (const double x : lane) total += x;
                sums[l] = total;
            }
        });
    });
    double total = 0;
    for (std::int64_t l = 0; l < leaves; ++l) total += sums[l];
    *sum = total;
}

void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, Stream& stream) {
    double sum = 0;
    sum_of_squares(&sum, gradients, elements, stream);
    const double norm = std::sqrt(sum);
    scalars->grad_norm = static_cast<float>(norm);
    // a norm that is no number passes on into the factor, and so into the parameters: the step's loss says so
    const double factor = scalars->max_grad_norm / (norm + 1e-6);
    scalars->clip_factor = scalars->max_grad_norm > 0 ? static_cast<float>(factor > 1.0 ? 1.0 : factor) : 1.0F;
}

}  // namespace thunder
