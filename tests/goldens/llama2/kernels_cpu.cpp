// kernels_cpu.cpp: the model's kernels for CPUs. Sums have fixed trees: the same bits on any number of threads.
// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row of x,
// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. "dw +=" adds to what dw holds, or
// overwrites it as the WriteMode says.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

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
void rms_norm_forward(float* rstd, float* y, const float* x, const float* weight, Stream& stream) {
    const Timed timed("rms_norm_forward", {.bytes = 2176, .flops = 1248}, {rstd, y}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* x_row = x + row * width;
            float* y_row = y + row * width;
            const float sum = row_sum<float>(width, [&](std::int64_t c) {
                return x_row[c] * x_row[c];
            });
            const float rstd_of_row = vec_math::rsqrt(sum / width + 1e-05F);
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float normed = x_row[c] * rstd_of_row;
                y_row[c] = normed * weight[c];
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
void rms_norm_backward(float* dx, float* dweight, const float* dy, const float* weight, const float* x,
    const float* rstd, WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward", {.bytes = 3328, .flops = 2864}, {dx, dweight}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const bool overwrite = mode == WriteMode::overwrite;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* dy_row = dy + row * width;
                const float* x_row = x + row * width;
                float* dx_row = dx + row * width;
                const float rstd_of_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    const float dnormed = dy_row[c] * weight[c];
                    const float normed = x_row[c] * rstd_of_row;
                    return dnormed * normed;
                });
                const float mean_dot = sum / width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dnormed = dy_row[c] * weight[c];
                    const float normed = x_row[c] * rstd_of_row;
                    partial[c] += dy_row[c] * normed;
                    dx_row[c] = rstd_of_row * (dnormed - normed * mean_dot);
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
void rotary(float* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary", {.bytes = 3328, .flops = 1152}, {qkv_proj_rotated}, stream);
    {
        // q
        constexpr std::int64_t rows = B * T * NH, width = HS / 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / (T * NH);
                const std::int64_t t = row / NH % T;
                const std::int64_t h = row % NH;
                float* qkv_proj_rotated_row = qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS +
                    h * HS;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float q_proj1 = qkv_proj_rotated_row[c];
                    const float q_proj2 = qkv_proj_rotated_row[c + HS / 2];
                    const float q1 = q_proj1 * cos_row[c] - q_proj2 * sin_row[c];
                    const float q2 = q_proj2 * cos_row[c + HS / 2] + q_proj1 * sin_row[c + HS / 2];
                    qkv_proj_rotated_row[c] = q1;
                    qkv_proj_rotated_row[c + HS / 2] = q2;
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
                float* qkv_proj_rotated_row = qkv_proj_rotated + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS +
                    h * HS;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float k_proj1 = qkv_proj_rotated_row[c + NH * HS];
                    const float k_proj2 = qkv_proj_rotated_row[c + NH * HS + HS / 2];
                    const float k1 = k_proj1 * cos_row[c] - k_proj2 * sin_row[c];
                    const float k2 = k_proj2 * cos_row[c + HS / 2] + k_proj1 * sin_row[c + HS / 2];
                    qkv_proj_rotated_row[c + NH * HS] = k1;
                    qkv_proj_rotated_row[c + NH * HS + HS / 2] = k2;
                }
            }
        });
    }
}

