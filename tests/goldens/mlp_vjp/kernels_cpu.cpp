// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row of x,
// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. "dw +=" adds to what dw holds, or
// overwrites it as the WriteMode says.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile and --numerics see of a kernel

namespace vec_math = thunder::math;

using namespace thunder;

// net_tanh_backward:
//   dlinear_2 = dtanh - dtanh * tanh^2
// From the graph's Tanh (net.3)
void net_tanh_backward(float* dlinear_2, const float* tanh, const float* dtanh, Stream& stream) {
    const Timed timed("net_tanh_backward", {.bytes = 768, .flops = 192}, {dlinear_2}, stream);
    constexpr std::int64_t n = 16 * B;
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            dlinear_2[i] = dtanh[i] - dtanh[i] * (tanh[i] * tanh[i]);
        }
    });
}

// net_relu_backward:
//   dlinear = relu > 0 ? drelu : 0
// From the graph's Relu (net.1)
void net_relu_backward(float* dlinear, const float* relu, const float* drelu, Stream& stream) {
    const Timed timed("net_relu_backward", {.bytes = 768, .flops = 128}, {dlinear}, stream);
    constexpr std::int64_t n = 16 * B;
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            dlinear[i] = vec_math::choose<float>(relu[i] > 0.0F, drelu[i], 0.0F);
        }
    });
}
