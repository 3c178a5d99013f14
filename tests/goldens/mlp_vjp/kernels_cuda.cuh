// kernels_cuda.cuh: the model's kernels for GPUs, device code alone; kernels_cuda.cu launches them. Sums have
// fixed trees and there are no atomics: the same bits in every run. Grids are cut for sm_90a. A result
// may lie over an operand that it is computed from element by element, where both are Aliased; nothing lies over
// what is Global.
// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row of x,
// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. "dw +=" adds to what dw holds, or
// overwrites it as the WriteMode says.
#pragma once

#include "device/cuda/device.h"
#include "sizes.h"

using namespace thunder;

namespace kernels {

// In 32 bits, as indices are here.
inline constexpr int B = ::B;

// net_tanh_backward:
//   dlinear_2 = dtanh - dtanh * tanh^2
// From the graph's Tanh (net.3)
// A thread for each 4 elements.
THUNDER_KERNEL(256) net_tanh_backward_kernel(Aliased<float> dlinear_2, Aliased<const float> tanh,
    Aliased<const float> dtanh) {
    wait_for_previous_kernel();
    constexpr int n = 16 * B;
    const int i = (block_index() * 256 + thread_index()) * 4;
    if (i >= n) return;
    const auto dtanh_v = load<4>(dtanh + i);
    const auto tanh_v = load<4>(tanh + i);
    Vec<float, 4> dlinear_2_v;
    THUNDER_UNROLL
    for (int e = 0; e < 4; ++e) {
        dlinear_2_v[e] = dtanh_v[e] - dtanh_v[e] * (tanh_v[e] * tanh_v[e]);
    }
    store(dlinear_2 + i, dlinear_2_v);
}

// net_relu_backward:
//   dlinear = relu > 0 ? drelu : 0
// From the graph's Relu (net.1)
// A thread for each 4 elements.
THUNDER_KERNEL(256) net_relu_backward_kernel(Aliased<float> dlinear, Aliased<const float> relu,
    Aliased<const float> drelu) {
    wait_for_previous_kernel();
    constexpr int n = 16 * B;
    const int i = (block_index() * 256 + thread_index()) * 4;
    if (i >= n) return;
    const auto relu_v = load<4>(relu + i);
    const auto drelu_v = load<4>(drelu + i);
    Vec<float, 4> dlinear_v;
    THUNDER_UNROLL
    for (int e = 0; e < 4; ++e) {
        dlinear_v[e] = math::choose<float>(relu_v[e] > 0.0F, drelu_v[e], 0.0F);
    }
    store(dlinear + i, dlinear_v);
}

}  // namespace kernels
