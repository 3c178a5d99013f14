// SPDX-License-Identifier: Apache-2.0
// The tensors that calls of the runtime API write, as who looks on at calls is told of them.
#pragma once

#include <vector>

#include "device/api.h"
#include "device/call_observer.h"

namespace thunder {

// By the fields' names; what a call does without is left out. Of calls of the runtime that no graph's tensor comes out
// of (a step of the optimizer) there are none.
std::vector<CallResult> results_of(const LinearForward& call);
std::vector<CallResult> results_of(const LinearBackwardInput& call);
std::vector<CallResult> results_of(const LinearBackwardWeight& call);
std::vector<CallResult> results_of(const GroupedLinear& call);
std::vector<CallResult> results_of(const GroupedLinearBackwardWeight& call);
std::vector<CallResult> results_of(const Matmul& call);
std::vector<CallResult> results_of(const ConvolutionForward& call);
std::vector<CallResult> results_of(const ConvolutionBackwardInput& call);
std::vector<CallResult> results_of(const ConvolutionBackwardWeight& call);
std::vector<CallResult> results_of(const AttentionForward& call);
std::vector<CallResult> results_of(const AttentionBackward& call);
std::vector<CallResult> results_of(const EmbeddingForward& call);
std::vector<CallResult> results_of(const EmbeddingBackward& call);
std::vector<CallResult> results_of(const CrossEntropyForward& call);
std::vector<CallResult> results_of(const CrossEntropyBackward& call);
std::vector<CallResult> results_of(const LinearCrossEntropy& call);
std::vector<CallResult> results_of(const Gather& call);
std::vector<CallResult> results_of(const ScatterAdd& call);
std::vector<CallResult> results_of(const RandomUniform& call);
std::vector<CallResult> results_of(const RandomBernoulli& call);
std::vector<CallResult> results_of(const Fp8Quantise& call);
std::vector<CallResult> results_of(const Fp8Finish& call);
std::vector<CallResult> results_of(const Fp8Product& call);
std::vector<CallResult> results_of(const Fp8QuantiseBlocks& call);
std::vector<CallResult> results_of(const Fp8BlockProduct& call);
std::vector<CallResult> results_of(const Fp8Amax& call);
std::vector<CallResult> results_of(const Fp8CurrentScales& call);
std::vector<CallResult> results_of(const Fp8UpdateScales& call);
template <typename Call>
std::vector<CallResult> results_of(const Call&) {
    return {};
}

}  // namespace thunder
