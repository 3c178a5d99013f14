// SPDX-License-Identifier: Apache-2.0
// Calls of the runtime API as messages and --profile name them, and what they cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/api.h"
#include "device/call_results.h"
#include "device/recomputation.h"
#include "device/timed.h"

namespace thunder {

// "y f32 (16, 48), x f32 (16, 16), weight f32 (48, 16)"
std::string describe(const LinearForward& call);
std::string describe(const LinearBackwardInput& call);
std::string describe(const LinearBackwardWeight& call);
std::string describe(const GroupedLinear& call);
std::string describe(const GroupedLinearBackwardWeight& call);
std::string describe(const Matmul& call);
std::string describe(const ConvolutionForward& call);
std::string describe(const ConvolutionBackwardInput& call);
std::string describe(const ConvolutionBackwardWeight& call);
std::string describe(const AttentionForward& call);
std::string describe(const AttentionBackward& call);
std::string describe(const EmbeddingForward& call);
std::string describe(const EmbeddingBackward& call);
std::string describe(const CrossEntropyForward& call);
std::string describe(const CrossEntropyBackward& call);
std::string describe(const LinearCrossEntropy& call);
std::string describe(const Gather& call);
std::string describe(const ScatterAdd& call);
std::string describe(const RandomUniform& call);
std::string describe(const RandomBernoulli& call);
std::string describe(const Fp8Quantise& call);
std::string describe(const Fp8Finish& call);
std::string describe(const Fp8Product& call);
std::string describe(const Fp8QuantiseBlocks& call);
std::string describe(const Fp8BlockProduct& call);
std::string describe(const Fp8Amax& call);
std::string describe(const Fp8CurrentScales& call);
std::string describe(const Fp8UpdateScales& call);

// What they move and compute at least.
Cost cost_of(const LinearForward& call);
Cost cost_of(const LinearBackwardInput& call);
Cost cost_of(const LinearBackwardWeight& call);
Cost cost_of(const GroupedLinear& call);
Cost cost_of(const GroupedLinearBackwardWeight& call);
Cost cost_of(const Matmul& call);
Cost cost_of(const ConvolutionForward& call);
Cost cost_of(const ConvolutionBackwardInput& call);
Cost cost_of(const ConvolutionBackwardWeight& call);
Cost cost_of(const AttentionForward& call);
Cost cost_of(const AttentionBackward& call);
Cost cost_of(const EmbeddingForward& call);
Cost cost_of(const EmbeddingBackward& call);
Cost cost_of(const CrossEntropyForward& call);
Cost cost_of(const CrossEntropyBackward& call);
Cost cost_of(const LinearCrossEntropy& call);
Cost cost_of(const Gather& call);
Cost cost_of(const ScatterAdd& call);
Cost cost_of(const RandomUniform& call);
Cost cost_of(const RandomBernoulli& call);
Cost cost_of(const Fp8Quantise& call);
Cost cost_of(const Fp8Finish& call);
Cost cost_of(const Fp8Product& call);
Cost cost_of(const Fp8QuantiseBlocks& call);
Cost cost_of(const Fp8BlockProduct& call);
Cost cost_of(const Fp8Amax& call);
Cost cost_of(const Fp8CurrentScales& call);
Cost cost_of(const Fp8UpdateScales& call);

// Tells whoever looks on of a call: const Timed timed = timed_call("matmul", call, stream);
template <typename Call>
Timed timed_call(const char* name, const Call& call, Stream& stream) {
    const CallObserver* observer = stream.device().observer();
    if (observer == nullptr) return Timed(stream);
    Cost cost = cost_of(call);
    if (cost.arithmetic == Cost::Arithmetic::f32 && stream.device().options().tf32)
        cost.arithmetic = Cost::Arithmetic::tf32;
    const std::string text = std::string(name) + " " + describe(call);
    const std::vector<CallResult> results = results_of(call);
    const std::optional<Recomputation> again = observer->recomputes() ? recomputation_of(call) : std::nullopt;
    return Timed(ObservedCall{text, cost, results, again ? &*again : nullptr}, stream);
}

}  // namespace thunder
