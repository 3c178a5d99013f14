// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/stream.h"

namespace vec_math = thunder::math;

using namespace thunder;

// rms_norm_forward: rstd = rsqrt(mean(x^2) + 1e-05); y = x * rstd * weight
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
void rms_norm_forward(float* rstd, float* y, const float* x, const float* weight, Stream& /*stream*/) {
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

// rms_norm_backward: dx = rstd * (dy * weight - x * rstd * mean(dy * weight * (x * rstd))); dweight = first_micro_step
// ? dweight_step : dweight_before + dweight_step with dweight_step = sum over rows(dy * (x * rstd))
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.norm)
void rms_norm_backward(float* dx, float* dweight, const float* dy, const float* weight, const float* x,
    const float* rstd, const float* dweight_before, const bool* first_micro_step, Stream& stream) {
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

// add_elements: loss_sum_after = loss_sum + loss
void add_elements(float* loss_sum_after, const float* loss_sum, const float* loss, Stream& /*stream*/) {
    loss_sum_after[0] = loss_sum[0] + loss[0];
}

// cross_entropy_weight: loss_weight_after = loss_weight + sum((labels != -100))
void cross_entropy_weight(float* loss_weight_after, const std::int64_t* labels, const float* loss_weight,
    Stream& /*stream*/) {
    constexpr std::int64_t width = 16;
    const float loss_weight_value = loss_weight[0];
    const float sum = row_sum<float>(width, [&](std::int64_t c) {
        return static_cast<float>(labels[c] != -100);
    });
    loss_weight_after[0] = loss_weight_value + sum;
}

// input_layernorm_rms_norm_forward: rstd = rsqrt(mean(x^2) + 1e-05); y = x * rstd * weight
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1}.input_layernorm)
void input_layernorm_rms_norm_forward(float* rstd, float* y, const float* x, const float* weight, Stream& /*stream*/) {
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

// rotary: rotary1 = qkv_proj1 * cos1 - qkv_proj2 * sin1; rotary2 = qkv_proj2 * cos2 + qkv_proj1 * sin2; rotary_2_1 =
// qkv_proj3 * cos1 - qkv_proj4 * sin1; rotary_2_2 = qkv_proj4 * cos2 + qkv_proj3 * sin2
// Replaces Mul, Slice, Neg, Concat, Add (model.layers.{0..1}.self_attn)
void rotary(float* rotary, float* rotary_2, const float* qkv_proj, const float* sin, const float* cos,
    Stream& /*stream*/) {
    {
        constexpr std::int64_t rows = 64, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 32;
                const std::int64_t i1 = row / 4 % 8;
                const std::int64_t i2 = row % 4;
                const float* qkv_proj_row = qkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* rotary_row = rotary + i0 * 128 + i1 * 16 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float sub = qkv_proj_row[c] * cos_row[c] - qkv_proj_row[c + 2] * sin_row[c];
                    const float add = qkv_proj_row[c + 2] * cos_row[c + 2] + qkv_proj_row[c] * sin_row[c + 2];
                    rotary_row[c] = sub;
                    rotary_row[c + 2] = add;
                }
            }
        });
    }
    {
        constexpr std::int64_t rows = 32, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 16;
                const std::int64_t i1 = row / 2 % 8;
                const std::int64_t i2 = row % 2;
                const float* qkv_proj_row = qkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* rotary_2_row = rotary_2 + i0 * 64 + i1 * 8 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float sub = qkv_proj_row[c + 16] * cos_row[c] - qkv_proj_row[c + 18] * sin_row[c];
                    const float add = qkv_proj_row[c + 18] * cos_row[c + 2] + qkv_proj_row[c + 16] * sin_row[c + 2];
                    rotary_2_row[c] = sub;
                    rotary_2_row[c + 2] = add;
                }
            }
        });
    }
}

// swiglu_forward: y = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2
// Replaces Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_forward(float* y, const float* gate_up_proj, Stream& /*stream*/) {
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

