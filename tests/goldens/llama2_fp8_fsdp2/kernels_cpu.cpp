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
#include "device/fp8.h"                // quantised, fp8_magnitude
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile and --numerics see of a kernel

namespace vec_math = thunder::math;

using namespace thunder;

// rms_norm_forward:
//   rstd = rsqrt(mean_C(x^2) + 1e-05)
//   y = x * rstd * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
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

// rms_norm_forward_fp8:
//   rstd = rsqrt(mean_C(x^2) + 1e-05)
//   y_e4m3 = e4m3(y * y_scale)
//   y_maxima = max_C(abs(y))
//   where y = (x * rstd * weight)
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.input_layernorm,
// model.layers.{0..1}.post_attention_layernorm)
void rms_norm_forward_fp8(float* rstd, e4m3* y_e4m3, float* y_maxima, const bf16* x, const float* weight,
    const float* y_scale, Stream& stream) {
    const Timed timed("rms_norm_forward_fp8", {.bytes = 964, .flops = 3040}, {rstd, y_e4m3, y_maxima}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const float y_scale_value = y_scale[0];
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* x_row = x + row * width;
            e4m3* y_e4m3_row = y_e4m3 + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                const float x_c = to_float(x_row[c]);
                return x_c * x_c;
            });
            const float rstd_of_row = vec_math::rsqrt(sum / width + 1e-05F);
            const float y_maxima_of_row = row_max<float>(width, [&](std::int64_t c) {
                const float normed = to_float(x_row[c]) * rstd_of_row;
                return fp8_magnitude(to_float(to_bf16(normed * weight[c])));
            });
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float normed = to_float(x_row[c]) * rstd_of_row;
                y_e4m3_row[c] = quantised<e4m3>(to_float(to_bf16(normed * weight[c])) * y_scale_value);
            }
            rstd[row] = rstd_of_row;
            y_maxima[row] = y_maxima_of_row;
        }
    });
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

// mlp_backward:
//   swiglu = silu(gate_proj) * up_proj
//   dgate_up_proj_e5m2_1 = e5m2(dgate_proj * gate_up_proj_gradient_scale)
//   dgate_up_proj_e5m2_2 = e5m2(dup_proj * gate_up_proj_gradient_scale)
//   dgate_up_proj_maxima = max(max_H(abs(dgate_proj)), max_H(abs(dup_proj)))
//   where dgate_proj = (dswiglu * up_proj * silu'(gate_proj))
//   where dup_proj = (dswiglu * silu(gate_proj))
//   where gate_proj, up_proj = gate_up_proj
// From the graph's Sigmoid, Mul, Transpose, MatMul (model.layers.{0..1}.mlp)
void mlp_backward(bf16* swiglu, e5m2* dgate_up_proj_e5m2, float* dgate_up_proj_maxima, const bf16* gate_up_proj,
    const bf16* dswiglu, const float* gate_up_proj_gradient_scale, Stream& stream) {
    const Timed timed("mlp_backward", {.bytes = 3908, .flops = 13632},
        {swiglu, dgate_up_proj_e5m2, dgate_up_proj_maxima}, stream);
    constexpr std::int64_t rows = B * T, width = H;
    const float gate_up_proj_gradient_scale_value = gate_up_proj_gradient_scale[0];
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* dswiglu_row = dswiglu + row * width;
            const bf16* gate_up_proj_row = gate_up_proj + row * 2 * H;
            bf16* swiglu_row = swiglu + row * width;
            e5m2* dgate_up_proj_e5m2_row = dgate_up_proj_e5m2 + row * 2 * H;
            const float largest = row_max<float>(width, [&](std::int64_t c) {
                const float up_proj = to_float(gate_up_proj_row[c + H]);
                const float gate_proj = to_float(gate_up_proj_row[c]);
                const float sigmoid_2 = vec_math::sigmoid(gate_proj);
                const float slope = sigmoid_2 * (gate_proj * (1.0F - sigmoid_2) + 1.0F);
                const float dgate_proj_2 = to_float(dswiglu_row[c]) * up_proj * slope;
                return fp8_magnitude(to_float(to_bf16(dgate_proj_2)));
            });
            const float largest_2 = row_max<float>(width, [&](std::int64_t c) {
                const float gate_proj = to_float(gate_up_proj_row[c]);
                const float silu = gate_proj * vec_math::sigmoid(gate_proj);
                const float dup_proj_2 = to_float(dswiglu_row[c]) * silu;
                return fp8_magnitude(to_float(to_bf16(dup_proj_2)));
            });
            const float dgate_up_proj_maxima_of_row = vec_math::max(largest, largest_2);
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float dswiglu_c = to_float(dswiglu_row[c]);
                const float up_proj = to_float(gate_up_proj_row[c + H]);
                const float gate_proj = to_float(gate_up_proj_row[c]);
                const float sigmoid_2 = vec_math::sigmoid(gate_proj);
                const float slope = sigmoid_2 * (gate_proj * (1.0F - sigmoid_2) + 1.0F);
                const float dgate_proj_2 = dswiglu_c * up_proj * slope;
                const float silu = gate_proj * sigmoid_2;
                const float dup_proj_2 = dswiglu_c * silu;
                const bf16 swiglu_c = to_bf16(silu * up_proj);
                const e5m2 dgate_up_proj_e5m2_1 =
                    quantised<e5m2>(to_float(to_bf16(dgate_proj_2)) * gate_up_proj_gradient_scale_value);
                const e5m2 dgate_up_proj_e5m2_2 =
                    quantised<e5m2>(to_float(to_bf16(dup_proj_2)) * gate_up_proj_gradient_scale_value);
                swiglu_row[c] = swiglu_c;
                dgate_up_proj_e5m2_row[c] = dgate_up_proj_e5m2_1;
                dgate_up_proj_e5m2_row[c + H] = dgate_up_proj_e5m2_2;
            }
            dgate_up_proj_maxima[row] = dgate_up_proj_maxima_of_row;
        }
    });
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
void rms_norm_backward_add_fp8(e4m3* post_attention_layernorm_e4m3, bf16* dresidual, e5m2* dresidual_e5m2,
    float* dresidual_maxima, float* dweight, const bf16* x, const float* rstd, const float* weight,
    const float* post_attention_layernorm_scale, const bf16* dy, const bf16* dy_2, const float* dresidual_scale,
    WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward_add_fp8", {.bytes = 2888, .flops = 6704},
        {post_attention_layernorm_e4m3, dresidual, dresidual_e5m2, dresidual_maxima, dweight}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const float post_attention_layernorm_scale_value = post_attention_layernorm_scale[0];
    const float dresidual_scale_value = dresidual_scale[0];
    const bool overwrite = mode == WriteMode::overwrite;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* x_row = x + row * width;
                const bf16* dy_2_row = dy_2 + row * width;
                const bf16* dy_row = dy + row * width;
                e4m3* post_attention_layernorm_e4m3_row = post_attention_layernorm_e4m3 + row * width;
                bf16* dresidual_row = dresidual + row * width;
                e5m2* dresidual_e5m2_row = dresidual_e5m2 + row * width;
                const float rstd_of_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    const float dnormed = to_float(dy_row[c]) * weight[c];
                    return dnormed * normed;
                });
                const float mean_dot = sum / width;
                const float dresidual_maxima_of_row = row_max<float>(width, [&](std::int64_t c) {
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    const float dnormed = to_float(dy_row[c]) * weight[c];
                    const float dresidual_c = to_float(dy_2_row[c]) + rstd_of_row * (dnormed - normed * mean_dot);
                    return fp8_magnitude(to_float(to_bf16(dresidual_c)));
                });
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float normed = to_float(x_row[c]) * rstd_of_row;
                    const float post_attention_layernorm = normed * weight[c];
                    const float dpost_attention_layernorm = to_float(dy_row[c]);
                    const float dnormed = dpost_attention_layernorm * weight[c];
                    const float dresidual_c = to_float(dy_2_row[c]) + rstd_of_row * (dnormed - normed * mean_dot);
                    const bf16 dresidual_c_2 = to_bf16(dresidual_c);
                    const e4m3 post_attention_layernorm_e4m3_c =
                        quantised<e4m3>(to_float(to_bf16(post_attention_layernorm)) *
                        post_attention_layernorm_scale_value);
                    const e5m2 dresidual_e5m2_c = quantised<e5m2>(to_float(dresidual_c_2) * dresidual_scale_value);
                    partial[c] += dpost_attention_layernorm * normed;
                    post_attention_layernorm_e4m3_row[c] = post_attention_layernorm_e4m3_c;
                    dresidual_row[c] = dresidual_c_2;
                    dresidual_e5m2_row[c] = dresidual_e5m2_c;
                }
                dresidual_maxima[row] = dresidual_maxima_of_row;
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

