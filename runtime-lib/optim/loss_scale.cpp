// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scale.h"

#include <algorithm>

#include "optim/clipping.h"

namespace thunder {

void scale_loss(const ScaleLoss& call, Stream&) {
    call.scalars->loss_scale = call.scale->scale;
    call.scalars->dloss *= call.scale->scale;
    if (call.scale->last_skipped == 0) return;
    for (std::int64_t k = 0; k <= call.groups; ++k)
        std::copy_n(call.numbers_after_skip + k * rules::most_numbers, rules::most_numbers,
                    call.scalars->rule + numbers_of_group(k));
}

void next_loss_scale(const NextLossScale& call, Stream&) {
    LossScale& scale = *call.scale;
    const bool skips = is_skipped(call.scalars->clip_factor);
    const Scale next = scale_after({scale.scale, scale.good}, skips, call.scalars->grad_norm, call.interval);
    scale.scale = next.scale;
    scale.good = next.good;
    scale.skipped += skips ? 1 : 0;
    scale.last_skipped = skips ? 1 : 0;
    scale.average_part = skips ? 0.0F : scale.averages == 0 ? 1.0F : call.average_part;
    if (!skips) scale.averages = 1;
}

}  // namespace thunder
