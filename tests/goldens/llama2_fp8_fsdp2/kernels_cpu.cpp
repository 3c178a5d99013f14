// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row of x,
// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. "dw +=" adds to what dw holds, or
// overwrites it as the WriteMode says.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/bf16.h"           // to_float, to_bf16
#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile and --numerics see of a kernel

namespace vec_math = thunder::math;

using namespace thunder;

// rms_norm_forward:
//   rstd = rsqrt(mean_C(x^2) + 1e-05)
//   y = x * rstd * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm, model.layers.{0..1}.input_layernorm,
// model.layers.{0..1}.post_attention_layernorm)
void rms_norm_forward(float* rstd, bf16* y, const bf16* x, const float* weight, Stream& stream) {
    const Timed timed("rms_norm_forward", {.bytes = 1152, .flops = 2016}, {rstd, y}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* x_row = x + row * width;
            bf16* y_row = y + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                const float residual = to_float(x_row[c]);
                return residual * residual;
            });
            const float rstd_of_row = vec_math::rsqrt(sum / width + 1e-05F);
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float normed = to_float(x_row[c]) * rstd_of_row;
                y_row[c] = to_bf16(normed * weight[c]);
            }
            rstd[row] = rstd_of_row;
        }
    });
}

// add_to_loss_sum:
//   loss_sum += loss
void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream) {
    const Timed timed("add_to_loss_sum", {.bytes = 12, .flops = 1}, {loss_sum}, stream);
    loss_sum[0] = loss_sum[0] + loss[0];
}

// rms_norm_backward:
//   dx = rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dweight += sum_{B,T}(dy * normed)
//   where dnormed = dy * weight
//   where normed = x * rstd
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
void rms_norm_backward(bf16* dx, float* dweight, const bf16* dy, const float* weight, const bf16* x, const float* rstd,
    WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward", {.bytes = 1792, .flops = 4144}, {dx, dweight}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const bool overwrite = mode == WriteMode::overwrite;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* dy_row = dy + row * width;
                const bf16* x_row = x + row * width;
                bf16* dx_row = dx + row * width;
                const float rstd_of_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    const float dnormed = to_float(dy_row[c]) * weight[c];
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    return dnormed * normed;
                });
                const float mean_dot = sum / width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dnorm = to_float(dy_row[c]);
                    const float dnormed = dnorm * weight[c];
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    partial[c] += dnorm * normed;
                    dx_row[c] = to_bf16(rstd_of_row * (dnormed - normed * mean_dot));
                }
            }
        },
        [&](std::int64_t column, float sum) {
            dweight[column] = overwrite ? sum : dweight[column] + sum;
        });
}

// cross_entropy_weight:
//   loss_weight += sum(labels != -100)
void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream) {
    const Timed timed("cross_entropy_weight", {.bytes = 136, .flops = 49}, {loss_weight}, stream);
    constexpr std::int64_t width = B * T;
    const float loss_weight_before = loss_weight[0];
    const float weight = row_sum<float>(width, [&](std::int64_t c) {
        return vec_math::number<float>(labels[c] != -100);
    });
    loss_weight[0] = loss_weight_before + weight;
}

