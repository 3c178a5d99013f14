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
inline constexpr int B = ::B, T = ::T, L = ::L, V = ::V, C = ::C, NH = ::NH, KVH = ::KVH, HS = ::HS, H = ::H;

// rms_norm_forward:
//   rstd = rsqrt(mean_C(x^2) + 1e-05)
//   y = x * rstd * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm, model.layers.{0..1}.input_layernorm,
// model.layers.{0..1}.post_attention_layernorm)
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) rms_norm_forward_kernel(Global<float> rstd, Aliased<float> y, Aliased<const float> x,
    Global<const float> weight) {
    wait_for_previous_kernel();
    constexpr int width = C;
    const int c = lane() * 4;
    const int row = block_index() * 8 + warp();
    Vec<float, 4> x_v;
    float sum = 0.0F;
    if (c < width) {
        x_v = load<4>(x + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 4; ++e) {
            sum += x_v[e] * x_v[e];
        }
    }
    sum = warp_sum(sum);
    const float rstd_of_row = math::rsqrt(sum / width + 1e-05F);
    if (c < width) {
        const auto weight_v = load<4>(weight + c);
        Vec<float, 4> y_v;
        THUNDER_UNROLL
        for (int e = 0; e < 4; ++e) {
            const float normed = x_v[e] * rstd_of_row;
            y_v[e] = normed * weight_v[e];
        }
        store(y + row * width + c, y_v);
    }
    if (lane() == 0) {
        rstd[row] = rstd_of_row;
    }
}

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

// rms_norm_backward:
//   dx = rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dweight += sum_{B,T}(dy * normed)
//   where dnormed = dy * weight
//   where normed = x * rstd
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
// One block, whose warps take row after row; a row stays in registers; the sums over the rows are one partial sum for
// each block.
THUNDER_KERNEL(256) rms_norm_backward_kernel(Aliased<float> dx, Aliased<const float> dy, Global<const float> weight,
    Aliased<const float> x, Global<const float> rstd, Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = C;
    Vec<float, 4> column_sum = {};
    const int c = lane() * 4;
    Vec<float, 4> weight_v;
    if (c < width) {
        weight_v = load<4>(weight + c);
    }
    for (int row = block_index() * 8 + warp(); row < rows; row += 8) {
        const int next = row + 8;
        if (next < rows) {
            if (c < width) {
                prefetch(dy + next * width + c);
                prefetch(x + next * width + c);
            }
        }
        Vec<float, 4> dy_v;
        Vec<float, 4> x_v;
        const float rstd_of_row = rstd[row];
        float sum = 0.0F;
        if (c < width) {
            dy_v = load<4>(dy + row * width + c);
            x_v = load<4>(x + row * width + c);
            THUNDER_UNROLL
            for (int e = 0; e < 4; ++e) {
                const float dnormed = dy_v[e] * weight_v[e];
                const float normed = x_v[e] * rstd_of_row;
                sum += dnormed * normed;
            }
        }
        sum = warp_sum(sum);
        const float mean_dot = sum / width;
        if (c < width) {
            Vec<float, 4> dx_v;
            THUNDER_UNROLL
            for (int e = 0; e < 4; ++e) {
                const float dnormed = dy_v[e] * weight_v[e];
                const float normed = x_v[e] * rstd_of_row;
                column_sum[e] += dy_v[e] * normed;
                dx_v[e] = rstd_of_row * (dnormed - normed * mean_dot);
            }
            store(dx + row * width + c, dx_v);
        }
    }
    THUNDER_SHARED(float, totals, width);
    for (int w = 0; w < 8; ++w) {
        if (warp() == w) {
            if (c < width) {
                THUNDER_UNROLL
                for (int e = 0; e < 4; ++e) {
                    totals[c + e] = w == 0 ? column_sum[e] : totals[c + e] + column_sum[e];
                }
            }
        }
        barrier();
    }
    for (int p = thread_index(); p < width; p += 256) {
        partials[block_index() * width + p] = totals[p];
    }
}

// Writes the sums: one block has added up all rows.
THUNDER_KERNEL(256) rms_norm_backward_finish(Aliased<float> dweight, WriteMode mode, Global<const float> partials) {
    wait_for_previous_kernel();
    constexpr int sums = C;
    THUNDER_SHARED(float, shared, 256);
    const int p = block_index() * 32 + lane();
    float sum = 0.0F;
    for (int b = warp(); p < sums && b < 1; b += 8) {
        sum += partials[b * sums + p];
    }
    shared[thread_index()] = sum;
    barrier();
    if (warp() != 0 || p >= sums) return;
    THUNDER_UNROLL
    for (int w = 1; w < 8; ++w) sum += shared[w * 32 + lane()];
    const bool overwrite = mode == WriteMode::overwrite;
    dweight[p] = overwrite ? sum : dweight[p] + sum;
}

