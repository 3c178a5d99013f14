// SPDX-License-Identifier: Apache-2.0
#include "device/call_results.h"

#include <initializer_list>

#include "device/fp8_blocks.h"

namespace thunder {

namespace {

std::vector<CallResult> those_there(std::initializer_list<CallResult> results) {
    std::vector<CallResult> out;
    for (const CallResult& result : results)
        if (result.tensor) out.push_back(result);
    return out;
}

// By a scale that the call makes itself nothing is known before it: where that is not kept, of nothing.
Quantised quantised_from(const Fp8Quantise& c) {
    if (!c.scale) return {};
    return {.x = c.x, .rows = c.rows, .width = c.width, .ld = c.ld_x > 0 ? c.ld_x : c.width, .scale = c.scale};
}

Quantised quantised_from(const Fp8QuantiseBlocks& c, bool transposed) {
    const Fp8BlockShape shape = shape_of(c.blocks);
    return {.x = c.x,
            .rows = c.rows,
            .width = c.width,
            .ld = c.ld_x > 0 ? c.ld_x : c.width,
            .block_scales = as_read(transposed ? c.scales_transposed : c.scales),
            .block_rows = shape.rows,
            .block_columns = shape.columns,
            .transposed = transposed};
}

}  // namespace

std::vector<CallResult> results_of(const LinearForward& c) {
    return those_there({{"y", c.y}, {"pre_activation", c.pre_activation}});
}
std::vector<CallResult> results_of(const LinearBackwardInput& c) {
    return those_there({{"dx", c.dx}});
}
std::vector<CallResult> results_of(const LinearBackwardWeight& c) {
    return those_there({{"dweight", c.dweight}, {"dbias", c.dbias}});
}
std::vector<CallResult> results_of(const GroupedLinear& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const GroupedLinearBackwardWeight& c) {
    return those_there({{"dweight", c.dweight}});
}
std::vector<CallResult> results_of(const Matmul& c) {
    return those_there({{"c", c.c}});
}
std::vector<CallResult> results_of(const ConvolutionForward& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const ConvolutionBackwardInput& c) {
    return those_there({{"dx", c.dx}});
}
std::vector<CallResult> results_of(const ConvolutionBackwardWeight& c) {
    return those_there({{"dweight", c.dweight}});
}
std::vector<CallResult> results_of(const AttentionForward& c) {
    return those_there({{"out", c.out}, {"lse", c.lse}});
}
std::vector<CallResult> results_of(const AttentionBackward& c) {
    return those_there({{"dq", c.dq}, {"dk", c.dk}, {"dv", c.dv}});
}
std::vector<CallResult> results_of(const EmbeddingForward& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const EmbeddingBackward& c) {
    return those_there({{"dweight", c.dweight}});
}
std::vector<CallResult> results_of(const CrossEntropyForward& c) {
    return those_there({{"loss", c.loss}, {"lse", c.lse}});
}
std::vector<CallResult> results_of(const CrossEntropyBackward& c) {
    return those_there({{"dlogits", c.dlogits}});
}
std::vector<CallResult> results_of(const LinearCrossEntropy& c) {
    return those_there({{"losses", c.losses}, {"dx", c.dx}, {"dweight", c.dweight}, {"dbias", c.dbias}});
}
std::vector<CallResult> results_of(const Gather& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const ScatterAdd& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const RandomUniform& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const RandomBernoulli& c) {
    return those_there({{"y", c.y}});
}
std::vector<CallResult> results_of(const Fp8Quantise& c) {
    return those_there({{"q", c.q, c.inverse, quantised_from(c)},
                        {"q_transposed", c.q_transposed, c.inverse, quantised_from(c)},
                        {"amax", c.amax}});
}
std::vector<CallResult> results_of(const Fp8Finish& c) {
    return those_there({{"q_transposed", c.q_transposed, c.inverse}, {"amax", c.amax, {}}});
}
std::vector<CallResult> results_of(const Fp8Product& c) {
    return those_there({{"c", c.c}});
}
std::vector<CallResult> results_of(const Fp8QuantiseBlocks& c) {
    return those_there({{"q", c.q, {}, quantised_from(c, false)},
                        {"scales", c.scales},
                        {"q_transposed", c.q_transposed, {}, quantised_from(c, true)},
                        {"scales_transposed", c.scales_transposed}});
}
std::vector<CallResult> results_of(const Fp8BlockProduct& c) {
    return those_there({{"c", c.c}});
}
std::vector<CallResult> results_of(const Fp8Amax& c) {
    return those_there({{"amax", c.amax}});
}
std::vector<CallResult> results_of(const Fp8CurrentScales& c) {
    return those_there({{"scale", c.scale}, {"amax", c.amax}});
}
std::vector<CallResult> results_of(const Fp8UpdateScales& c) {
    return those_there({{"scale", c.scale}, {"history", c.history}});
}

}  // namespace thunder