// rotary:
//   q1 = q_proj1 * cos1 - q_proj2 * sin1
//   q2 = q_proj2 * cos2 + q_proj1 * sin2
//   k1 = k_proj1 * cos1 - k_proj2 * sin1
//   k2 = k_proj2 * cos2 + k_proj1 * sin2
//   where qkv_proj_rotated = q1, q2, k1, k2, in place of q_proj1, q_proj2, k_proj1, k_proj2
// From the graph's Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
void rotary(bf16* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary", {.bytes = 1792, .flops = 1920}, {qkv_proj_rotated}, stream);
    {
        // q
        constexpr std::int64_t rows = B * T * NH, width = HS / 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / (T * NH);
                const std::int64_t t = row / NH % T;
                const std::int64_t h = row % NH;
                bf16* qkv_proj_rotated_row = qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) +
                    h * 4;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float q_proj1 = to_float(qkv_proj_rotated_row[c]);
                    const float q_proj2 = to_float(qkv_proj_rotated_row[c + HS / 2]);
                    const float q1 = q_proj1 * cos_row[c] - q_proj2 * sin_row[c];
                    const float q2 = q_proj2 * cos_row[c + HS / 2] + q_proj1 * sin_row[c + HS / 2];
                    qkv_proj_rotated_row[c] = to_bf16(q1);
                    qkv_proj_rotated_row[c + HS / 2] = to_bf16(q2);
                }
            }
        });
    }
    {
        // k
        constexpr std::int64_t rows = B * T * KVH, width = HS / 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / (T * KVH);
                const std::int64_t t = row / KVH % T;
                const std::int64_t h = row % KVH;
                bf16* qkv_proj_rotated_row = qkv_proj_rotated + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) +
                    h * 4;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float k_proj1 = to_float(qkv_proj_rotated_row[c + C]);
                    const float k_proj2 = to_float(qkv_proj_rotated_row[c + C + HS / 2]);
                    const float k1 = k_proj1 * cos_row[c] - k_proj2 * sin_row[c];
                    const float k2 = k_proj2 * cos_row[c + HS / 2] + k_proj1 * sin_row[c + HS / 2];
                    qkv_proj_rotated_row[c + C] = to_bf16(k1);
                    qkv_proj_rotated_row[c + C + HS / 2] = to_bf16(k2);
                }
            }
        });
    }
}

// swiglu_forward:
//   y = silu(gate) * up
//   where gate, up = gate_up_proj
// From the graph's Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_forward(bf16* y, const bf16* gate_up_proj, Stream& stream) {
    const Timed timed("swiglu_forward", {.bytes = 2304, .flops = 6528}, {y}, stream);
    constexpr std::int64_t rows = B * T, width = H;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* gate_up_proj_row = gate_up_proj + row * 2 * H;
            bf16* y_row = y + row * width;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float gate = to_float(gate_up_proj_row[c]);
                const float silu = gate * vec_math::sigmoid(gate);
                const float up = to_float(gate_up_proj_row[c + H]);
                y_row[c] = to_bf16(silu * up);
            }
        }
    });
}

// swiglu_backward:
//   y = silu(gate) * up
//   dgate = dy * up * silu'(gate)
//   dup = dy * silu(gate)
//   where gate, up = gate_up_proj
//   where dgate_up_proj = dgate, dup
// From the graph's Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_backward(bf16* y, bf16* dgate_up_proj, const bf16* gate_up_proj, const bf16* dy, Stream& stream) {
    const Timed timed("swiglu_backward", {.bytes = 4608, .flops = 10368}, {y, dgate_up_proj}, stream);
    constexpr std::int64_t rows = B * T, width = H;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* gate_up_proj_row = gate_up_proj + row * 2 * H;
            const bf16* dy_row = dy + row * width;
            bf16* y_row = y + row * width;
            bf16* dgate_up_proj_row = dgate_up_proj + row * 2 * H;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float gate = to_float(gate_up_proj_row[c]);
                const float sigmoid = vec_math::sigmoid(gate);
                const float silu = gate * sigmoid;
                const float up = to_float(gate_up_proj_row[c + H]);
                const float dswiglu = to_float(dy_row[c]);
                const float slope = sigmoid * (gate * (1.0F - sigmoid) + 1.0F);
                const float dgate = dswiglu * up * slope;
                const float dup = dswiglu * silu;
                const bf16 y_c = to_bf16(silu * up);
                y_row[c] = y_c;
                dgate_up_proj_row[c] = to_bf16(dgate);
                dgate_up_proj_row[c + H] = to_bf16(dup);
            }
        }
    });
}

