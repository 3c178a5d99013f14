// kernels_cuda.cu: what kernels.h declares, on a GPU: each function launches its kernels of kernels_cuda.cuh.
#include "kernels_cuda.cuh"

#include "device/cuda/launch.h"
#include "device/timed.h"
#include "kernels.h"

void cos_sum_rows(float* reduce_max, float* add, float* reduce_max_2, float* div, float* add_2, float* log,
    float* reduce_sum, float* sigmoid, float* cos, float* sigmoid_2, float* cos_2, const float* gauge,
    const float* basins_0_period, const float* basins_0_level, const float* basins_1_period,
    const float* basins_1_level, Stream& stream) {
    const Timed timed("cos_sum_rows", {.bytes = 2360, .flops = 18120}, stream);
    launch("cos_sum_rows", cos_sum_rows_kernel, 1, 256, stream, reduce_max, add, reduce_max_2, div, add_2, log,
        reduce_sum, sigmoid, cos, sigmoid_2, cos_2, gauge, basins_0_period, basins_0_level, basins_1_period,
        basins_1_level);
}

void sin_sum_columns(float* reduce_sum, float* sin, const float* log, const float* shore_slope, Stream& stream) {
    const Timed timed("sin_sum_columns", {.bytes = 744, .flops = 1740}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(8 * sizeof(float)));
    launch("sin_sum_columns", sin_sum_columns_kernel, 1, 256, stream, sin, log, shore_slope, partials);
    launch("sin_sum_columns", sin_sum_columns_finish, 1, 256, stream, reduce_sum, partials);
}

void add_exp_sum_rows(float* dreduce_sum, float* loss_sum_after, const float* reduce_sum, const float* dloss,
    const float* loss_sum, Stream& stream) {
    const Timed timed("add_exp_sum_rows", {.bytes = 60, .flops = 202}, stream);
    launch("add_exp_sum_rows", add_exp_sum_rows_kernel, 1, 32, stream, dreduce_sum, loss_sum_after, reduce_sum, dloss,
        loss_sum);
}

void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadd, float* neg, float* mul,
    float* dbasins_1_period, const float* dreduce_sum, const float* sin, const float* log, const float* shore_slope,
    const float* dshore_slope_before, const bool* first_micro_step, const float* add, const float* add_2,
    const float* div, const float* reduce_max, const float* sigmoid, const float* cos, const float* basins_1_period,
    const float* dbasins_1_period_before, Stream& stream) {
    const Timed timed("shore_slope_and_basins_1_period_gradients", {.bytes = 3289, .flops = 3010}, stream);
    launch("shore_slope_and_basins_1_period_gradients", shore_slope_and_basins_1_period_gradients_1, 1, 256, stream,
        dshore_slope, dreduce_sum, sin, log, shore_slope, dshore_slope_before, first_micro_step);
    launch("shore_slope_and_basins_1_period_gradients", shore_slope_and_basins_1_period_gradients_2, 1, 256, stream,
        dadd, neg, mul, dreduce_sum, sin, log, shore_slope, add, add_2, div, reduce_max, sigmoid, cos, basins_1_period);
    launch("shore_slope_and_basins_1_period_gradients", shore_slope_and_basins_1_period_gradients_3, 1, 256, stream,
        dbasins_1_period, dreduce_sum, sin, log, shore_slope, first_micro_step, add, add_2, div, reduce_max, sigmoid,
        cos, dbasins_1_period_before);
}

void basins_1_level_gradient(float* dbasins_1_level, const float* neg, const float* dbasins_1_level_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("basins_1_level_gradient", {.bytes = 289, .flops = 72}, stream);
    launch("basins_1_level_gradient", basins_1_level_gradient_kernel, 1, 256, stream, dbasins_1_level, neg,
        dbasins_1_level_before, first_micro_step);
}

void basins_0_level_gradient(float* dbasins_0_level, float* mul, const float* dadd, const float* div,
    const float* reduce_max, const float* reduce_sum, const float* add, const float* mul_2, const float* reduce_max_2,
    const float* sigmoid, const float* dbasins_0_level_before, const bool* first_micro_step, const float* cos,
    const float* gauge, Stream& stream) {
    const Timed timed("basins_0_level_gradient", {.bytes = 2041, .flops = 1338}, stream);
    launch("basins_0_level_gradient", basins_0_level_gradient_kernel, 1, 256, stream, dbasins_0_level, mul, dadd, div,
        reduce_max, reduce_sum, add, mul_2, reduce_max_2, sigmoid, dbasins_0_level_before, first_micro_step, cos,
        gauge);
}

void basins_0_period_gradient(float* dbasins_0_period, const float* mul, const float* dbasins_0_period_before,
    const bool* first_micro_step, Stream& stream) {
    const Timed timed("basins_0_period_gradient", {.bytes = 321, .flops = 70}, stream);
    launch("basins_0_period_gradient", basins_0_period_gradient_kernel, 1, 256, stream, dbasins_0_period, mul,
        dbasins_0_period_before, first_micro_step);
}
