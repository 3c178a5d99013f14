// SPDX-License-Identifier: Apache-2.0
// Numbers drawn by the number of the row.
#include <cmath>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/launch.h"
#include "device/cuda/random/random.cuh"
#include "device/reference.h"

namespace thunder {

namespace {

template <typename Call, typename Kernel, typename Element, typename... Rest>
void draw_all(const char* name, const Call& call, Stream& stream, Kernel* kernel, Element* y, Rest... rest) {
    issue(name, call, stream, [&] {
        check_types(call);
        const std::int64_t counters = (call.width + 3) / 4, all = call.rows * counters;
        if (all == 0) return;
        launch(name, kernel, (all + 255) / 256, 256, stream, y, static_cast<const std::int64_t*>(call.seed.data),
               static_cast<const std::int64_t*>(call.draw.data), static_cast<const std::int64_t*>(call.numbers.data),
               call.rows, call.width, counters, rest...);
    });
}

std::uint32_t threshold(double p) {
    return static_cast<std::uint32_t>(std::ceil(p * 0x1p24));
}

}  // namespace

void random_uniform(const RandomUniform& call, Stream& stream) {
    draw_all("random_uniform", call, stream, bundled::bundled_random_uniform, static_cast<float*>(call.y.data));
}

void random_bernoulli(const RandomBernoulli& call, Stream& stream) {
    draw_all("random_bernoulli", call, stream, bundled::bundled_random_bernoulli, static_cast<bool*>(call.y.data),
             threshold(call.p));
}

}  // namespace thunder
