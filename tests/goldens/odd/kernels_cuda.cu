// kernels_cuda.cu: what kernels.h declares, on a GPU: each function launches its kernels of kernels_cuda.cuh.
#include "kernels_cuda.cuh"

#include "device/cuda/launch.h"
#include "device/timed.h"
#include "kernels.h"

using namespace kernels;

void basins_forward(float* largest, float* added, float* softplus, float* sigmoid, float* cosine, float* sigmoid_2,
    float* cosine_2, const float* gauge, const float* basins_0_period, const float* basins_0_level,
    const float* basins_1_period, const float* basins_1_level, Stream& stream) {
    const Timed timed("basins_forward", {.bytes = 1832, .flops = 9540},
        {largest, added, softplus, sigmoid, cosine, sigmoid_2, cosine_2}, stream);
    launch("basins_forward", basins_forward_kernel, 1, 256, stream, largest, added, softplus, sigmoid, cosine,
        sigmoid_2, cosine_2, gauge, basins_0_period, basins_0_level, basins_1_period, basins_1_level);
}

void log_sum_rows(float* largest_2, float* added_3, float* logarithm, float* total_2, const float* added,
    const float* softplus, Stream& stream) {
    const Timed timed("log_sum_rows", {.bytes = 1008, .flops = 1860}, {largest_2, added_3, logarithm, total_2}, stream);
    launch("log_sum_rows", log_sum_rows_kernel, 1, 256, stream, largest_2, added_3, logarithm, total_2, added,
        softplus);
}

void shore_forward(float* total, float* sine, const float* logarithm, const float* shore_slope, Stream& stream) {
    const Timed timed("shore_forward", {.bytes = 744, .flops = 1740}, {total, sine}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(8 * sizeof(float)));
    launch("shore_forward", shore_forward_kernel, 1, 256, stream, sine, logarithm, shore_slope, partials);
    launch("shore_forward", shore_forward_finish, 1, 256, stream, total, partials);
}

void loss_forward_backward(float* loss_sum, float* dtotal, const float* total, const float* dloss, Stream& stream) {
    const Timed timed("loss_forward_backward", {.bytes = 60, .flops = 202}, {loss_sum, dtotal}, stream);
    launch("loss_forward_backward", loss_forward_backward_kernel, 1, 32, stream, loss_sum, dtotal, total, dloss);
}

void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadded_2, float* dbasins_1_level_terms,
    float* dadded_part_2, float* dbasins_1_period, const float* dtotal, const float* sine, const float* logarithm,
    const float* shore_slope, const float* added_3, const float* softplus, const float* largest_2, const float* added,
    const float* sigmoid, const float* cosine, const float* basins_1_period, WriteMode mode, Stream& stream) {
    const Timed timed("shore_slope_and_basins_1_period_gradients", {.bytes = 3288, .flops = 3130},
        {dshore_slope, dadded_2, dbasins_1_level_terms, dadded_part_2, dbasins_1_period}, stream);
    launch("shore_slope_and_basins_1_period_gradients", shore_slope_and_basins_1_period_gradients_1, 1, 256, stream,
        dshore_slope, dtotal, sine, logarithm, shore_slope, mode);
    launch("shore_slope_and_basins_1_period_gradients", shore_slope_and_basins_1_period_gradients_2, 1, 256, stream,
        dadded_2, dbasins_1_level_terms, dadded_part_2, dtotal, sine, logarithm, shore_slope, added_3, softplus,
        largest_2, added, sigmoid, cosine, basins_1_period);
    launch("shore_slope_and_basins_1_period_gradients", shore_slope_and_basins_1_period_gradients_3, 1, 256, stream,
        dbasins_1_period, dtotal, sine, logarithm, shore_slope, added_3, softplus, largest_2, added, sigmoid, cosine,
        mode);
}

void basins_1_level_gradient(float* dbasins_1_level, const float* dbasins_1_level_terms, WriteMode mode,
    Stream& stream) {
    const Timed timed("basins_1_level_gradient", {.bytes = 288, .flops = 72}, {dbasins_1_level}, stream);
    launch("basins_1_level_gradient", basins_1_level_gradient_kernel, 1, 256, stream, dbasins_1_level,
        dbasins_1_level_terms, mode);
}

void basins_0_level_gradient(float* dbasins_0_level, float* dbasins_0_period_terms, const float* softplus,
    const float* largest_2, const float* dadded_2, const float* total_2, const float* added, const float* dadded_part_2,
    const float* largest, const float* sigmoid_2, const float* cosine_2, const float* gauge, WriteMode mode,
    Stream& stream) {
    const Timed timed("basins_0_level_gradient", {.bytes = 2040, .flops = 1398},
        {dbasins_0_level, dbasins_0_period_terms}, stream);
    launch("basins_0_level_gradient", basins_0_level_gradient_kernel, 1, 256, stream, dbasins_0_level,
        dbasins_0_period_terms, softplus, largest_2, dadded_2, total_2, added, dadded_part_2, largest, sigmoid_2,
        cosine_2, gauge, mode);
}

void basins_0_period_gradient(float* dbasins_0_period, const float* dbasins_0_period_terms, WriteMode mode,
    Stream& stream) {
    const Timed timed("basins_0_period_gradient", {.bytes = 320, .flops = 70}, {dbasins_0_period}, stream);
    launch("basins_0_period_gradient", basins_0_period_gradient_kernel, 1, 256, stream, dbasins_0_period,
        dbasins_0_period_terms, mode);
}