// rms_norm_backward_add:
//   post_attention_layernorm = normed * weight
//   dresidual = dy_2 + rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dweight += sum_{B,T}(dy * normed)
//   where normed = x * rstd
//   where dnormed = dy * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.post_attention_layernorm,
// model.layers.{0..1}.input_layernorm)
void rms_norm_backward_add(bf16* post_attention_layernorm, bf16* dresidual, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const bf16* dy, const bf16* dy_2, WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward_add", {.bytes = 2816, .flops = 5168},
        {post_attention_layernorm, dresidual, dweight}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const bool overwrite = mode == WriteMode::overwrite;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* x_row = x + row * width;
                const bf16* dy_2_row = dy_2 + row * width;
                const bf16* dy_row = dy + row * width;
                bf16* post_attention_layernorm_row = post_attention_layernorm + row * width;
                bf16* dresidual_row = dresidual + row * width;
                const float rstd_of_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    const float dnormed = to_float(dy_row[c]) * weight[c];
                    return dnormed * normed;
                });
                const float mean_dot = sum / width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    const float post_attention_layernorm_c = normed * weight[c];
                    const float dpost_attention_layernorm = to_float(dy_row[c]);
                    const float dnormed = dpost_attention_layernorm * weight[c];
                    const float dresidual_c = to_float(dy_2_row[c]) + rstd_of_row * (dnormed - normed * mean_dot);
                    partial[c] += dpost_attention_layernorm * normed;
                    post_attention_layernorm_row[c] = to_bf16(post_attention_layernorm_c);
                    dresidual_row[c] = to_bf16(dresidual_c);
                }
            }
        },
        [&](std::int64_t column, float sum) {
            dweight[column] = overwrite ? sum : dweight[column] + sum;
        });
}

// rotary_inverse:
//   dq_proj1 = dq_rotated1 * cos1 + dq_rotated2 * sin2
//   dq_proj2 = dq_rotated2 * cos2 - dq_rotated1 * sin1
//   dk_proj1 = dk_rotated1 * cos1 + dk_rotated2 * sin2
//   dk_proj2 = dk_rotated2 * cos2 - dk_rotated1 * sin1
//   where dqkv_proj = dq_proj1, dq_proj2, dk_proj1, dk_proj2, in place of dk_rotated, dq_rotated
// From the graph's Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
void rotary_inverse(bf16* dqkv_proj, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary_inverse", {.bytes = 1792, .flops = 1920}, {dqkv_proj}, stream);
    {
        // dq_proj
        constexpr std::int64_t rows = B * T * NH, width = HS / 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / (T * NH);
                const std::int64_t t = row / NH % T;
                const std::int64_t h = row % NH;
                bf16* dqkv_proj_row = dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dq_rotated1 = to_float(dqkv_proj_row[c]);
                    const float dq_rotated2 = to_float(dqkv_proj_row[c + HS / 2]);
                    const float dq_proj1 = dq_rotated1 * cos_row[c] + dq_rotated2 * sin_row[c + HS / 2];
                    const float dq_proj2 = dq_rotated2 * cos_row[c + HS / 2] - dq_rotated1 * sin_row[c];
                    dqkv_proj_row[c] = to_bf16(dq_proj1);
                    dqkv_proj_row[c + HS / 2] = to_bf16(dq_proj2);
                }
            }
        });
    }
    {
        // dk_proj
        constexpr std::int64_t rows = B * T * KVH, width = HS / 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / (T * KVH);
                const std::int64_t t = row / KVH % T;
                const std::int64_t h = row % KVH;
                bf16* dqkv_proj_row = dqkv_proj + b * T * (C + 2 * KVH * HS) + t * (C + 2 * KVH * HS) + h * 4;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dk_rotated1 = to_float(dqkv_proj_row[c + C]);
                    const float dk_rotated2 = to_float(dqkv_proj_row[c + C + HS / 2]);
                    const float dk_proj1 = dk_rotated1 * cos_row[c] + dk_rotated2 * sin_row[c + HS / 2];
                    const float dk_proj2 = dk_rotated2 * cos_row[c + HS / 2] - dk_rotated1 * sin_row[c];
                    dqkv_proj_row[c + C] = to_bf16(dk_proj1);
                    dqkv_proj_row[c + C + HS / 2] = to_bf16(dk_proj2);
                }
            }
        });
    }
}
