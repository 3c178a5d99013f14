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
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
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

// rms_norm_forward_fp8:
//   rstd = rsqrt(mean_C(x^2) + 1e-05)
//   y_e4m3 = e4m3(y * y_scale)
//   y_maxima = max_C(abs(y))
//   where y = (x * rstd * weight)
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.input_layernorm,
// model.layers.{0..1}.post_attention_layernorm)
// A warp for each row; a row stays in registers.
THUNDER_KERNEL(256) rms_norm_forward_fp8_kernel(Global<float> rstd, Global<e4m3> y_e4m3, Global<float> y_maxima,
    Global<const bf16> x, Global<const float> weight, Global<const float> y_scale) {
    wait_for_previous_kernel();
    constexpr int width = C;
    const float y_scale_value = y_scale[0];
    const int c = lane() * 8;
    const int row = block_index() * 8 + warp();
    Vec<bf16, 8> x_v;
    float sum = 0.0F;
    if (c < width) {
        x_v = load<8>(x + row * width + c);
        THUNDER_UNROLL
        for (int e = 0; e < 8; ++e) {
            const float x_c = to_float(x_v[e]);
            sum += x_c * x_c;
        }
    }
    sum = warp_sum(sum);
    const float rstd_of_row = math::rsqrt(sum / width + 1e-05F);
    float y_maxima_of_row = -math::infinity();
    if (c < width) {
        const auto weight_v = load<8>(weight + c);
        Vec<e4m3, 8> y_e4m3_v;
        THUNDER_UNROLL
        for (int e = 0; e < 8; ++e) {
            const float normed = to_float(x_v[e]) * rstd_of_row;
            const float y = to_float(to_bf16(normed * weight_v[e]));
            y_maxima_of_row = math::max<float>(y_maxima_of_row, fp8_magnitude(y));
            y_e4m3_v[e] = quantised<e4m3>(y * y_scale_value);
        }
        store(y_e4m3 + row * width + c, y_e4m3_v);
    }
    y_maxima_of_row = warp_max(y_maxima_of_row);
    if (lane() == 0) {
        rstd[row] = rstd_of_row;
        y_maxima[row] = y_maxima_of_row;
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
            load<2>(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto q_proj2_before_v =
            load<2>(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + HS / 2);
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
        store(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c, q1_v);
        store(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + HS / 2, q2_v);
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
            load<2>(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto k_proj2_before_v =
            load<2>(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C + HS / 2);
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
        store(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C, k1_v);
        store(qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C + HS / 2, k2_v);
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

// mlp_backward:
//   swiglu = silu(gate_proj) * up_proj
//   dgate_up_proj_e5m2_1 = e5m2(dgate_proj * gate_up_proj_gradient_scale)
//   dgate_up_proj_e5m2_2 = e5m2(dup_proj * gate_up_proj_gradient_scale)
//   dgate_up_proj_maxima = max(max_H(abs(dgate_proj)), max_H(abs(dup_proj)))
//   where dgate_proj = (dswiglu * up_proj * silu'(gate_proj))
//   where dup_proj = (dswiglu * silu(gate_proj))
//   where gate_proj, up_proj = gate_up_proj
// From the graph's Sigmoid, Mul, Transpose, MatMul (model.layers.{0..1}.mlp)
// A warp for each row.
THUNDER_KERNEL(256) mlp_backward_kernel(Aliased<bf16> swiglu, Global<e5m2> dgate_up_proj_e5m2,
    Global<float> dgate_up_proj_maxima, Global<const bf16> gate_up_proj, Aliased<const bf16> dswiglu,
    Global<const float> gate_up_proj_gradient_scale) {
    wait_for_previous_kernel();
    constexpr int width = H;
    const float gate_up_proj_gradient_scale_value = gate_up_proj_gradient_scale[0];
    const int c = lane() * 8;
    const int row = block_index() * 8 + warp();
    float largest = -math::infinity();
    float largest_2 = -math::infinity();
    if (c < width) {
        const auto dswiglu_v = load<8>(dswiglu + row * width + c);
        const auto up_proj_v = load<8>(gate_up_proj + row * 2 * H + c + H);
        const auto gate_proj_v = load<8>(gate_up_proj + row * 2 * H + c);
        Vec<bf16, 8> swiglu_v;
        Vec<e5m2, 8> dgate_up_proj_e5m2_1_v;
        Vec<e5m2, 8> dgate_up_proj_e5m2_2_v;
        THUNDER_UNROLL
        for (int e = 0; e < 8; ++e) {
            const float dswiglu_c = to_float(dswiglu_v[e]);
            const float up_proj = to_float(up_proj_v[e]);
            const float gate_proj = to_float(gate_proj_v[e]);
            const float sigmoid_2 = math::sigmoid(gate_proj);
            const float slope = sigmoid_2 * (gate_proj * (1.0F - sigmoid_2) + 1.0F);
            const float dgate_proj_2 = dswiglu_c * up_proj * slope;
            const float dgate_proj = to_float(to_bf16(dgate_proj_2));
            const float silu = gate_proj * sigmoid_2;
            const float dup_proj_2 = dswiglu_c * silu;
            const float dup_proj = to_float(to_bf16(dup_proj_2));
            largest = math::max<float>(largest, fp8_magnitude(dgate_proj));
            largest_2 = math::max<float>(largest_2, fp8_magnitude(dup_proj));
            swiglu_v[e] = to_bf16(silu * up_proj);
            dgate_up_proj_e5m2_1_v[e] = quantised<e5m2>(dgate_proj * gate_up_proj_gradient_scale_value);
            dgate_up_proj_e5m2_2_v[e] = quantised<e5m2>(dup_proj * gate_up_proj_gradient_scale_value);
        }
        store(swiglu + row * width + c, swiglu_v);
        store(dgate_up_proj_e5m2 + row * 2 * H + c, dgate_up_proj_e5m2_1_v);
        store(dgate_up_proj_e5m2 + row * 2 * H + c + H, dgate_up_proj_e5m2_2_v);
    }
    largest = warp_max(largest);
    largest_2 = warp_max(largest_2);
    if (lane() == 0) {
        dgate_up_proj_maxima[row] = math::max(largest, largest_2);
    }
}

// rms_norm_backward_add_fp8:
//   post_attention_layernorm_e4m3 = e4m3((normed * weight) * post_attention_layernorm_scale)
//   dresidual = dy_2 + rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dresidual_e5m2 = e5m2(dresidual * dresidual_scale)
//   dresidual_maxima = max_C(abs(dresidual))
//   dweight += sum_{B,T}(dy * normed)
//   where normed = x * rstd
//   where dnormed = dy * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.post_attention_layernorm)
// One block, whose warps take row after row; a row stays in registers; the sums over the rows are one partial sum for
// each block.
THUNDER_KERNEL(256) rms_norm_backward_add_fp8_kernel(Global<e4m3> post_attention_layernorm_e4m3,
    Aliased<bf16> dresidual, Global<e5m2> dresidual_e5m2, Aliased<float> dresidual_maxima, Aliased<const bf16> x,
    Aliased<const float> rstd, Global<const float> weight, Global<const float> post_attention_layernorm_scale,
    Aliased<const bf16> dy, Aliased<const bf16> dy_2, Global<const float> dresidual_scale, Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = C;
    const float post_attention_layernorm_scale_value = post_attention_layernorm_scale[0];
    const float dresidual_scale_value = dresidual_scale[0];
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
        float dresidual_maxima_of_row = -math::infinity();
        if (c < width) {
            Vec<e4m3, 8> post_attention_layernorm_e4m3_v;
            Vec<bf16, 8> dresidual_v;
            Vec<e5m2, 8> dresidual_e5m2_v;
            THUNDER_UNROLL
            for (int e = 0; e < 8; ++e) {
                const float normed = to_float(x_v[e]) * rstd_of_row;
                const float post_attention_layernorm = normed * weight_v[e];
                const float dpost_attention_layernorm = to_float(dy_v[e]);
                const float dnormed = dpost_attention_layernorm * weight_v[e];
                const float dresidual_c = to_float(dy_2_v[e]) + rstd_of_row * (dnormed - normed * mean_dot);
                const bf16 dresidual_c_2 = to_bf16(dresidual_c);
                const float dresidual_c_3 = to_float(dresidual_c_2);
                column_sum[e] += dpost_attention_layernorm * normed;
                dresidual_maxima_of_row = math::max<float>(dresidual_maxima_of_row, fp8_magnitude(dresidual_c_3));
                post_attention_layernorm_e4m3_v[e] =
                    quantised<e4m3>(to_float(to_bf16(post_attention_layernorm)) * post_attention_layernorm_scale_value);
                dresidual_v[e] = dresidual_c_2;
                dresidual_e5m2_v[e] = quantised<e5m2>(dresidual_c_3 * dresidual_scale_value);
            }
            store(post_attention_layernorm_e4m3 + row * width + c, post_attention_layernorm_e4m3_v);
            store(dresidual + row * width + c, dresidual_v);
            store(dresidual_e5m2 + row * width + c, dresidual_e5m2_v);
        }
        dresidual_maxima_of_row = warp_max(dresidual_maxima_of_row);
        warp_barrier();
        if (lane() == 0) {
            dresidual_maxima[row] = dresidual_maxima_of_row;
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
THUNDER_KERNEL(256) rms_norm_backward_add_fp8_finish(Aliased<float> dweight, WriteMode mode,
    Global<const float> partials) {
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
            load<2>(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto dq_rotated2_before_v =
            load<2>(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + HS / 2);
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
        store(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c, dq_proj1_v);
        store(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + HS / 2, dq_proj2_v);
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
            load<2>(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C);
        const auto cos1_v = load<2>(cos + t * HS + c);
        const auto dk_rotated2_before_v =
            load<2>(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C + HS / 2);
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
        store(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C, dk_proj1_v);
        store(dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4 + c + C + HS / 2, dk_proj2_v);
    }
}

// input_layernorm_rms_norm_backward_add_fp8:
//   input_layernorm_e4m3 = e4m3((normed * weight) * input_layernorm_scale)
//   dx = dresidual + rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dweight += sum_{B,T}(dy * normed)
//   where normed = x * rstd
//   where dnormed = dy * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.input_layernorm)
// One block, whose warps take row after row; a row stays in registers; the sums over the rows are one partial sum for
// each block.
THUNDER_KERNEL(256) input_layernorm_rms_norm_backward_add_fp8_kernel(Global<e4m3> input_layernorm_e4m3,
    Aliased<bf16> dx, Aliased<const bf16> x, Global<const float> rstd, Global<const float> weight,
    Global<const float> input_layernorm_scale, Aliased<const bf16> dy, Aliased<const bf16> dresidual,
    Global<float> partials) {
    wait_for_previous_kernel();
    constexpr int rows = B * T, width = C;
    const float input_layernorm_scale_value = input_layernorm_scale[0];
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
                prefetch(dresidual + next * width + c);
            }
        }
        Vec<bf16, 8> x_v;
        Vec<bf16, 8> dy_v;
        Vec<bf16, 8> dresidual_v;
        const float rstd_of_row = rstd[row];
        float sum = 0.0F;
        if (c < width) {
            x_v = load<8>(x + row * width + c);
            dy_v = load<8>(dy + row * width + c);
            dresidual_v = load<8>(dresidual + row * width + c);
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
            Vec<e4m3, 8> input_layernorm_e4m3_v;
            Vec<bf16, 8> dx_v;
            THUNDER_UNROLL
            for (int e = 0; e < 8; ++e) {
                const float normed = to_float(x_v[e]) * rstd_of_row;
                const float input_layernorm = normed * weight_v[e];
                const float dinput_layernorm = to_float(dy_v[e]);
                const float dnormed = dinput_layernorm * weight_v[e];
                const float dx_c = to_float(dresidual_v[e]) + rstd_of_row * (dnormed - normed * mean_dot);
                column_sum[e] += dinput_layernorm * normed;
                input_layernorm_e4m3_v[e] =
                    quantised<e4m3>(to_float(to_bf16(input_layernorm)) * input_layernorm_scale_value);
                dx_v[e] = to_bf16(dx_c);
            }
            store(input_layernorm_e4m3 + row * width + c, input_layernorm_e4m3_v);
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
THUNDER_KERNEL(256) input_layernorm_rms_norm_backward_add_fp8_finish(Aliased<float> dweight, WriteMode mode,
    Global<const float> partials) {
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

}  // namespace kernels
