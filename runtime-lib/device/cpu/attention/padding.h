// SPDX-License-Identifier: Apache-2.0
// Heads whose size is no multiple of a vector: attention over copies whose heads are, with zeros behind each. Zeros
// change neither scores nor sums. Tensors of bf16 pass through such copies as well, in f32.
#pragma once

#include "device/api.h"

namespace thunder {

void attention_forward_padded(const AttentionForward& call, Stream& stream);
void attention_backward_padded(const AttentionBackward& call, Stream& stream);

}  // namespace thunder
