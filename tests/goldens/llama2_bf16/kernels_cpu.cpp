// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x. "dw +=" adds to dw_before, but for a step's first micro-step.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/bf16.h"           // to_float, to_bf16
#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile shows of a kernel

namespace vec_math = thunder::math;

using namespace thunder;

// rms_norm_forward:
//   rstd = rsqrt(mean(x^2) + 1e-05)
//   y = x * rstd * weight
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm, model.layers.{0..1}.input_layernorm,
// model.layers.{0..1}.post_attention_layernorm)
void rms_norm_forward(float* rstd, bf16* y, const bf16* x, const float* weight, Stream& stream) {
    const Timed timed("rms_norm_forward", {.bytes = 1152, .flops = 2016}, stream);
    constexpr std::int64_t rows = 16, width = 16;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* x_row = x + row * width;
            bf16* y_row = y + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                const float residual = to_float(x_row[c]);
                return residual * residual;
            });
            const float rstd_2 = vec_math::rsqrt(sum * 0.0625F + 1e-05F);
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                y_row[c] = to_bf16(to_float(x_row[c]) * rstd_2 * weight[c]);
            }
            rstd[row] = rstd_2;
        }
    });
}

// rms_norm_backward:
//   dx = rstd * (dy * weight - x * rstd * mean(dy * weight * (x * rstd)))
//   dweight += sum over rows(dy * (x * rstd))
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
void rms_norm_backward(bf16* dx, float* dweight, const bf16* dy, const float* weight, const bf16* x, const float* rstd,
    const float* dweight_before, const bool* first_micro_step, Stream& stream) {
    const Timed timed("rms_norm_backward", {.bytes = 1793, .flops = 4144}, stream);
    constexpr std::int64_t rows = 16, width = 16;
    const bool first_micro_step_value = first_micro_step[0];
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* dy_row = dy + row * width;
                const bf16* x_row = x + row * width;
                bf16* dx_row = dx + row * width;
                const float rstd_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    return to_float(dy_row[c]) * weight[c] * (to_float(x_row[c]) * rstd_row);
                });
                const float mul = sum * 0.0625F;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dnorm = to_float(dy_row[c]);
                    const float mul_2 = to_float(x_row[c]) * rstd_row;
                    partial[c] += dnorm * mul_2;
                    dx_row[c] = to_bf16(rstd_row * (dnorm * weight[c] - mul_2 * mul));
                }
            }
        },
        [&](std::int64_t column, float sum) {
            dweight[column] = first_micro_step_value ? sum : dweight_before[column] + sum;
        });
}

// add_elements:
//   loss_sum_after = loss_sum + loss
void add_elements(float* loss_sum_after, const float* loss_sum, const float* loss, Stream& stream) {
    const Timed timed("add_elements", {.bytes = 12, .flops = 1}, stream);
    loss_sum_after[0] = loss_sum[0] + loss[0];
}

// cross_entropy_weight:
//   loss_weight_after = loss_weight + sum((labels != -100))
void cross_entropy_weight(float* loss_weight_after, const std::int64_t* labels, const float* loss_weight,
    Stream& stream) {
    const Timed timed("cross_entropy_weight", {.bytes = 136, .flops = 49}, stream);
    constexpr std::int64_t width = 16;
    const float loss_weight_value = loss_weight[0];
    const float sum = row_sum<float>(width, [&](std::int64_t c) {
        return static_cast<float>(labels[c] != -100);
    });
    loss_weight_after[0] = loss_weight_value + sum;
}

