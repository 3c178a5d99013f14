// Who computes attention on a GPU: cuDNN where it can, else blocks of our own.
#pragma once

#include <string>

#include "device/menu.h"

namespace thunder {

// By cuDNN's fused attention; false, and nothing done, where it does not take the call: other types than bf16, a
// padding mask (cuDNN's is a length for each sequence), sizes of heads that are no multiple of 8 or above 128, or a
// build without cuDNN.
bool cudnn_attention_forward(const AttentionForward& call, Stream& stream);
bool cudnn_attention_backward(const AttentionBackward& call, Stream& stream);
// Who it is, for the log.
std::string attention_provider();

// By kernels/attention.cuh.
void blocked_attention_forward(const AttentionForward& call, Stream& stream);
void blocked_attention_backward(const AttentionBackward& call, Stream& stream);

}  // namespace thunder
