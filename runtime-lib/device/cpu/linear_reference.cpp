// Products in plain loops: the provider where there is no library, and the twin of the one that is. Each element of c
// is one sum in double over k in order, rounded once.
#include <vector>

#include "device/cpu/products.h"
#include "device/parallel.h"

namespace thunder::reference {

bool product(const Product& call, Stream&) {
    if (call.bias != nullptr || call.activation != Activation::none || call.residual != nullptr) return false;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, call.n * call.k));
    parallel_for(call.batch * call.m, grain, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> sums(static_cast<std::size_t>(call.n));
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t batch = row / call.m, i = row % call.m;
            const float* a = call.a + batch * call.stride_a + i * (call.transpose_a ? 1 : call.ld_a);
            const std::int64_t step = call.transpose_a ? call.ld_a : 1;
            const float* b = call.b + batch * call.stride_b;
            float* c = call.c + batch * call.stride_c + i * call.ld_c;
            std::fill(sums.begin(), sums.end(), 0.0);
            if (call.transpose_b) {
                for (std::int64_t j = 0; j < call.n; ++j) {
                    const float* column = b + j * call.ld_b;
                    double sum = 0;
                    for (std::int64_t p = 0; p < call.k; ++p)
                        sum += static_cast<double>(a[p * step]) * static_cast<double>(column[p]);
                    sums[static_cast<std::size_t>(j)] = sum;
                }
            } else {
                double* s = sums.data();
                for (std::int64_t p = 0; p < call.k; ++p) {
                    const double factor = a[p * step];
                    const float* line = b + p * call.ld_b;
#pragma omp simd
                    for (std::int64_t j = 0; j < call.n; ++j) s[j] += factor * static_cast<double>(line[j]);
                }
            }
            for (std::int64_t j = 0; j < call.n; ++j) {
                const double before = call.accumulate ? static_cast<double>(c[j]) : 0.0;
                c[j] = static_cast<float>(before + sums[static_cast<std::size_t>(j)]);
            }
        }
    });
    return true;
}

}  // namespace thunder::reference