// input_layernorm_rms_norm_backward_add_fp8:
//   input_layernorm_e4m3 = e4m3((normed * weight) * input_layernorm_scale)
//   dx = dresidual + rstd * (dnormed - normed * mean_C(dnormed * normed))
//   dweight += sum_{B,T}(dy * normed)
//   where normed = x * rstd
//   where dnormed = dy * weight
// From the graph's Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.input_layernorm)
void input_layernorm_rms_norm_backward_add_fp8(e4m3* input_layernorm_e4m3, bf16* dx, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const float* input_layernorm_scale, const bf16* dy, const bf16* dresidual,
    WriteMode mode, Stream& stream) {
    const Timed timed("input_layernorm_rms_norm_backward_add_fp8", {.bytes = 2564, .flops = 5680},
        {input_layernorm_e4m3, dx, dweight}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const float input_layernorm_scale_value = input_layernorm_scale[0];
    const bool overwrite = mode == WriteMode::overwrite;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* x_row = x + row * width;
                const bf16* dresidual_row = dresidual + row * width;
                const bf16* dy_row = dy + row * width;
                e4m3* input_layernorm_e4m3_row = input_layernorm_e4m3 + row * width;
                bf16* dx_row = dx + row * width;
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
                    const float input_layernorm = normed * weight[c];
                    const float dinput_layernorm = to_float(dy_row[c]);
                    const float dnormed = dinput_layernorm * weight[c];
                    const float dx_c = to_float(dresidual_row[c]) + rstd_of_row * (dnormed - normed * mean_dot);
                    const e4m3 input_layernorm_e4m3_c =
                        quantised<e4m3>(to_float(to_bf16(input_layernorm)) * input_layernorm_scale_value);
                    partial[c] += dinput_layernorm * normed;
                    input_layernorm_e4m3_row[c] = input_layernorm_e4m3_c;
                    dx_row[c] = to_bf16(dx_c);
                }
            }
        },
        [&](std::int64_t column, float sum) {
            dweight[column] = overwrite ? sum : dweight[column] + sum;
        });
}
