// SPDX-License-Identifier: Apache-2.0
// Recipes of scaling: which type a tensor is quantised to, and the scale that follows from amaxes, of before or its
// own. They are Transformer Engine's DelayedScaling and Float8CurrentScaling; docs/numerics.md names each corner with
// the file that it is in.
#pragma once

#include "device/fp8.h"

namespace thunder {

enum class Fp8Format : std::uint8_t {
    hybrid,  // e4m3 in the forward pass, e5m2 for gradients, which need range more than digits
    e4m3,    // in both
};

// The largest number of a type, which an amax is brought to: halved `margin` times, for what may be larger next time.
template <typename T>
THUNDER_HOST_DEVICE constexpr float fp8_largest();
template <>
THUNDER_HOST_DEVICE constexpr float fp8_largest<e4m3>() {
    return 448.F;
}
template <>
THUNDER_HOST_DEVICE constexpr float fp8_largest<e5m2>() {
    return 57344.F;
}

struct DelayedScaling {
    Fp8Format format = Fp8Format::hybrid;
    bool latest = false;  // from the latest amax alone, not the largest of the history
    int margin = 0;
    int length = 1024;  // of the history

    THUNDER_HOST_DEVICE constexpr bool is_e5m2(bool of_gradients) const {
        return of_gradients && format == Fp8Format::hybrid;
    }
    // What Fp8UpdateScales is given.
    THUNDER_HOST_DEVICE constexpr float largest(bool of_gradients) const {
        float result = is_e5m2(of_gradients) ? fp8_largest<e5m2>() : fp8_largest<e4m3>();
        for (int k = 0; k < margin; ++k) result /= 2;
        for (int k = 0; k > margin; --k) result *= 2;
        return result;
    }
};

inline constexpr float fp8_most = 0x1.fffffep127F;  // the largest number of f32

// The scale that takes `amax` to `largest`. One that is no positive number of f32 (0, an infinity, NaN) says nothing of
// the next tensor: the scale stays. A scale that f32 does not hold becomes its largest number.
THUNDER_HOST_DEVICE inline float delayed_scale(float amax, float before, float largest) {
    const float scale = amax > 0 && amax <= fp8_most ? largest / amax : before;
    return scale > fp8_most ? fp8_most : scale;
}

// The same of a tensor's own amax, as Transformer Engine has it in current scaling and in blocks: where it says nothing
// the scale is 1. `powers_of_two`: cut to one, so that the scale changes no digit. An amax below `least` counts as
// `least`. A scale that f32 does not hold becomes `most`.
THUNDER_HOST_DEVICE inline float current_scale(float amax, float largest, bool powers_of_two, float least,
                                               float most = fp8_most) {
    const float raised = amax < least ? least : amax;
    float scale = raised > 0 && raised <= fp8_most ? largest / raised : 1.F;
    if (scale > fp8_most) scale = most;
    return powers_of_two ? detail::float_of(detail::bits_of(scale) & 0xff800000U) : scale;
}

// What a block is quantised by: x * factor is rounded, and `scale`, an f32 or an e8m0, is what brings it back.
template <typename Scale>
struct Fp8BlockScale {
    float factor;
    Scale scale;
};
// In f32. `most`: the largest number of x's type, as Transformer Engine has it.
THUNDER_HOST_DEVICE inline Fp8BlockScale<float> scale_of_block(float amax, bool powers_of_two, float least,
                                                               float most) {
    const float factor = current_scale(amax, fp8_largest<e4m3>(), powers_of_two, least, most);
    return {factor, 1.F / factor};
}
// In e8m0: the least power of two by which the block is not larger than the type.
THUNDER_HOST_DEVICE inline Fp8BlockScale<e8m0> mx_scale_of_block(float amax) {
    const e8m0 scale = to_e8m0(amax * (1.F / fp8_largest<e4m3>()));
    const auto exponent = static_cast<std::uint32_t>(scale);
    const std::uint32_t factor = exponent == 0xffU ? 0x7fc00000U : (254 - exponent) << 23;
    return {detail::float_of(exponent == 0xfeU ? 0x00400000U : factor), scale};
}

// Of two amaxes the larger one; a NaN counts for nothing.
THUNDER_HOST_DEVICE inline float larger_amax(float amax, float other) {
    return other > amax ? other : amax;
}

}  // namespace thunder
