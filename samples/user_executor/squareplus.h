// SPDX-License-Identifier: Apache-2.0
// Squareplus: y = (x + root) / 2, root = sqrt(x^2 + bend), which is kept.
#pragma once

#include <cstdint>

namespace thunder {
class Stream;
}

struct SquareplusForward {
    float* y = nullptr;        // (rows)
    float* root = nullptr;     // (rows)
    const float* x = nullptr;  // (rows)
    std::int64_t rows = 0;     // of all dimensions
    float bend = 0;
};
void squareplus_forward(const SquareplusForward& call, thunder::Stream& stream);

struct SquareplusBackward {
    float* dx = nullptr;          // (rows)
    const float* dy = nullptr;    // (rows)
    const float* y = nullptr;     // (rows)
    const float* root = nullptr;  // (rows)
    std::int64_t rows = 0;        // of all dimensions
    float bend = 0;
};
void squareplus_backward(const SquareplusBackward& call, thunder::Stream& stream);