// cross_entropy_weight:
//   loss_weight += sum(labels != -100)
// One warp.
THUNDER_KERNEL(32) cross_entropy_weight_kernel(Aliased<float> loss_weight, Global<const std::int64_t> labels) {
    wait_for_previous_kernel();
    constexpr int width = B * T;
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

// rotary:
//   q1 = q_proj1 * cos1 - q_proj2 * sin1
//   q2 = q_proj2 * cos2 + q_proj1 * sin2
//   k1 = k_proj1 * cos1 - k_proj2 * sin1
//   k2 = k_proj2 * cos2 + k_proj1 * sin2
//   where qkv_proj_rotated = q1, q2, k1, k2, in place of q_proj1, q_proj2, k_proj1, k_proj2
// From the graph's Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
// A thread for each 2 elements of each piece.
THUNDER_KERNEL(256) rotary_kernel(Aliased<float> qkv_proj_rotated, Global<const float> sin, Global<const float> cos) {
    wait_for_previous_kernel();
    if (block_index() < 1) {
        // q
        const int block = block_index();
        constexpr int rows = B * T * NH, width = HS / 2;
        const int i = block * 256 + thread_index();
        if (i >= rows * (width / 2)) return;
        const int row = i;
        constexpr int c = 0;
        const int b = row / (T * NH);
        const int t = row / NH % T;
        const int h = row % NH;
        const auto q_proj1_before_v =
            load<2>(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto q_proj2_before_v =
            load<2>(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + HS / 2);
        const auto sin1_v = load<2>(sin + t * HS + c);
        const auto cos2_v = load<2>(cos + t * HS + c + HS / 2);
        const auto sin2_v = load<2>(sin + t * HS + c + HS / 2);
        Vec<float, 2> q1_v;
        Vec<float, 2> q2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            q1_v[e] = q_proj1_before_v[e] * cos1_v[e] - q_proj2_before_v[e] * sin1_v[e];
            q2_v[e] = q_proj2_before_v[e] * cos2_v[e] + q_proj1_before_v[e] * sin2_v[e];
        }
        store(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c, q1_v);
        store(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + HS / 2, q2_v);
        return;
    }
    {
        // k
        const int block = block_index() - 1;
        constexpr int rows = B * T * KVH, width = HS / 2;
        const int i = block * 256 + thread_index();
        if (i >= rows * (width / 2)) return;
        const int row = i;
        constexpr int c = 0;
        const int b = row / (T * KVH);
        const int t = row / KVH % T;
        const int h = row % KVH;
        const auto k_proj1_before_v =
            load<2>(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto k_proj2_before_v =
            load<2>(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS +
            HS / 2);
        const auto sin1_v = load<2>(sin + t * HS + c);
        const auto cos2_v = load<2>(cos + t * HS + c + HS / 2);
        const auto sin2_v = load<2>(sin + t * HS + c + HS / 2);
        Vec<float, 2> k1_v;
        Vec<float, 2> k2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            k1_v[e] = k_proj1_before_v[e] * cos1_v[e] - k_proj2_before_v[e] * sin1_v[e];
            k2_v[e] = k_proj2_before_v[e] * cos2_v[e] + k_proj1_before_v[e] * sin2_v[e];
        }
        store(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS, k1_v);
        store(qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS + HS / 2,
            k2_v);
    }
}

// swiglu_forward:
//   y = silu(gate) * up
//   where gate, up = gate_up_proj
// From the graph's Sigmoid, Mul (model.layers.{0..1}.mlp)
// A thread for each 4 elements.
THUNDER_KERNEL(256) swiglu_forward_kernel(Global<float> y, Global<const float> gate_up_proj) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = H;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 4)) return;
    const int row = i / (width / 4);
    const int c = i % (width / 4) * 4;
    const auto gate_v = load<4>(gate_up_proj + row * 2 * H + c);
    const auto up_v = load<4>(gate_up_proj + row * 2 * H + c + H);
    Vec<float, 4> y_v;
    THUNDER_UNROLL
    for (int e = 0; e < 4; ++e) {
        const float silu = gate_v[e] * math::sigmoid(gate_v[e]);
        y_v[e] = silu * up_v[e];
    }
    store(y + row * width + c, y_v);
}

