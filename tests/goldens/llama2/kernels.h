// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "device/types.h"
#include "sizes.h"

using thunder::WriteMode;
using thunder::Stream;

void rms_norm_forward(float* rstd, float* y, const float* x, const float* weight, Stream& stream);

void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream);

void rms_norm_backward(float* dx, float* dweight, const float* dy, const float* weight, const float* x,
    const float* rstd, WriteMode mode, Stream& stream);

void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream);

void rotary(float* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream);

void swiglu_forward(float* y, const float* gate_up_proj, Stream& stream);

void swiglu_backward(float* y, float* dgate_up_proj, const float* gate_up_proj, const float* dy, Stream& stream);

void rms_norm_backward_add(float* y, float* dx, float* dweight, const float* x, const float* rstd, const float* weight,
    const float* dy, const float* dresidual_in, WriteMode mode, Stream& stream);

void rotary_inverse(float* dqkv_proj, const float* sin, const float* cos, Stream& stream);