// rotary:
//   q1 = qkv_proj1 * cos1 - qkv_proj2 * sin1
//   q2 = qkv_proj2 * cos2 + qkv_proj1 * sin2
//   k1 = qkv_proj3 * cos1 - qkv_proj4 * sin1
//   k2 = qkv_proj4 * cos2 + qkv_proj3 * sin2
// Replaces Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
void rotary(bf16* q, bf16* k, const bf16* qkv_proj, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary", {.bytes = 1792, .flops = 1920}, stream);
    {
        // q
        constexpr std::int64_t rows = 64, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 32;
                const std::int64_t i1 = row / 4 % 8;
                const std::int64_t i2 = row % 4;
                const bf16* qkv_proj_row = qkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                bf16* q_row = q + i0 * 128 + i1 * 16 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float qkv_proj_2 = to_float(qkv_proj_row[c]);
                    const float qkv_proj_3 = to_float(qkv_proj_row[c + 2]);
                    const bf16 q_2 = to_bf16(qkv_proj_2 * cos_row[c] - qkv_proj_3 * sin_row[c]);
                    const bf16 q_3 = to_bf16(qkv_proj_3 * cos_row[c + 2] + qkv_proj_2 * sin_row[c + 2]);
                    q_row[c] = q_2;
                    q_row[c + 2] = q_3;
                }
            }
        });
    }
    {
        // k
        constexpr std::int64_t rows = 32, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 16;
                const std::int64_t i1 = row / 2 % 8;
                const std::int64_t i2 = row % 2;
                const bf16* qkv_proj_row = qkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                bf16* k_row = k + i0 * 64 + i1 * 8 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float qkv_proj_2 = to_float(qkv_proj_row[c + 16]);
                    const float qkv_proj_3 = to_float(qkv_proj_row[c + 18]);
                    const bf16 k_2 = to_bf16(qkv_proj_2 * cos_row[c] - qkv_proj_3 * sin_row[c]);
                    const bf16 k_3 = to_bf16(qkv_proj_3 * cos_row[c + 2] + qkv_proj_2 * sin_row[c + 2]);
                    k_row[c] = k_2;
                    k_row[c + 2] = k_3;
                }
            }
        });
    }
}

// swiglu_forward:
//   y = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2
// Replaces Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_forward(bf16* y, const bf16* gate_up_proj, Stream& stream) {
    const Timed timed("swiglu_forward", {.bytes = 2304, .flops = 6528}, stream);
    constexpr std::int64_t rows = 16, width = 24;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* gate_up_proj_row = gate_up_proj + row * 48;
            bf16* y_row = y + row * width;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float gate_up_proj_2 = to_float(gate_up_proj_row[c]);
                y_row[c] = to_bf16(gate_up_proj_2 * vec_math::sigmoid(gate_up_proj_2) *
                    to_float(gate_up_proj_row[c + 24]));
            }
        }
    });
}

// swiglu_backward:
//   y = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2
//   dgate_up_proj1 = dy * gate_up_proj2 * (sigmoid(gate_up_proj1) * (gate_up_proj1 * (1 - sigmoid(gate_up_proj1)) + 1))
//   dgate_up_proj2 = dy * (gate_up_proj1 * sigmoid(gate_up_proj1))
// Replaces Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_backward(bf16* y, bf16* dgate_up_proj, const bf16* gate_up_proj, const bf16* dy, Stream& stream) {
    const Timed timed("swiglu_backward", {.bytes = 4608, .flops = 10368}, stream);
    constexpr std::int64_t rows = 16, width = 24;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const bf16* gate_up_proj_row = gate_up_proj + row * 48;
            const bf16* dy_row = dy + row * width;
            bf16* y_row = y + row * width;
            bf16* dgate_up_proj_row = dgate_up_proj + row * 48;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float gate_up_proj_2 = to_float(gate_up_proj_row[c]);
                const float sigmoid = vec_math::sigmoid(gate_up_proj_2);
                const float mul = gate_up_proj_2 * sigmoid;
                const float gate_up_proj_3 = to_float(gate_up_proj_row[c + 24]);
                const float dswiglu = to_float(dy_row[c]);
                const float dgate = dswiglu * gate_up_proj_3 * (sigmoid * (gate_up_proj_2 * (1.0F - sigmoid) + 1.0F));
                const bf16 y_2 = to_bf16(mul * gate_up_proj_3);
                const bf16 dgate_up_proj_2 = to_bf16(dgate);
                const bf16 dgate_up_proj_3 = to_bf16(dswiglu * mul);
                y_row[c] = y_2;
                dgate_up_proj_row[c] = dgate_up_proj_2;
                dgate_up_proj_row[c + 24] = dgate_up_proj_3;
            }
        }
    });
}

