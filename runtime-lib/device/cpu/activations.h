// SPDX-License-Identifier: Apache-2.0
// The activations that a product may carry, and their derivatives.
#pragma once

#include "device/cpu/vec_math.h"

namespace thunder::math {

inline float relu(float x) {
    return x > 0.0F || x != x ? x : 0.0F;
}

// x Phi(x), Phi the normal distribution function
inline float gelu(float x) {
    return 0.5F * x * (1.0F + math::erf(x * 0.70710678F));
}
// d gelu = Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)
inline float gelu_derivative(float x) {
    return 0.5F * (1.0F + math::erf(x * 0.70710678F)) + x * 0.39894228F * math::exp(-0.5F * x * x);
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
inline float gelu_tanh(float x) {
    return x * math::sigmoid(1.5957691F * (x + 0.044715F * x * x * x));
}
inline float gelu_tanh_derivative(float x) {
    const auto [s, rest] = math::sigmoid_pair(1.5957691F * (x + 0.044715F * x * x * x));
    return s + x * s * rest * 1.5957691F * (1.0F + 3.0F * 0.044715F * x * x);
}

inline float silu(float x) {
    return x * math::sigmoid(x);
}
// d silu = s (1 + x (1 - s)), s = sigmoid(x)
inline float silu_derivative(float x) {
    const auto [s, rest] = math::sigmoid_pair(x);
    return s * (1.0F + x * rest);
}

}  // namespace thunder::math
