// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"

using thunder::Stream;

void cos_sum_rows(float* reduce_max, float* residual, float* reduce_max_2, float* div, float* residual_2, float* log,
    float* reduce_sum, float* sigmoid, float* cos, float* sigmoid_2, float* cos_2, const float* gauge,
    const float* basins_0_period, const float* basins_0_level, const float* basins_1_period,
    const float* basins_1_level, Stream& stream);

void mul_sin_sum_columns(float* reduce_sum, float* sin, const float* log, const float* shore_slope, Stream& stream);

void add_log_sum_rows(float* dreduce_sum, float* loss_sum_after, const float* reduce_sum, const float* dloss,
    const float* loss_sum, Stream& stream);

void accumulate_gradient(float* dshore_slope, float* dresidual, float* neg, float* mul, float* dbasins_1_period,
    const float* dreduce_sum, const float* sin, const float* log, const float* shore_slope,
    const float* dshore_slope_before, const bool* first_micro_step, const float* residual, const float* residual_2,
    const float* div, const float* reduce_max, const float* sigmoid, const float* cos, const float* basins_1_period,
    const float* dbasins_1_period_before, Stream& stream);

void accumulate_gradient_2(float* dbasins_1_level, const float* neg, const float* dbasins_1_level_before,
    const bool* first_micro_step, Stream& stream);

void accumulate_gradient_3(float* dbasins_0_level, float* mul, const float* dresidual, const float* div,
    const float* reduce_max, const float* reduce_sum, const float* residual, const float* mul_2,
    const float* reduce_max_2, const float* sigmoid, const float* dbasins_0_level_before, const bool* first_micro_step,
    const float* cos, const float* gauge, Stream& stream);

void accumulate_gradient_4(float* dbasins_0_period, const float* mul, const float* dbasins_0_period_before,
    const bool* first_micro_step, Stream& stream);

void add_elements(float* loss_weight_after, const float* loss_weight, Stream& stream);

