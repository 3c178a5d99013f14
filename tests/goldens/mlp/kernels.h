// kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it computes.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "sizes.h"

using thunder::Stream;

void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream);

void net_tanh_backward(float* dlinear_2, const float* tanh, const float* dtanh, Stream& stream);

void net_relu_backward(float* dlinear, const float* relu, const float* drelu, Stream& stream);

void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream);

void loss_add_sum(float* label_count, float* label_hits, const std::int64_t* labels, const float* linear,
    Stream& stream);
