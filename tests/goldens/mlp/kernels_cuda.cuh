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

// add_to_loss_sum:
//   loss_sum += loss
// One thread.
THUNDER_KERNEL(32) add_to_loss_sum_kernel(Aliased<float> loss_sum, Aliased<const float> loss) {
    wait_for_previous_kernel();
    if (thread_index() != 0) return;
    const float loss_sum_before = loss_sum[0];
    const float loss_value = loss[0];
    loss_sum[0] = loss_sum_before + loss_value;
}

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

// cross_entropy_weight:
//   loss_weight += sum(labels != -100)
// One warp.
THUNDER_KERNEL(32) cross_entropy_weight_kernel(Aliased<float> loss_weight, Global<const std::int64_t> labels) {
    wait_for_previous_kernel();
    constexpr int width = B;
    const float loss_weight_before = loss_weight[0];
    const int c = lane() * 2;
    float weight = 0.0F;
    if (c < width) {
        const auto labels_v = load<2>(labels + c);
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            weight += math::number<float>(labels_v[e] != -100);
        }
    }
    weight = warp_sum(weight);
    warp_barrier();
    if (lane() == 0) {
        loss_weight[0] = loss_weight_before + weight;
    }
}

// loss_add_sum:
//   label_count += sum_B(labels != -100)
//   label_hits += sum_B(-row_max((linear == row_max(linear) or isnan(linear)) ? index : -5) == labels)
// One block, whose warps take row after row; a row stays in registers; the sums over the rows are one partial sum for
// each block.
THUNDER_KERNEL(256) loss_add_sum_kernel(Global<const std::int64_t> labels, Global<const float> linear,
    Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B, width = 5;
    THUNDER_SHARED(float, shared, 8);
    float whole_sum = 0.0F;
    float whole_sum_2 = 0.0F;
    const int c = lane();
    const int row = block_index() * 8 + warp();
    if (row < rows) {
        float linear_v;
        const float cast_2 = math::number<float>(labels[row] != -100);
        float largest = -math::infinity();
        if (c < width) {
            linear_v = linear[row * width + c];
            largest = math::max<float>(largest, linear_v);
        }
        largest = warp_max(largest);
        std::int64_t largest_2 = math::lowest<std::int64_t>();
        if (c < width) {
            largest_2 = math::max<std::int64_t>(largest_2,
                math::choose<std::int64_t>(math::either(linear_v == largest, linear_v != linear_v),
                static_cast<std::int64_t>(-c), -5));
        }
        largest_2 = warp_max(largest_2);
        const float cast = math::number<float>(math::neg<std::int64_t>(largest_2) == labels[row]);
        if (lane() == 0) whole_sum += cast_2;
        if (lane() == 0) whole_sum_2 += cast;
    }
    whole_sum = block_sum<256>(whole_sum, shared);
    if (thread_index() == 0) partials[block_index() * 4] = whole_sum;
    whole_sum_2 = block_sum<256>(whole_sum_2, shared);
    if (thread_index() == 0) partials[block_index() * 4 + 1] = whole_sum_2;
}

// Writes the sums: one block has added up all rows.
THUNDER_KERNEL(256) loss_add_sum_finish(Aliased<float> label_count, Aliased<float> label_hits,
    Global<const float> partials) {
    wait_for_previous_kernel();
    constexpr int sums = 2;
    THUNDER_SHARED(float, shared, 256);
    const int p = block_index() * 32 + lane();
    float sum = 0.0F;
    for (int b = warp(); p < sums && b < 1; b += 8) {
        sum += partials[b * 4 + p];
    }
    shared[thread_index()] = sum;
    barrier();
    if (warp() != 0 || p >= sums) return;
    THUNDER_UNROLL
    for (int w = 1; w < 8; ++w) sum += shared[w * 32 + lane()];
    if (p < 1) {
        const float label_count_before = label_count[0];
        label_count[0] = label_count_before + sum;
    } else {
        const float label_hits_before = label_hits[0];
        label_hits[0] = label_hits_before + sum;
    }
}

}  // namespace kernels
