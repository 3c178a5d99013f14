// SPDX-License-Identifier: Apache-2.0
// A part of the way from one number to another, for hosts and devices.
#pragma once

#include "support/mix_bits.h"

namespace thunder {

// As torch.lerp has it: counted from the nearer end, so that the whole way ends at that very number.
THUNDER_HOST_DEVICE constexpr float interpolate(float from, float to, float part) {
    return part < 0.5F ? from + part * (to - from) : to - (1 - part) * (to - from);
}

}  // namespace thunder
