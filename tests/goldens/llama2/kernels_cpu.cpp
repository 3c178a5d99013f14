// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x. "dw +=" adds to dw_before, but for a step's first micro-step.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

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
void rms_norm_forward(float* rstd, float* y, const float* x, const float* weight, Stream& stream) {
    const Timed timed("rms_norm_forward", {.bytes = 2176, .flops = 1248}, stream);
    constexpr std::int64_t rows = 16, width = 16;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* x_row = x + row * width;
            float* y_row = y + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                return x_row[c] * x_row[c];
            });
            const float rstd_2 = vec_math::rsqrt(sum * 0.0625F + 1e-05F);
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                y_row[c] = x_row[c] * rstd_2 * weight[c];
            }
            rstd[row] = rstd_2;
        }
    });
}

// rms_norm_backward:
//   dx = rstd * (dy * weight - x * rstd * mean(dy * weight * (x * rstd)))
//   dweight += sum over rows(dy * (x * rstd))
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
void rms_norm_backward(float* dx, float* dweight, const float* dy, const float* weight, const float* x,
    const float* rstd, const float* dweight_before, const bool* first_micro_step, Stream& stream) {
    const Timed timed("rms_norm_backward", {.bytes = 3329, .flops = 2864}, stream);
    constexpr std::int64_t rows = 16, width = 16;
    const bool first_micro_step_value = first_micro_step[0];
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* dy_row = dy + row * width;
                const float* x_row = x + row * width;
                float* dx_row = dx + row * width;
                const float rstd_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    return dy_row[c] * weight[c] * (x_row[c] * rstd_row);
                });
                const float mul = sum * 0.0625F;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float mul_2 = x_row[c] * rstd_row;
                    partial[c] += dy_row[c] * mul_2;
                    dx_row[c] = rstd_row * (dy_row[c] * weight[c] - mul_2 * mul);
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
void rotary(float* q, float* k, const float* qkv_proj, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary", {.bytes = 3328, .flops = 1152}, stream);
    {
        // q
        constexpr std::int64_t rows = 64, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 32;
                const std::int64_t i1 = row / 4 % 8;
                const std::int64_t i2 = row % 4;
                const float* qkv_proj_row = qkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* q_row = q + i0 * 128 + i1 * 16 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float sub = qkv_proj_row[c] * cos_row[c] - qkv_proj_row[c + 2] * sin_row[c];
                    const float add = qkv_proj_row[c + 2] * cos_row[c + 2] + qkv_proj_row[c] * sin_row[c + 2];
                    q_row[c] = sub;
                    q_row[c + 2] = add;
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
                const float* qkv_proj_row = qkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* k_row = k + i0 * 64 + i1 * 8 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float sub = qkv_proj_row[c + 16] * cos_row[c] - qkv_proj_row[c + 18] * sin_row[c];
                    const float add = qkv_proj_row[c + 18] * cos_row[c + 2] + qkv_proj_row[c + 16] * sin_row[c + 2];
                    k_row[c] = sub;
                    k_row[c + 2] = add;
                }
            }
        });
    }
}

// swiglu_forward:
//   y = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2
// Replaces Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_forward(float* y, const float* gate_up_proj, Stream& stream) {
    const Timed timed("swiglu_forward", {.bytes = 4608, .flops = 5376}, stream);
    constexpr std::int64_t rows = 16, width = 24;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gate_up_proj_row = gate_up_proj + row * 48;
            float* y_row = y + row * width;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                y_row[c] = gate_up_proj_row[c] * vec_math::sigmoid(gate_up_proj_row[c]) * gate_up_proj_row[c + 24];
            }
        }
    });
}

