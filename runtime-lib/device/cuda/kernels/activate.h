// SPDX-License-Identifier: Apache-2.0
// The activations that follow products and convolutions.
#pragma once

#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

// The order of thunder::Activation.
THUNDER_FUNCTION float activate(float x, int activation) {
    switch (activation) {
        case 1: return x > 0.0F || x != x ? x : 0.0F;
        case 2: return 0.5F * x * (1.0F + math::erf(x * 0.70710678F));
        case 3: return x * math::sigmoid(1.5957691F * (x + 0.044715F * x * x * x));
        case 4: return x * math::sigmoid(x);
        case 5: return math::tanh(x);
        default: return x;
    }
}

}  // namespace thunder::bundled