// rms_norm_backward_add:
//   post_attention_layernorm = x * rstd * weight
//   dresidual = dy_2 + rstd * (dy * weight - x * rstd * mean(dy * weight * (x * rstd)))
//   dweight += sum over rows(dy * (x * rstd))
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.post_attention_layernorm,
// model.layers.{0..1}.input_layernorm)
void rms_norm_backward_add(bf16* post_attention_layernorm, bf16* dresidual, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const bf16* dy, const bf16* dy_2, const float* dweight_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("rms_norm_backward_add", {.bytes = 2817, .flops = 5168}, stream);
    constexpr std::int64_t rows = 16, width = 16;
    const bool first_micro_step_value = first_micro_step[0];
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* x_row = x + row * width;
                const bf16* dy_2_row = dy_2 + row * width;
                const bf16* dy_row = dy + row * width;
                bf16* post_attention_layernorm_row = post_attention_layernorm + row * width;
                bf16* dresidual_row = dresidual + row * width;
                const float rstd_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    return to_float(dy_row[c]) * weight[c] * (to_float(x_row[c]) * rstd_row);
                });
                const float mul = sum * 0.0625F;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float mul_2 = to_float(x_row[c]) * rstd_row;
                    const float dpost_attention_layernorm = to_float(dy_row[c]);
                    const float dresidual_2 = to_float(dy_2_row[c]) + rstd_row *
                        (dpost_attention_layernorm * weight[c] - mul_2 * mul);
                    const bf16 post_attention_layernorm_2 = to_bf16(mul_2 * weight[c]);
                    const bf16 dresidual_3 = to_bf16(dresidual_2);
                    partial[c] += dpost_attention_layernorm * mul_2;
                    post_attention_layernorm_row[c] = post_attention_layernorm_2;
                    dresidual_row[c] = dresidual_3;
                }
            }
        },
        [&](std::int64_t column, float sum) {
            dweight[column] = first_micro_step_value ? sum : dweight_before[column] + sum;
        });
}

// rotary_inverse:
//   dqkv_proj1 = dq1 * cos1 + dq2 * sin2
//   dqkv_proj2 = dq2 * cos2 - dq1 * sin1
//   dqkv_proj3 = dk1 * cos1 + dk2 * sin2
//   dqkv_proj4 = dk2 * cos2 - dk1 * sin1
//   dqkv_proj5 = dv_proj
// Replaces Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
void rotary_inverse(bf16* dqkv_proj, const bf16* dk, const float* sin, const float* cos, const bf16* dq,
    const bf16* dv_proj, Stream& stream) {
    const Timed timed("rotary_inverse", {.bytes = 2304, .flops = 1920}, stream);
    {
        // dqkv_proj
        constexpr std::int64_t rows = 64, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 32;
                const std::int64_t i1 = row / 4 % 8;
                const std::int64_t i2 = row % 4;
                const bf16* dq_row = dq + i0 * 128 + i1 * 16 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                bf16* dqkv_proj_row = dqkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dq_2 = to_float(dq_row[c]);
                    const float dq_3 = to_float(dq_row[c + 2]);
                    const bf16 dqkv_proj_2 = to_bf16(dq_2 * cos_row[c] + dq_3 * sin_row[c + 2]);
                    const bf16 dqkv_proj_3 = to_bf16(dq_3 * cos_row[c + 2] - dq_2 * sin_row[c]);
                    dqkv_proj_row[c] = dqkv_proj_2;
                    dqkv_proj_row[c + 2] = dqkv_proj_3;
                }
            }
        });
    }
    {
        // dqkv_proj
        constexpr std::int64_t rows = 32, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 16;
                const std::int64_t i1 = row / 2 % 8;
                const std::int64_t i2 = row % 2;
                const bf16* dk_row = dk + i0 * 64 + i1 * 8 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                bf16* dqkv_proj_row = dqkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dk_2 = to_float(dk_row[c]);
                    const float dk_3 = to_float(dk_row[c + 2]);
                    const bf16 dqkv_proj_2 = to_bf16(dk_2 * cos_row[c] + dk_3 * sin_row[c + 2]);
                    const bf16 dqkv_proj_3 = to_bf16(dk_3 * cos_row[c + 2] - dk_2 * sin_row[c]);
                    dqkv_proj_row[c + 16] = dqkv_proj_2;
                    dqkv_proj_row[c + 18] = dqkv_proj_3;
                }
            }
        });
    }
    {
        // dqkv_proj
        constexpr std::int64_t rows = 16, width = 8;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const bf16* dv_proj_row = dv_proj + row * width;
                bf16* dqkv_proj_row = dqkv_proj + row * 32;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    dqkv_proj_row[c + 24] = dv_proj_row[c];
                }
            }
        });
    }
}