// swiglu_backward:
//   y = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2
//   dgate_up_proj1 = dy * gate_up_proj2 * (sigmoid(gate_up_proj1) * (gate_up_proj1 * (1 - sigmoid(gate_up_proj1)) + 1))
//   dgate_up_proj2 = dy * (gate_up_proj1 * sigmoid(gate_up_proj1))
// Replaces Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_backward(float* y, float* dgate_up_proj, const float* gate_up_proj, const float* dy, Stream& stream) {
    const Timed timed("swiglu_backward", {.bytes = 9216, .flops = 8064}, stream);
    constexpr std::int64_t rows = 16, width = 24;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gate_up_proj_row = gate_up_proj + row * 48;
            const float* dy_row = dy + row * width;
            float* y_row = y + row * width;
            float* dgate_up_proj_row = dgate_up_proj + row * 48;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float sigmoid = vec_math::sigmoid(gate_up_proj_row[c]);
                const float mul = gate_up_proj_row[c] * sigmoid;
                const float y_2 = mul * gate_up_proj_row[c + 24];
                const float dgate = dy_row[c] * gate_up_proj_row[c + 24] *
                    (sigmoid * (gate_up_proj_row[c] * (1.0F - sigmoid) + 1.0F));
                const float dup = dy_row[c] * mul;
                y_row[c] = y_2;
                dgate_up_proj_row[c] = dgate;
                dgate_up_proj_row[c + 24] = dup;
            }
        }
    });
}

// rms_norm_backward_add:
//   y = x * rstd * weight
//   dx = dresidual + rstd * (dy * weight - x * rstd * mean(dy * weight * (x * rstd)))
//   dweight += sum over rows(dy * (x * rstd))
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.post_attention_layernorm,
// model.layers.{0..1}.input_layernorm)
void rms_norm_backward_add(float* y, float* dx, float* dweight, const float* x, const float* rstd, const float* weight,
    const float* dy, const float* dresidual, const float* dweight_before, const bool* first_micro_step,
    Stream& stream) {
    const Timed timed("rms_norm_backward_add", {.bytes = 5377, .flops = 3376}, stream);
    constexpr std::int64_t rows = 16, width = 16;
    const bool first_micro_step_value = first_micro_step[0];
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* x_row = x + row * width;
                const float* dresidual_row = dresidual + row * width;
                const float* dy_row = dy + row * width;
                float* y_row = y + row * width;
                float* dx_row = dx + row * width;
                const float rstd_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    return dy_row[c] * weight[c] * (x_row[c] * rstd_row);
                });
                const float mul = sum * 0.0625F;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float mul_2 = x_row[c] * rstd_row;
                    const float y_2 = mul_2 * weight[c];
                    const float dx_2 = dresidual_row[c] + rstd_row * (dy_row[c] * weight[c] - mul_2 * mul);
                    partial[c] += dy_row[c] * mul_2;
                    y_row[c] = y_2;
                    dx_row[c] = dx_2;
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
void rotary_inverse(float* dqkv_proj, const float* dk, const float* sin, const float* cos, const float* dq,
    const float* dv_proj, Stream& stream) {
    const Timed timed("rotary_inverse", {.bytes = 4352, .flops = 1152}, stream);
    {
        // dqkv_proj
        constexpr std::int64_t rows = 64, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 32;
                const std::int64_t i1 = row / 4 % 8;
                const std::int64_t i2 = row % 4;
                const float* dq_row = dq + i0 * 128 + i1 * 16 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* dqkv_proj_row = dqkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float add = dq_row[c] * cos_row[c] + dq_row[c + 2] * sin_row[c + 2];
                    const float sub = dq_row[c + 2] * cos_row[c + 2] - dq_row[c] * sin_row[c];
                    dqkv_proj_row[c] = add;
                    dqkv_proj_row[c + 2] = sub;
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
                const float* dk_row = dk + i0 * 64 + i1 * 8 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* dqkv_proj_row = dqkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float add = dk_row[c] * cos_row[c] + dk_row[c + 2] * sin_row[c + 2];
                    const float sub = dk_row[c + 2] * cos_row[c + 2] - dk_row[c] * sin_row[c];
                    dqkv_proj_row[c + 16] = add;
                    dqkv_proj_row[c + 18] = sub;
                }
            }
        });
    }
    {
        // dqkv_proj
        constexpr std::int64_t rows = 16, width = 8;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* dv_proj_row = dv_proj + row * width;
                float* dqkv_proj_row = dqkv_proj + row * 32;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    dqkv_proj_row[c + 24] = dv_proj_row[c];
                }
            }
        });
    }
}
