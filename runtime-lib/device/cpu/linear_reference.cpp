// SPDX-License-Identifier: Apache-2.0
// Products in plain loops: the provider where there is no library, and the reference of the one that is. Each element
// of c is one sum in double over k in order, rounded once.
#include <algorithm>

#include "device/cpu/products.h"
#include "device/cpu/require.h"
#include "device/parallel.h"

namespace thunder::reference {

bool product(const Product& call, Stream&) {
    if (call.bias || call.activation != Activation::none || call.residual) return false;
    constexpr const char* name = "a product in plain loops";
    const float* all_a = f32(name, "a", call.a);
    const float* all_b = f32(name, "b", call.b);
    float* all_c = f32(name, "c", call.c);
    // Columns in tiles whose sums fit on the stack: nothing may throw in a parallel region, so nothing is allocated
    // there.
    constexpr std::int64_t tile = 512;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, call.n * call.k));
    parallel_for(call.batch * call.m, grain, [&](std::int64_t begin, std::int64_t end) {
        double sums[tile];
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t batch = row / call.m, i = row % call.m;
            const float* a = all_a + batch * call.stride_a + i * (call.transpose_a ? 1 : call.ld_a);
            const std::int64_t step = call.transpose_a ? call.ld_a : 1;
            for (std::int64_t first = 0; first < call.n; first += tile) {
                const std::int64_t n = std::min(tile, call.n - first);
                const float* b = all_b + batch * call.stride_b + first * (call.transpose_b ? call.ld_b : 1);
                float* c = all_c + batch * call.stride_c + i * call.ld_c + first;
                std::fill(sums, sums + n, 0.0);
                if (call.transpose_b) {
                    for (std::int64_t j = 0; j < n; ++j) {
                        const float* column = b + j * call.ld_b;
                        double sum = 0;
                        for (std::int64_t p = 0; p < call.k; ++p)
                            sum += static_cast<double>(a[p * step]) * static_cast<double>(column[p]);
                        sums[j] = sum;
                    }
                } else {
                    for (std::int64_t p = 0; p < call.k; ++p) {
                        const double factor = a[p * step];
                        const float* line = b + p * call.ld_b;
#pragma omp simd
                        for (std::int64_t j = 0; j < n; ++j) sums[j] += factor * static_cast<double>(line[j]);
                    }
                }
                for (std::int64_t j = 0; j < n; ++j)
                    c[j] = static_cast<float>((call.accumulate ? static_cast<double>(c[j]) : 0.0) + sums[j]);
            }
        }
    });
    return true;
}

}  // namespace thunder::reference
