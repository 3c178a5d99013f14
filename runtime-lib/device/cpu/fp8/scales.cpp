// SPDX-License-Identifier: Apache-2.0
// Scales of delayed and of current scaling on a CPU.
#include "device/api.h"
#include "device/call_types.h"
#include "device/describe.h"
#include "device/fp8_recipe.h"
#include "device/parallel.h"

namespace thunder {

void fp8_current_scales(const Fp8CurrentScales& call, Stream& stream) {
    const Timed timed = timed_call("fp8_current_scales", call, stream);
    check_types(call);
    auto *scale = static_cast<float*>(call.scale.data), *amax = static_cast<float*>(call.amax.data);
    for (std::int64_t t = 0; t < call.tensors; ++t) {
        scale[t] = current_scale(amax[t], call.largest, call.powers_of_two, call.least_amax);
        amax[t] = 0;
    }
}

void fp8_update_scales(const Fp8UpdateScales& call, Stream& stream) {
    const Timed timed = timed_call("fp8_update_scales", call, stream);
    check_types(call);
    auto* scale = static_cast<float*>(call.scale.data);
    auto* amaxes = static_cast<float*>(call.amax.data);
    parallel_rows(call.tensors, call.length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            float* history = static_cast<float*>(call.history.data) + t * call.length;
            const float latest = call.amax && amaxes[t] != 0 ? amaxes[t] : history[0];
            float largest = 0;
            if (latest != 0) {  // a NaN, too
                for (std::int64_t k = 0; k < call.length; ++k) {
                    const float moved = k + 1 < call.length ? history[k + 1] : latest;
                    largest = larger_amax(largest, moved);  // the oldest one counts for the last time
                    history[k] = k == 0 ? 0 : moved;
                }
            }
            scale[t] = delayed_scale(call.latest ? latest : largest, scale[t], call.largest);
            if (call.amax) amaxes[t] = 0;
        }
    });
}

}  // namespace thunder