// swiglu_backward:
//   y = silu(gate) * up
//   dgate = dy * up * silu'(gate)
//   dup = dy * silu(gate)
//   where gate, up = gate_up_proj
//   where dgate_up_proj = dgate, dup
// From the graph's Sigmoid, Mul (model.layers.{0..1}.mlp)
// A thread for each 4 elements of each piece.
THUNDER_KERNEL(256) swiglu_backward_kernel(Aliased<float> y, Aliased<float> dgate_up_proj,
    Aliased<const float> gate_up_proj, Aliased<const float> dy) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = H;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 4)) return;
    const int row = i / (width / 4);
    const int c = i % (width / 4) * 4;
    const auto gate_v = load<4>(gate_up_proj + row * 2 * H + c);
    const auto up_v = load<4>(gate_up_proj + row * 2 * H + c + H);
    const auto dy_v = load<4>(dy + row * width + c);
    Vec<float, 4> y_v;
    Vec<float, 4> dgate_v;
    Vec<float, 4> dup_v;
    THUNDER_UNROLL
    for (int e = 0; e < 4; ++e) {
        const float sigmoid = math::sigmoid(gate_v[e]);
        const float silu = gate_v[e] * sigmoid;
        const float slope = sigmoid * (gate_v[e] * (1.0F - sigmoid) + 1.0F);
        y_v[e] = silu * up_v[e];
        dgate_v[e] = dy_v[e] * up_v[e] * slope;
        dup_v[e] = dy_v[e] * silu;
    }
    store(y + row * width + c, y_v);
    store(dgate_up_proj + row * 2 * H + c, dgate_v);
    store(dgate_up_proj + row * 2 * H + c + H, dup_v);
}

// rms_norm_backward_add:
//   y = normed * weight
//   dx = dresidual_in + dx_own
//   dweight += sum_{B,T}(dy * normed)
//   where normed = x * rstd
//   where dnormed = dy * weight
//   where dx_own = rstd * (dnormed - normed * mean_C(dnormed * normed))
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.post_attention_layernorm,
// model.layers.{0..1}.input_layernorm)
// One block, whose warps take row after row; a row stays in registers; the sums over the rows are one partial sum for
// each block.
THUNDER_KERNEL(256) rms_norm_backward_add_kernel(Aliased<float> y, Aliased<float> dx, Aliased<const float> x,
    Global<const float> rstd, Global<const float> weight, Aliased<const float> dy, Aliased<const float> dresidual_in,
    Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = C;
    Vec<float, 4> column_sum = {};
    const int c = lane() * 4;
    Vec<float, 4> weight_v;
    if (c < width) {
        weight_v = load<4>(weight + c);
    }
    for (int row = block_index() * 8 + warp(); row < rows; row += 8) {
        const int next = row + 8;
        if (next < rows) {
            if (c < width) {
                prefetch(x + next * width + c);
                prefetch(dy + next * width + c);
                prefetch(dresidual_in + next * width + c);
            }
        }
        Vec<float, 4> x_v;
        Vec<float, 4> dy_v;
        Vec<float, 4> dresidual_in_v;
        const float rstd_of_row = rstd[row];
        float sum = 0.0F;
        if (c < width) {
            x_v = load<4>(x + row * width + c);
            dy_v = load<4>(dy + row * width + c);
            dresidual_in_v = load<4>(dresidual_in + row * width + c);
            THUNDER_UNROLL
            for (int e = 0; e < 4; ++e) {
                const float normed = x_v[e] * rstd_of_row;
                const float dnormed = dy_v[e] * weight_v[e];
                sum += dnormed * normed;
            }
        }
        sum = warp_sum(sum);
        const float mean_dot = sum / width;
        if (c < width) {
            Vec<float, 4> y_v;
            Vec<float, 4> dx_v;
            THUNDER_UNROLL
            for (int e = 0; e < 4; ++e) {
                const float normed = x_v[e] * rstd_of_row;
                const float dnormed = dy_v[e] * weight_v[e];
                const float dx_own = rstd_of_row * (dnormed - normed * mean_dot);
                column_sum[e] += dy_v[e] * normed;
                y_v[e] = normed * weight_v[e];
                dx_v[e] = dresidual_in_v[e] + dx_own;
            }
            store(y + row * width + c, y_v);
            store(dx + row * width + c, dx_v);
        }
    }
    THUNDER_SHARED(float, totals, width);
    for (int w = 0; w < 8; ++w) {
        if (warp() == w) {
            if (c < width) {
                THUNDER_UNROLL
                for (int e = 0; e < 4; ++e) {
                    totals[c + e] = w == 0 ? column_sum[e] : totals[c + e] + column_sum[e];
                }
            }
        }
        barrier();
    }
    for (int p = thread_index(); p < width; p += 256) {
        partials[block_index() * width + p] = totals[p];
    }
}

