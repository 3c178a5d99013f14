// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "device/types.h"
#include "sizes.h"

using thunder::bf16;
using thunder::e4m3;
using thunder::e5m2;
using thunder::WriteMode;
using thunder::Stream;

void rms_norm_forward(float* rstd, bf16* y, const bf16* x, const float* weight, Stream& stream);

void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream);

void rms_norm_backward(bf16* dx, float* dweight, const bf16* dy, const float* weight, const bf16* x, const float* rstd,
    WriteMode mode, Stream& stream);

void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream);

void rms_norm_forward_fp8(float* rstd, e4m3* y_e4m3, float* y_maxima, const bf16* x, const float* weight,
    const float* y_scale, Stream& stream);

void rotary(bf16* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream);

void swiglu_forward(bf16* y, const bf16* gate_up_proj, Stream& stream);

void mlp_backward(bf16* swiglu, e5m2* dgate_up_proj_e5m2, float* dgate_up_proj_maxima, const bf16* gate_up_proj,
    const bf16* dswiglu, const float* gate_up_proj_gradient_scale, Stream& stream);

void rms_norm_backward_add_fp8(e4m3* post_attention_layernorm_e4m3, bf16* dresidual, e5m2* dresidual_e5m2,
    float* dresidual_maxima, float* dweight, const bf16* x, const float* rstd, const float* weight,
    const float* post_attention_layernorm_scale, const bf16* dy, const bf16* dy_2, const float* dresidual_scale,
    WriteMode mode, Stream& stream);

void rotary_inverse(bf16* dqkv_proj, const float* sin, const float* cos, Stream& stream);

void input_layernorm_rms_norm_backward_add_fp8(e4m3* input_layernorm_e4m3, bf16* dx, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const float* input_layernorm_scale, const bf16* dy, const bf16* dresidual,
    WriteMode mode, Stream& stream);
