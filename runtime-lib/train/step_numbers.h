// SPDX-License-Identifier: Apache-2.0
// What changes from step to step, as it lies on the device: the scalars, behind them the numbers of groups of
// parameters (numbers_of_group), and then the weights of a loss of several terms. Where the loss is scaled, the rule's
// numbers follow as they are where the step before is skipped, and what lasts: the scale.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "data/batch_source.h"
#include "optim/loss_scale.h"
#include "optim/step_scalars.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

struct StepNumbers {
    StepScalars scalars;
    std::vector<double> groups;  // most_numbers of each
    std::vector<float> loss_weights;
    bool scaled;                       // the loss is, perhaps by 1, as where steps may be skipped
    std::vector<double> after_skip{};  // of the run, then of each group
    LossScale scale{};

    StepNumbers(const ProgramSpec& program, const Options& options)
        : groups(options.groups.size() * rules::most_numbers),
          loss_weights(static_cast<std::size_t>(program.loss_weights)),
          scaled(options.skips_steps()) {
        if (scaled) after_skip.resize((1 + options.groups.size()) * rules::most_numbers);
    }

    // `of_groups`: of the run, then of each group.
    void set_rule(std::span<const std::vector<double>> of_groups) {
        std::copy(of_groups[0].begin(), of_groups[0].end(), scalars.rule);
        for (std::size_t k = 1; k < of_groups.size(); ++k)
            std::copy(of_groups[k].begin(), of_groups[k].end(),
                      groups.begin() + static_cast<std::ptrdiff_t>(k - 1) * rules::most_numbers);
    }

    void set_rule_after_skip(std::span<const std::vector<double>> of_groups) {
        for (std::size_t k = 0; k < of_groups.size(); ++k)
            std::copy(of_groups[k].begin(), of_groups[k].end(),
                      after_skip.begin() + static_cast<std::ptrdiff_t>(k) * rules::most_numbers);
    }

    std::size_t loss_weights_at() const { return sizeof scalars + groups.size() * sizeof(double); }
    std::size_t after_skip_at() const {
        const std::size_t end = loss_weights_at() + loss_weights.size() * sizeof(float);
        return scaled ? (end + sizeof(double) - 1) / sizeof(double) * sizeof(double) : end;
    }
    std::size_t scale_at() const { return after_skip_at() + after_skip.size() * sizeof(double); }
    // What the host writes before a step, and all of it.
    std::size_t bytes_of_step() const { return scale_at(); }
    std::size_t bytes() const { return scale_at() + (scaled ? sizeof scale : 0); }

    void write(std::byte* to) const {
        std::memcpy(to, &scalars, sizeof scalars);
        copy_bytes(std::as_bytes(std::span(groups)), to + sizeof scalars);
        copy_bytes(std::as_bytes(std::span(loss_weights)), to + loss_weights_at());
        copy_bytes(std::as_bytes(std::span(after_skip)), to + after_skip_at());
        if (scaled) std::memcpy(to + scale_at(), &scale, sizeof scale);
    }
    void read(const std::byte* from) {
        std::memcpy(&scalars, from, sizeof scalars);
        copy_bytes({from + sizeof scalars, groups.size() * sizeof(double)},
                   std::as_writable_bytes(std::span(groups)).data());
        copy_bytes({from + loss_weights_at(), loss_weights.size() * sizeof(float)},
                   std::as_writable_bytes(std::span(loss_weights)).data());
        if (scaled) std::memcpy(&scale, from + scale_at(), sizeof scale);
    }

  private:
    static void copy_bytes(std::span<const std::byte> from, std::byte* to) { std::copy(from.begin(), from.end(), to); }
};

// What a step begins with that follows from its number alone.
StepNumbers numbers_of_step(const ProgramSpec& program, const Options& options, const BatchCut& cut, std::int64_t step);

}  // namespace thunder
