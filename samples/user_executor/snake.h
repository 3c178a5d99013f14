// SPDX-License-Identifier: Apache-2.0
// Snake, an activation for what repeats: y = x + sin(alpha x)^2 / alpha, with an alpha for each column.
// Ziyin, Hartwig and Ueda, "Neural Networks Fail to Learn Periodic Functions and How to Fix It", 2020.
#pragma once

#include <cstdint>

namespace thunder {
class Stream;
}

struct SnakeForward {
    float* y = nullptr;            // (rows, C)
    const float* x = nullptr;      // (rows, C)
    const float* alpha = nullptr;  // (C)
    std::int64_t rows = 0, C = 0;
};
void snake_forward(const SnakeForward& call, thunder::Stream& stream);

struct SnakeBackward {
    float* dx = nullptr;           // (rows, C)
    float* dalpha = nullptr;       // (C)
    const float* dy = nullptr;     // (rows, C)
    const float* x = nullptr;      // (rows, C)
    const float* alpha = nullptr;  // (C)
    std::int64_t rows = 0, C = 0;
};
void snake_backward(const SnakeBackward& call, thunder::Stream& stream);
