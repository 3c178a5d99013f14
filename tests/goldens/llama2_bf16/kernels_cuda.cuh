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
THUNDER_KERNEL(256) rms_norm_forward_kernel(Global<float> rstd, Aliased<bf16> y, Aliased<const bf16> x,
    Global<const float> weight) {
    wait_for_previous_kernel();
    constexpr int width = C;
    const int c = lane() * 8;
    const int row = block_index() * 8 + warp();
    Vec<bf16, 8> x_v;
    float sum = 0.0F;
    if (c < width) {
        x_v = load<8>(x + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 8; ++e) {
            const float residual = to_float(x_v[e]);
            sum += residual * residual;
        }
    }
    sum = warp_sum(sum);
    const float rstd_of_row = math::rsqrt(sum / width + 1e-05F);
    if (c < width) {
        const auto weight_v = load<8>(weight + c);
        Vec<bf16, 8> y_v;
        THUNDER_UNROLL
        for (int e = 0; e < 8; ++e) {
            const float normed = to_float(x_v[e]) * rstd_of_row;
            y_v[e] = to_bf16(normed * weight_v[e]);
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
THUNDER_KERNEL(256) rms_norm_backward_kernel(Aliased<bf16> dx, Aliased<const bf16> dy, Global<const float> weight,
    Aliased<const bf16> x, Global<const float> rstd, Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = C;
    Vec<float, 8> column_sum = {};
    const int c = lane() * 8;
    Vec<float, 8> weight_v;
    if (c < width) {
        weight_v = load<8>(weight + c);
    }
    for (int row = block_index() * 8 + warp(); row < rows; row += 8) {
        const int next = row + 8;
        if (next < rows) {
            if (c < width) {
                prefetch(dy + next * width + c);
                prefetch(x + next * width + c);
            }
        }
        Vec<bf16, 8> dy_v;
        Vec<bf16, 8> x_v;
        const float rstd_of_row = rstd[row];
        float sum = 0.0F;
        if (c < width) {
            dy_v = load<8>(dy + row * width + c);
            x_v = load<8>(x + row * width + c);
            THUNDER_UNROLL
            for (int e = 0; e < 8; ++e) {
                const float dnormed = to_float(dy_v[e]) * weight_v[e];
                const float normed = to_float(x_v[e]) * rstd_of_row;
                sum += dnormed * normed;
            }
        }
        sum = warp_sum(sum);
        const float mean_dot = sum / width;
        if (c < width) {
            Vec<bf16, 8> dx_v;
            THUNDER_UNROLL
            for (int e = 0; e < 8; ++e) {
                const float dnorm = to_float(dy_v[e]);
                const float dnormed = dnorm * weight_v[e];
                const float normed = to_float(x_v[e]) * rstd_of_row;
                column_sum[e] += dnorm * normed;
                dx_v[e] = to_bf16(rstd_of_row * (dnormed - normed * mean_dot));
            }
            store(dx + row * width + c, dx_v);
        }
    }
    THUNDER_SHARED(float, totals, width);
    for (int w = 0; w < 8; ++w) {
        if (warp() == w) {
            if (c < width) {
                THUNDER_UNROLL
                for (int e = 0; e < 8; ++e) {
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
THUNDER_KERNEL(256) rotary_kernel(Aliased<bf16> qkv_proj_rotated, Global<const float> sin, Global<const float> cos) {
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
        Vec<bf16, 2> q1_v;
        Vec<bf16, 2> q2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float q_proj1 = to_float(q_proj1_before_v[e]);
            const float q_proj2 = to_float(q_proj2_before_v[e]);
            const float q1 = q_proj1 * cos1_v[e] - q_proj2 * sin1_v[e];
            const float q2 = q_proj2 * cos2_v[e] + q_proj1 * sin2_v[e];
            q1_v[e] = to_bf16(q1);
            q2_v[e] = to_bf16(q2);
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
        Vec<bf16, 2> k1_v;
        Vec<bf16, 2> k2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float k_proj1 = to_float(k_proj1_before_v[e]);
            const float k_proj2 = to_float(k_proj2_before_v[e]);
            const float k1 = k_proj1 * cos1_v[e] - k_proj2 * sin1_v[e];
            const float k2 = k_proj2 * cos2_v[e] + k_proj1 * sin2_v[e];
            k1_v[e] = to_bf16(k1);
            k2_v[e] = to_bf16(k2);
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
// A thread for each 8 elements.
THUNDER_KERNEL(256) swiglu_forward_kernel(Global<bf16> y, Global<const bf16> gate_up_proj) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = H;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 8)) return;
    const int row = i / (width / 8);
    const int c = i % (width / 8) * 8;
    const auto gate_v = load<8>(gate_up_proj + row * 2 * H + c);
    const auto up_v = load<8>(gate_up_proj + row * 2 * H + c + H);
    Vec<bf16, 8> y_v;
    THUNDER_UNROLL
    for (int e = 0; e < 8; ++e) {
        const float gate = to_float(gate_v[e]);
        const float silu = gate * math::sigmoid(gate);
        const float up = to_float(up_v[e]);
        y_v[e] = to_bf16(silu * up);
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
// A thread for each 8 elements of each piece.
THUNDER_KERNEL(256) swiglu_backward_kernel(Aliased<bf16> y, Aliased<bf16> dgate_up_proj,
    Aliased<const bf16> gate_up_proj, Aliased<const bf16> dy) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = H;
    const int i = block_index() * 256 + thread_index();
    if (i >= rows * (width / 8)) return;
    const int row = i / (width / 8);
    const int c = i % (width / 8) * 8;
    const auto gate_v = load<8>(gate_up_proj + row * 2 * H + c);
    const auto up_v = load<8>(gate_up_proj + row * 2 * H + c + H);
    const auto dy_v = load<8>(dy + row * width + c);
    Vec<bf16, 8> y_v;
    Vec<bf16, 8> dgate_v;
    Vec<bf16, 8> dup_v;
    THUNDER_UNROLL
    for (int e = 0; e < 8; ++e) {
        const float gate = to_float(gate_v[e]);
        const float sigmoid = math::sigmoid(gate);
        const float silu = gate * sigmoid;
        const float up = to_float(up_v[e]);
        const float dswiglu = to_float(dy_v[e]);
        const float slope = sigmoid * (gate * (1.0F - sigmoid) + 1.0F);
        const float dgate = dswiglu * up * slope;
        const float dup = dswiglu * silu;
        y_v[e] = to_bf16(silu * up);
        dgate_v[e] = to_bf16(dgate);
        dup_v[e] = to_bf16(dup);
    }
    store(y + row * width + c, y_v);
    store(dgate_up_proj + row * 2 * H + c, dgate_v);
    store(dgate_up_proj + row * 2 * H + c + H, dup_v);
}

// rms_norm_backward_add:
//   post_attention_layernorm = normed * weight
//   dresidual = dy_2 + rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dweight += sum_{B,T}(dy * normed)
//   where normed = x * rstd
//   where dnormed = dy * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.post_attention_layernorm,
// model.layers.{0..1}.input_layernorm)
// One block, whose warps take row after row; a row stays in registers; the sums over the rows are one partial sum for
// each block.
THUNDER_KERNEL(256) rms_norm_backward_add_kernel(Aliased<bf16> post_attention_layernorm, Aliased<bf16> dresidual,
    Aliased<const bf16> x, Global<const float> rstd, Global<const float> weight, Aliased<const bf16> dy,
    Aliased<const bf16> dy_2, Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = C;
    Vec<float, 8> column_sum = {};
    const int c = lane() * 8;
    Vec<float, 8> weight_v;
    if (c < width) {
        weight_v = load<8>(weight + c);
    }
    for (int row = block_index() * 8 + warp(); row < rows; row += 8) {
        const int next = row + 8;
        if (next < rows) {
            if (c < width) {
                prefetch(x + next * width + c);
                prefetch(dy + next * width + c);
                prefetch(dy_2 + next * width + c);
            }
        }
        Vec<bf16, 8> x_v;
        Vec<bf16, 8> dy_v;
        Vec<bf16, 8> dy_2_v;
        const float rstd_of_row = rstd[row];
        float sum = 0.0F;
        if (c < width) {
            x_v = load<8>(x + row * width + c);
            dy_v = load<8>(dy + row * width + c);
            dy_2_v = load<8>(dy_2 + row * width + c);
            THUNDER_UNROLL
            for (int e = 0; e < 8; ++e) {
                const float normed = to_float(x_v[e]) * rstd_of_row;
                const float dnormed = to_float(dy_v[e]) * weight_v[e];
                sum += dnormed * normed;
            }
        }
        sum = warp_sum(sum);
        const float mean_dot = sum / width;
        if (c < width) {
            Vec<bf16, 8> post_attention_layernorm_v;
            Vec<bf16, 8> dresidual_v;
            THUNDER_UNROLL
            for (int e = 0; e < 8; ++e) {
                const float normed = to_float(x_v[e]) * rstd_of_row;
                const float post_attention_layernorm_c = normed * weight_v[e];
                const float dpost_attention_layernorm = to_float(dy_v[e]);
                const float dnormed = dpost_attention_layernorm * weight_v[e];
                const float dresidual_c = to_float(dy_2_v[e]) + rstd_of_row * (dnormed - normed * mean_dot);
                column_sum[e] += dpost_attention_layernorm * normed;
                post_attention_layernorm_v[e] = to_bf16(post_attention_layernorm_c);
                dresidual_v[e] = to_bf16(dresidual_c);
            }
            store(post_attention_layernorm + row * width + c, post_attention_layernorm_v);
            store(dresidual + row * width + c, dresidual_v);
        }
    }
    THUNDER_SHARED(float, totals, width);
    for (int w = 0; w < 8; ++w) {
        if (warp() == w) {
            if (c < width) {
                THUNDER_UNROLL
                for (int e = 0; e < 8; ++e) {
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
THUNDER_KERNEL(256) rotary_inverse_kernel(Aliased<bf16> dqkv_proj, Global<const float> sin, Global<const float> cos) {
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
        Vec<bf16, 2> dq_proj1_v;
        Vec<bf16, 2> dq_proj2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dq_rotated1 = to_float(dq_rotated1_before_v[e]);
            const float dq_rotated2 = to_float(dq_rotated2_before_v[e]);
            const float dq_proj1 = dq_rotated1 * cos1_v[e] + dq_rotated2 * sin2_v[e];
            const float dq_proj2 = dq_rotated2 * cos2_v[e] - dq_rotated1 * sin1_v[e];
            dq_proj1_v[e] = to_bf16(dq_proj1);
            dq_proj2_v[e] = to_bf16(dq_proj2);
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
        Vec<bf16, 2> dk_proj1_v;
        Vec<bf16, 2> dk_proj2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 2; ++e) {
            const float dk_rotated1 = to_float(dk_rotated1_before_v[e]);
            const float dk_rotated2 = to_float(dk_rotated2_before_v[e]);
            const float dk_proj1 = dk_rotated1 * cos1_v[e] + dk_rotated2 * sin2_v[e];
            const float dk_proj2 = dk_rotated2 * cos2_v[e] - dk_rotated1 * sin1_v[e];
            dk_proj1_v[e] = to_bf16(dk_proj1);
            dk_proj2_v[e] = to_bf16(dk_proj2);
        }
        store(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS, dk_proj1_v);
        store(dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS + c + NH * HS + HS / 2,
            dk_proj2_v);
    }
}

}  // namespace kernels
