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

// add_to_loss_sum:
//   loss_sum += loss
void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream) {
    const Timed timed("add_to_loss_sum", {.bytes = 12, .flops = 1}, {loss_sum}, stream);
    loss_sum[0] = loss_sum[0] + loss[0];
}

// net_tanh_backward:
//   dlinear_2 = dtanh - dtanh * tanh^2
// From the graph's Tanh (net.3)
void net_tanh_backward(float* dlinear_2, const float* tanh, const float* dtanh, Stream& stream) {
    const Timed timed("net_tanh_backward", {.bytes = 768, .flops = 192}, {dlinear_2}, stream);
    constexpr std::int64_t n = 16 * B;
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            dlinear_2[i] = dtanh[i] - dtanh[i] * (tanh[i] * tanh[i]);
        }
    });
}

// net_relu_backward:
//   dlinear = relu > 0 ? drelu : 0
// From the graph's Relu (net.1)
void net_relu_backward(float* dlinear, const float* relu, const float* drelu, Stream& stream) {
    const Timed timed("net_relu_backward", {.bytes = 768, .flops = 128}, {dlinear}, stream);
    constexpr std::int64_t n = 16 * B;
    parallel_for(n, 16384, [&](std::int64_t begin, std::int64_t end) {
        #pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
            dlinear[i] = vec_math::choose<float>(relu[i] > 0.0F, drelu[i], 0.0F);
        }
    });
}

// cross_entropy_weight:
//   loss_weight += sum(labels != -100)
void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream) {
    const Timed timed("cross_entropy_weight", {.bytes = 40, .flops = 13}, {loss_weight}, stream);
    constexpr std::int64_t width = B;
    const float loss_weight_before = loss_weight[0];
    const float weight = row_sum<float>(width, [&](std::int64_t c) {
        return vec_math::number<float>(labels[c] != -100);
    });
    loss_weight[0] = loss_weight_before + weight;
}

// loss_add_sum:
//   label_count += sum_B(labels != -100)
//   label_hits += sum_B(-row_max((linear == row_max(linear) or isnan(linear)) ? index : -5) == labels)
void loss_add_sum(float* label_count, float* label_hits, const std::int64_t* labels, const float* linear,
    Stream& stream) {
    const Timed timed("loss_add_sum", {.bytes = 128, .flops = 182}, {label_count, label_hits}, stream);
    constexpr std::int64_t rows = B, width = 5;
    const float label_count_before = label_count[0];
    const float label_hits_before = label_hits[0];
    column_reduction(
        rows, 2, stream,
        [&](std::int64_t begin, std::int64_t end, float* partial) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* linear_row = linear + row * width;
                const float cast_2 = vec_math::number<float>(labels[row] != -100);
                const float largest = row_max<float>(width, [&](std::int64_t c) { return linear_row[c]; });
                const std::int64_t largest_2 = row_max<std::int64_t>(width, [&](std::int64_t c) {
                    return vec_math::choose<std::int64_t>(vec_math::either(linear_row[c] == largest,
                        linear_row[c] != linear_row[c]), -c, -5);
                });
                const float cast = vec_math::number<float>(vec_math::neg<std::int64_t>(largest_2) == labels[row]);
                partial[0] += cast_2;
                partial[1] += cast;
            }
        },
        [&](std::int64_t column, float sum) {
            if (column < 1) {
                label_count[0] = label_count_before + sum;
            } else {
                label_hits[0] = label_hits_before + sum;
            }
        });
}
