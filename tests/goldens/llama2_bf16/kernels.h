// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "device/types.h"
#include "sizes.h"

using thunder::bf16;
using thunder::WriteMode;
using thunder::Stream;

void rms_norm_forward(float* rstd, bf16* y, const bf16* x, const float* weight, Stream& stream);

void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream);

void rms_norm_backward(bf16* dx, float* dweight, const bf16* dy, const float* weight, const bf16* x, const float* rstd,
    WriteMode mode, Stream& stream);

void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream);

void rotary(bf16* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream);

void swiglu_forward(bf16* y, const bf16* gate_up_proj, Stream& stream);

void swiglu_backward(bf16* y, bf16* dgate_up_proj, const bf16* gate_up_proj, const bf16* dy, Stream& stream);

void rms_norm_backward_add(bf16* post_attention_layernorm, bf16* dresidual, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const bf16* dy, const bf16* dy_2, WriteMode mode, Stream& stream);

void rotary_inverse(bf16* dqkv_proj, const float* sin, const float* cos, Stream& stream);
