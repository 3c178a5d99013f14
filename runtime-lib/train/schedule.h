// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "train/options.h"

namespace thunder {

// Of a run that does not say its own.
inline std::int64_t usual_warmup(std::int64_t steps) {
    return std::min<std::int64_t>(100, steps / 10);
}

// Warm-up: lr * (s + 1) / W in the first W steps. Then cosine and linear fall from lr in step W to min_lr in step
// `steps` (which is the first one that is not trained); wsd stays at lr and falls linearly over the last fifth of the
// steps; constant stays.
inline double learning_rate(const Options& options, std::int64_t step, double lr, double min_lr) {
    const auto s = static_cast<double>(step), warmup = static_cast<double>(options.warmup),
               steps = static_cast<double>(options.steps);
    if (step < options.warmup) return lr * (s + 1) / warmup;
    // How much of the way from `begin` to the end is done.
    const auto progress = [&](double begin) {
        return steps > begin ? std::clamp((s - begin) / (steps - begin), 0.0, 1.0) : 1.0;
    };
    const double range = lr - min_lr;
    switch (options.schedule) {
        case Schedule::cosine: return min_lr + range * (1 + std::cos(std::numbers::pi * progress(warmup))) / 2;
        case Schedule::linear: return lr - range * progress(warmup);
        case Schedule::constant: return lr;
        case Schedule::wsd: return lr - range * progress(std::max(warmup, steps * 0.8));
    }
    return lr;
}
inline double learning_rate(const Options& options, std::int64_t step) {
    return learning_rate(options, step, options.lr, options.min_lr);
}
// Of a group of parameters with a height of its own: the same part of it.
inline double learning_rate(const Options& options, std::int64_t step, double lr) {
    if (lr == options.lr) return learning_rate(options, step);
    return learning_rate(options, step, lr, options.lr > 0 ? options.min_lr * (lr / options.lr) : lr / 10);
}

}  // namespace thunder
