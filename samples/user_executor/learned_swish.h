// SPDX-License-Identifier: Apache-2.0
// Swish with a slope that is learned for each column: y = x gate, gate = sigmoid(beta x), which is kept.
#pragma once

#include <cstdint>

namespace thunder {
class Stream;
}

struct LearnedSwishForward {
    float* y = nullptr;           // (rows, C)
    float* gate = nullptr;        // (rows, C)
    const float* x = nullptr;     // (rows, C)
    const float* beta = nullptr;  // (C)
    std::int64_t rows = 0, C = 0;
};
void learned_swish_forward(const LearnedSwishForward& call, thunder::Stream& stream);

struct LearnedSwishBackward {
    float* dx = nullptr;          // (rows, C)
    float* dbeta = nullptr;       // (C)
    const float* dy = nullptr;    // (rows, C)
    const float* x = nullptr;     // (rows, C)
    const float* beta = nullptr;  // (C)
    const float* gate = nullptr;  // (rows, C)
    std::int64_t rows = 0, C = 0;
};
void learned_swish_backward(const LearnedSwishBackward& call, thunder::Stream& stream);
