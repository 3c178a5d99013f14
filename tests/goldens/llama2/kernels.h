// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"

using thunder::Stream;

void rms_norm_forward(float* rstd, float* norm, float* mul, const float* residual,
    const float* model_norm_weight,
    Stream& stream);

void rms_norm_backward(float* dresidual, float* grad_model_norm_weight_after,
    const float* dnorm,
    const float* model_norm_weight, const float* mul, const float* rstd,
    const float* grad_model_norm_weight,
    const bool* first_micro_step, Stream& stream);

void add_elements(float* loss_sum_after, const float* loss_sum, const float* loss, Stream& stream);

void cross_entropy_weight(float* loss_weight_after, const std::int64_t* labels,
    const float* loss_weight,
    Stream& stream);

void input_layernorm_rms_norm_forward(float* rstd, float* input_layernorm,
    const float* x,
    const float* input_layernorm_weight, Stream& stream);

void rotary(float* rotary, const float* qkv_proj, const float* sin, const float* cos, Stream& stream);

void self_attn_rotary(float* rotary, const float* qkv_proj, const float* sin, const float* cos, Stream& stream);

void swiglu_forward(float* swiglu, const float* gate_up_proj, Stream& stream);

void swiglu_backward(float* swiglu, float* dgate_up_proj, const float* gate_up_proj,
    const float* dswiglu,
    Stream& stream);

void layers_rms_norm_backward(float* mul, float* dresidual,
    float* grad_post_attention_layernorm_weight,
    const float* residual, const float* post_attention_layernorm_rstd,
    const float* post_attention_layernorm_weight,
    const float* dpost_attention_layernorm, const float* dy,
    const float* grad_post_attention_layernorm_weight_2,
    const bool* first_micro_step, Stream& stream);

void rotary_inverse(float* dqkv_proj, const float* drotary, const float* sin, const float* cos,
    const float* drotary_2,
    const float* dv_proj, Stream& stream);

