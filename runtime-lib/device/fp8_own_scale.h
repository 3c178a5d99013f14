// SPDX-License-Identifier: Apache-2.0
// Current scaling of one tensor, of calls that are there: its amax, in a pass of its own, and the scale of that.
#pragma once

#include "device/api.h"
#include "device/fp8_recipe.h"

namespace thunder {

// The call by the scale that is then in `own_scale`.
inline Fp8Quantise with_own_scale(Fp8Quantise call, Stream& stream) {
    const DType q = (call.q ? call.q : call.q_transposed).dtype;
    // 1 / scale is written last of all: until then the amax has its place.
    fill_zero(call.inverse.data, sizeof(float), stream);
    fp8_amax({.amax = call.inverse, .x = call.x, .rows = call.rows, .width = call.width, .ld_x = call.ld_x}, stream);
    fp8_current_scales({.scale = call.own_scale,
                        .amax = call.inverse,
                        .largest = q == DType::e5m2 ? fp8_largest<e5m2>() : fp8_largest<e4m3>(),
                        .tensors = 1},
                       stream);
    call.scale = static_cast<const float*>(call.own_scale.data);
    call.own_scale = {};
    return call;
}

}  // namespace thunder
