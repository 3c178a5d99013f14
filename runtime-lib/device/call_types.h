// SPDX-License-Identifier: Apache-2.0
// Which types the tensors of a call may have: what the head of api.h says, as a check that is the same on every
// device. Fails with the tensor, the call, and what was expected.
#pragma once

#include "device/api.h"

namespace thunder {

void check_types(const LinearForward& call);
void check_types(const LinearBackwardInput& call);
void check_types(const LinearBackwardWeight& call);
void check_types(const GroupedLinear& call);
void check_types(const GroupedLinearBackwardWeight& call);
void check_types(const Matmul& call);
void check_types(const ConvolutionForward& call);
void check_types(const ConvolutionBackwardInput& call);
void check_types(const ConvolutionBackwardWeight& call);
void check_types(const AttentionForward& call);
void check_types(const AttentionBackward& call);
void check_types(const EmbeddingForward& call);
void check_types(const EmbeddingBackward& call);
void check_types(const CrossEntropyForward& call);
void check_types(const CrossEntropyBackward& call);
void check_types(const LinearCrossEntropy& call);
void check_types(const Gather& call);
void check_types(const ScatterAdd& call);
void check_types(const RandomUniform& call);
void check_types(const RandomBernoulli& call);
void check_types(const Fp8Quantise& call);
void check_types(const Fp8Finish& call);
void check_types(const Fp8Product& call);
void check_types(const Fp8QuantiseBlocks& call);
void check_types(const Fp8BlockProduct& call);
void check_types(const Fp8Amax& call);
void check_types(const Fp8CurrentScales& call);
void check_types(const Fp8UpdateScales& call);

}  // namespace thunder
