// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "sizes.h"

using thunder::Stream;

void cos_sum_rows(float* reduce_max, float* add, float* reduce_max_2, float* div, float* add_2, float* log,
    float* reduce_sum, float* sigmoid, float* cos, float* sigmoid_2, float* cos_2, const float* gauge,
    const float* basins_0_period, const float* basins_0_level, const float* basins_1_period,
    const float* basins_1_level, Stream& stream);

void sin_sum_columns(float* reduce_sum, float* sin, const float* log, const float* shore_slope, Stream& stream);

void add_exp_sum_rows(float* dreduce_sum, float* loss_sum_after, const float* reduce_sum, const float* dloss,
    const float* loss_sum, Stream& stream);

void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadd, float* neg, float* mul,
    float* dbasins_1_period, const float* dreduce_sum, const float* sin, const float* log, const float* shore_slope,
    const float* dshore_slope_before, const bool* first_micro_step, const float* add, const float* add_2,
    const float* div, const float* reduce_max, const float* sigmoid, const float* cos, const float* basins_1_period,
    const float* dbasins_1_period_before, Stream& stream);

void basins_1_level_gradient(float* dbasins_1_level, const float* neg, const float* dbasins_1_level_before,
    const bool* first_micro_step, Stream& stream);

void basins_0_level_gradient(float* dbasins_0_level, float* mul, const float* dadd, const float* div,
    const float* reduce_max, const float* reduce_sum, const float* add, const float* mul_2, const float* reduce_max_2,
    const float* sigmoid, const float* dbasins_0_level_before, const bool* first_micro_step, const float* cos,
    const float* gauge, Stream& stream);

void basins_0_period_gradient(float* dbasins_0_period, const float* mul, const float* dbasins_0_period_before,
    const bool* first_micro_step, Stream& stream);