// Writes the sums: one block has added up all rows.
THUNDER_KERNEL(256) rms_norm_backward_add_finish(Aliased<float> dweight, WriteMode mode, Global<const float> partials) {
    wait_for_previous_kernel();
    constexpr int sums = C;
    THUNDER_SHARED(float, shared, 256);
    const int p = block_index() * 32 + lane();
    float sum = 0.0F;
    for (int b = warp(); p < sums && b < 1; b += 8) {
        sum += partials[b * sums + p];
    }
    shared[thread_index()] = sum;
    barrier();
    if (warp() != 0 || p >= sums) return;
    THUNDER_UNROLL
    for (int w = 1; w < 8; ++w) sum += shared[w * 32 + lane()];
    const bool overwrite = mode == WriteMode::overwrite;
    dweight[p] = overwrite ? sum : dweight[p] + sum;
}

// rotary_inverse:
//   dq_proj1 = dq_rotated1 * cos1 + dq_rotated2 * sin2
//   dq_proj2 = dq_rotated2 * cos2 - dq_rotated1 * sin1
//   dk_proj1 = dk_rotated1 * cos1 + dk_rotated2 * sin2
//   dk_proj2 = dk_rotated2 * cos2 - dk_rotated1 * sin1
//   where dqkv_proj = dq_proj1, dq_proj2, dk_proj1, dk_proj2, in place of dk_rotated, dq_rotated
// From the graph's Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
// A thread for each 2 elements of each piece.
THUNDER_KERNEL(256) rotary_inverse_kernel(Aliased<float> dqkv_proj, Global<const float> sin, Global<const float> cos) {
    wait_for_previous_kernel();
    if (block_index() < 1) {
        // dq_proj
        const int block = block_index();
        constexpr int rows = B * T * NH, width = HS / 2;
        const int i = block * 256 + thread_index();
        if (i >= rows * (width / 2)) return;
        const int row = i;
        constexpr int c = 0;
        const int b = row / (T * NH);
        const int t = row / NH % T;
        const int h = row % NH;
        const auto dq_rotated1_before_v =
            load<2>(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto dq_rotated2_before_v =
            load<2>(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + HS / 2);
        const auto sin2_v = load<2>(sin + t * HS + c + HS / 2);
        const auto cos2_v = load<2>(cos + t * HS + c + HS / 2);
        const auto sin1_v = load<2>(sin + t * HS + c);
        Vec<float, 2> dq_proj1_v;
        Vec<float, 2> dq_proj2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            dq_proj1_v[e] = dq_rotated1_before_v[e] * cos1_v[e] + dq_rotated2_before_v[e] * sin2_v[e];
            dq_proj2_v[e] = dq_rotated2_before_v[e] * cos2_v[e] - dq_rotated1_before_v[e] * sin1_v[e];
        }
        store(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c, dq_proj1_v);
        store(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + HS / 2, dq_proj2_v);
        return;
    }
    {
        // dk_proj
        const int block = block_index() - 1;
        constexpr int rows = B * T * KVH, width = HS / 2;
        const int i = block * 256 + thread_index();
        if (i >= rows * (width / 2)) return;
        const int row = i;
        constexpr int c = 0;
        const int b = row / (T * KVH);
        const int t = row / KVH % T;
        const int h = row % KVH;
        const auto dk_rotated1_before_v =
            load<2>(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto dk_rotated2_before_v =
            load<2>(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS + HS / 2);
        const auto sin2_v = load<2>(sin + t * HS + c + HS / 2);
        const auto cos2_v = load<2>(cos + t * HS + c + HS / 2);
        const auto sin1_v = load<2>(sin + t * HS + c);
        Vec<float, 2> dk_proj1_v;
        Vec<float, 2> dk_proj2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            dk_proj1_v[e] = dk_rotated1_before_v[e] * cos1_v[e] + dk_rotated2_before_v[e] * sin2_v[e];
            dk_proj2_v[e] = dk_rotated2_before_v[e] * cos2_v[e] - dk_rotated1_before_v[e] * sin1_v[e];
        }
        store(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS, dk_proj1_v);
        store(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS + HS / 2,
            dk_proj2_v);
    }
}

}  // namespace kernels