// swiglu_forward:
//   y = silu(gate) * up
//   where gate, up = gate_up_proj
// From the graph's Sigmoid, Mul (model.layers.{0..1}.mlp)
void swiglu_forward(float* y, const float* gate_up_proj, Stream& stream) {
    const Timed timed("swiglu_forward", {.bytes = 4608, .flops = 5376}, {y}, stream);
    constexpr std::int64_t rows = B * T, width = H;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gate_up_proj_row = gate_up_proj + row * 2 * H;
            float* y_row = y + row * width;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float gate = gate_up_proj_row[c];
                const float silu = gate * vec_math::sigmoid(gate);
                const float up = gate_up_proj_row[c + H];
                y_row[c] = silu * up;
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
void swiglu_backward(float* y, float* dgate_up_proj, const float* gate_up_proj, const float* dy, Stream& stream) {
    const Timed timed("swiglu_backward", {.bytes = 9216, .flops = 8064}, {y, dgate_up_proj}, stream);
    constexpr std::int64_t rows = B * T, width = H;
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const float* gate_up_proj_row = gate_up_proj + row * 2 * H;
            const float* dy_row = dy + row * width;
            float* y_row = y + row * width;
            float* dgate_up_proj_row = dgate_up_proj + row * 2 * H;
            #pragma omp simd
            for (std::int64_t c = 0; c < width; ++c) {
                const float gate = gate_up_proj_row[c];
                const float sigmoid = vec_math::sigmoid(gate);
                const float silu = gate * sigmoid;
                const float up = gate_up_proj_row[c + H];
                const float slope = sigmoid * (gate * (1.0F - sigmoid) + 1.0F);
                const float y_c = silu * up;
                const float dgate = dy_row[c] * up * slope;
                const float dup = dy_row[c] * silu;
                y_row[c] = y_c;
                dgate_up_proj_row[c] = dgate;
                dgate_up_proj_row[c + H] = dup;
            }
        }
    });
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
void rms_norm_backward_add(float* y, float* dx, float* dweight, const float* x, const float* rstd, const float* weight,
    const float* dy, const float* dresidual_in, WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward_add", {.bytes = 5376, .flops = 3376}, {y, dx, dweight}, stream);
    constexpr std::int64_t rows = B * T, width = C;
    const bool overwrite = mode == WriteMode::overwrite;
    column_reduction(
        rows, width, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* x_row = x + row * width;
                const float* dresidual_in_row = dresidual_in + row * width;
                const float* dy_row = dy + row * width;
                float* y_row = y + row * width;
                float* dx_row = dx + row * width;
                const float rstd_of_row = rstd[row];
                const float sum = row_sum<float>(width, [&](std::int64_t c) {
                    const float normed = x_row[c] * rstd_of_row;
                    const float dnormed = dy_row[c] * weight[c];
                    return dnormed * normed;
                });
                const float mean_dot = sum / width;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float normed = x_row[c] * rstd_of_row;
                    const float dnormed = dy_row[c] * weight[c];
                    const float dx_own = rstd_of_row * (dnormed - normed * mean_dot);
                    const float y_c = normed * weight[c];
                    const float dx_c = dresidual_in_row[c] + dx_own;
                    partial[c] += dy_row[c] * normed;
                    y_row[c] = y_c;
                    dx_row[c] = dx_c;
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
void rotary_inverse(float* dqkv_proj, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary_inverse", {.bytes = 3328, .flops = 1152}, {dqkv_proj}, stream);
    {
        // dq_proj
        constexpr std::int64_t rows = B * T * NH, width = HS / 2;
        parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t b = row / (T * NH);
                const std::int64_t t = row / NH % T;
                const std::int64_t h = row % NH;
                float* dqkv_proj_row = dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dq_rotated1 = dqkv_proj_row[c];
                    const float dq_rotated2 = dqkv_proj_row[c + HS / 2];
                    const float dq_proj1 = dq_rotated1 * cos_row[c] + dq_rotated2 * sin_row[c + HS / 2];
                    const float dq_proj2 = dq_rotated2 * cos_row[c + HS / 2] - dq_rotated1 * sin_row[c];
                    dqkv_proj_row[c] = dq_proj1;
                    dqkv_proj_row[c + HS / 2] = dq_proj2;
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
                float* dqkv_proj_row = dqkv_proj + b * T * (NH + 2 * KVH) * HS + t * (NH + 2 * KVH) * HS + h * HS;
                const float* cos_row = cos + t * HS;
                const float* sin_row = sin + t * HS;
                #pragma omp simd
                for (std::int64_t c = 0; c < width; ++c) {
                    const float dk_rotated1 = dqkv_proj_row[c + NH * HS];
                    const float dk_rotated2 = dqkv_proj_row[c + NH * HS + HS / 2];
                    const float dk_proj1 = dk_rotated1 * cos_row[c] + dk_rotated2 * sin_row[c + HS / 2];
                    const float dk_proj2 = dk_rotated2 * cos_row[c + HS / 2] - dk_rotated1 * sin_row[c];
                    dqkv_proj_row[c + NH * HS] = dk_proj1;
                    dqkv_proj_row[c + NH * HS + HS / 2] = dk_proj2;
                }
            }
        });
    }
}
