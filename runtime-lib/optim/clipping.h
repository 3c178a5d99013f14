// SPDX-License-Identifier: Apache-2.0
// What gradients are multiplied with, from the sum of their squares: for hosts and devices.
#pragma once

#include "support/mix_bits.h"

#ifndef __CUDACC_RTC__
#include <cmath>
#endif

namespace thunder {

// In place of a factor: the step is not taken.
constexpr float skipped_step = -1;
THUNDER_HOST_DEVICE constexpr bool is_skipped(float clip_factor) {
    return clip_factor < 0;
}

struct Clipping {
    float grad_norm, clip_factor;
};

// `most` 0: no clipping; `loss_scale` 0: the loss was not scaled, and no step is skipped; 1: it was not either, but
// steps may be. `limit`: above which norm one is, and one whose loss is no number; 0: neither. The sum is finite where
// all gradients are: in double no square of a float overflows. Where nothing is scaled, a norm that is no number passes
// on into the factor, and so into the parameters: the step's loss says so.
THUNDER_HOST_DEVICE inline Clipping clipping_of(double squares, double most, float loss_scale, double limit,
                                                float loss) {
    const bool scaled = loss_scale != 0;
    const double norm = scaled ? sqrt(squares) / static_cast<double>(loss_scale) : sqrt(squares);
    const double factor = most / (norm + 1e-6);
    const float clip = most > 0 ? static_cast<float>(factor > 1.0 ? 1.0 : factor) : 1.0F;
    if (!scaled) return {static_cast<float>(norm), clip};
    const bool taken = squares - squares == 0 && !(limit > 0 && (norm > limit || loss - loss != 0));
    // The inverse as torch has it, and of a power of two an exact one.
    const auto inverse = static_cast<float>(1 / static_cast<double>(loss_scale));
    return {static_cast<float>(norm), taken ? clip * inverse : skipped_step};
}

// ---- the scale, as torch's _amp_update_scale_ makes it -------------------------------------------------------------

// It doubles after so many steps in a row, unless it would overflow, and halves where a step is skipped whose gradient
// is not finite; one that is skipped for another reason leaves it.
struct Scale {
    float scale;
    int good;
};
THUNDER_HOST_DEVICE constexpr Scale scale_after(const Scale& before, bool skipped, float grad_norm,
                                                long long interval) {
    if (interval == 0 || (skipped && grad_norm - grad_norm == 0)) return before;
    if (skipped) return {before.scale * 0.5F, 0};
    if (before.good + 1 < interval) return {before.scale, before.good + 1};
    const float twice = before.scale * 2;
    return {twice - twice == 0 ? twice : before.scale, 0};
}

}  // namespace thunder