// swiglu_backward: swiglu = gate_up_proj1 * sigmoid(gate_up_proj1) * gate_up_proj2; dgate_up_proj1 = dy * gate_up_proj2
// * (sigmoid(gate_up_proj1) * (gate_up_proj1 * (1 - sigmoid(gate_up_proj1)) + 1)); dgate_up_proj2 = dy * (gate_up_proj1
// * sigmoid(gate_up_proj1))
// Replaces Sigmoid, Mul, Transpose, MatMul (model.layers.{0..1}.mlp)
void swiglu_backward(float* swiglu, float* dgate_up_proj, const float* gate_up_proj, const float* dy,
    Stream& /*stream*/) {
    constexpr std::int64_t rows = 16, width = 24;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gate_up_proj_row = gate_up_proj + row * 48;
            const float* dy_row = dy + row * width;
            float* swiglu_row = swiglu + row * width;
            float* dgate_up_proj_row = dgate_up_proj + row * 48;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float sigmoid = vec_math::sigmoid(gate_up_proj_row[c]);
                const float mul = gate_up_proj_row[c] * sigmoid;
                const float swiglu_2 = mul * gate_up_proj_row[c + 24];
                const float dgate = dy_row[c] * gate_up_proj_row[c + 24] *
                    (sigmoid * (gate_up_proj_row[c] * (1.0F - sigmoid) + 1.0F));
                const float dup = dy_row[c] * mul;
                swiglu_row[c] = swiglu_2;
                dgate_up_proj_row[c] = dgate;
                dgate_up_proj_row[c + 24] = dup;
            }
        }
    });
}

// layers_rms_norm_backward: mul = x * rstd * weight; dresidual = dy_2 + rstd * (dy * weight - x * rstd * mean(dy *
// weight * (x * rstd))); dweight = first_micro_step ? dweight_step : dweight_before + dweight_step with dweight_step =
// sum over rows(dy * (x * rstd))
// Replaces Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul (model.layers.{0..1})
void layers_rms_norm_backward(float* mul, float* dresidual, float* dweight, const float* x, const float* rstd,
    const float* weight, const float* dy, const float* dy_2, const float* dweight_before, const bool* first_micro_step,
    Stream& stream) {
    constexpr std::int64_t rows = 16, width = 16;
    const bool first_micro_step_value = first_micro_step[0];
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* x_row = x + row * width;
                const float* dy_2_row = dy_2 + row * width;
                const float* dy_row = dy + row * width;
                float* mul_row = mul + row * width;
                float* dresidual_row = dresidual + row * width;
                const float rstd_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    return dy_row[c] * weight[c] * (x_row[c] * rstd_row);
                });
                const float mul_2 = sum * 0.0625F;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float mul_3 = x_row[c] * rstd_row;
                    const float mul_4 = mul_3 * weight[c];
                    const float dresidual_2 = dy_2_row[c] + rstd_row * (dy_row[c] * weight[c] - mul_3 * mul_2);
                    partial[c] += dy_row[c] * mul_3;
                    mul_row[c] = mul_4;
                    dresidual_row[c] = dresidual_2;
                }
            }
        },
        [&](std::int64_t column, float sum) {
            dweight[column] = first_micro_step_value ? sum : dweight_before[column] + sum;
        });
}

// rotary_inverse: dqkv_proj1 = drotary_2_1 * cos1 + drotary_2_2 * sin2; dqkv_proj2 = drotary_2_2 * cos2 - drotary_2_1 *
// sin1; dqkv_proj3 = drotary1 * cos1 + drotary2 * sin2; dqkv_proj4 = drotary2 * cos2 - drotary1 * sin1; dqkv_proj5 =
// dv_proj
// Replaces Mul, Slice, Neg, Concat, Add, Transpose, MatMul (model.layers.{0..1}.self_attn)
void rotary_inverse(float* dqkv_proj, const float* drotary, const float* sin, const float* cos, const float* drotary_2,
    const float* dv_proj, Stream& /*stream*/) {
    {
        constexpr std::int64_t rows = 64, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 32;
                const std::int64_t i1 = row / 4 % 8;
                const std::int64_t i2 = row % 4;
                const float* drotary_2_row = drotary_2 + i0 * 128 + i1 * 16 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* dqkv_proj_row = dqkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float add = drotary_2_row[c] * cos_row[c] + drotary_2_row[c + 2] * sin_row[c + 2];
                    const float sub = drotary_2_row[c + 2] * cos_row[c + 2] - drotary_2_row[c] * sin_row[c];
                    dqkv_proj_row[c] = add;
                    dqkv_proj_row[c + 2] = sub;
                }
            }
        });
    }
    {
        constexpr std::int64_t rows = 32, width = 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t i0 = row / 16;
                const std::int64_t i1 = row / 2 % 8;
                const std::int64_t i2 = row % 2;
                const float* drotary_row = drotary + i0 * 64 + i1 * 8 + i2 * 4;
                const float* cos_row = cos + i1 * 4;
                const float* sin_row = sin + i1 * 4;
                float* dqkv_proj_row = dqkv_proj + i0 * 256 + i1 * 32 + i2 * 4;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float add = drotary_row[c] * cos_row[c] + drotary_row[c + 2] * sin_row[c + 2];
                    const float sub = drotary_row[c + 2] * cos_row[c + 2] - drotary_row[c] * sin_row[c];
                    dqkv_proj_row[c + 16] = add;
                    dqkv_proj_row[c + 18] = sub;
                }
            }
        });
    }
    {
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
