// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "device/types.h"
#include "sizes.h"

using thunder::WriteMode;
using thunder::Stream;

void basins_forward(float* largest, float* added, float* softplus, float* sigmoid, float* cosine, float* sigmoid_2,
    float* cosine_2, const float* gauge, const float* basins_0_period, const float* basins_0_level,
    const float* basins_1_period, const float* basins_1_level, Stream& stream);

void log_sum_rows(float* largest_2, float* added_3, float* logarithm, float* total_2, const float* added,
    const float* softplus, Stream& stream);

void shore_forward(float* total, float* sine, const float* logarithm, const float* shore_slope, Stream& stream);

void loss_forward_backward(float* loss_sum, float* dtotal, const float* total, const float* dloss, Stream& stream);

void shore_slope_and_basins_1_period_gradients(float* dshore_slope, float* dadded_2, float* dbasins_1_level_terms,
    float* dadded_part_2, float* dbasins_1_period, const float* dtotal, const float* sine, const float* logarithm,
    const float* shore_slope, const float* added_3, const float* softplus, const float* largest_2, const float* added,
    const float* sigmoid, const float* cosine, const float* basins_1_period, WriteMode mode, Stream& stream);

void basins_1_level_gradient(float* dbasins_1_level, const float* dbasins_1_level_terms, WriteMode mode,
    Stream& stream);

void basins_0_level_gradient(float* dbasins_0_level, float* dbasins_0_period_terms, const float* softplus,
    const float* largest_2, const float* dadded_2, const float* total_2, const float* added, const float* dadded_part_2,
    const float* largest, const float* sigmoid_2, const float* cosine_2, const float* gauge, WriteMode mode,
    Stream& stream);

void basins_0_period_gradient(float* dbasins_0_period, const float* dbasins_0_period_terms, WriteMode mode,
    Stream& stream);
