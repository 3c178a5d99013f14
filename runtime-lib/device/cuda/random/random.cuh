// SPDX-License-Identifier: Apache-2.0
// Drawn numbers in memory: a thread for each counter, which gives four of them.
#pragma once

#include "device/cuda/kernels/draw.h"

namespace thunder::bundled {

// (rows, width), of which each row has `counters` counters, a quarter of its width rounded up.
THUNDER_KERNEL(256)
bundled_random_uniform(Global<float> y, Global<const std::int64_t> seed, Global<const std::int64_t> draw,
                       Global<const std::int64_t> numbers, std::int64_t rows, std::int64_t width,
                       std::int64_t counters) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at >= rows * counters) return;
    const std::int64_t row = at / counters, counter = at % counters;
    const Drawn drawn = drawn_at(counter, numbers[row], draw[0], seed[0]);
    for (int w = 0; w < 4 && 4 * counter + w < width; ++w)
        y[row * width + 4 * counter + w] = static_cast<float>(drawn.words[w] >> 8) * 0x1p-24F;
}

THUNDER_KERNEL(256)
bundled_random_bernoulli(Global<bool> y, Global<const std::int64_t> seed, Global<const std::int64_t> draw,
                         Global<const std::int64_t> numbers, std::int64_t rows, std::int64_t width,
                         std::int64_t counters, std::uint32_t below) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at >= rows * counters) return;
    const std::int64_t row = at / counters, counter = at % counters;
    const Drawn drawn = drawn_at(counter, numbers[row], draw[0], seed[0]);
    for (int w = 0; w < 4 && 4 * counter + w < width; ++w)
        y[row * width + 4 * counter + w] = (drawn.words[w] >> 8) < below;
}

}  // namespace thunder::bundled
