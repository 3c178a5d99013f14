// SPDX-License-Identifier: Apache-2.0
// What changes from step to step, as it lies on the device: the scalars, behind them the numbers of groups of
// parameters (numbers_of_group), and then the weights of a loss of several terms.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "optim/step_scalars.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

struct StepNumbers {
    StepScalars scalars;
    std::vector<double> groups;  // most_numbers of each
    std::vector<float> loss_weights;

    StepNumbers(const ProgramSpec& program, const Options& options)
        : groups(options.groups.size() * rules::most_numbers),
          loss_weights(static_cast<std::size_t>(program.loss_weights)) {}

    // `of_groups`: of the run, then of each group.
    void set_rule(std::span<const std::vector<double>> of_groups) {
        std::copy(of_groups[0].begin(), of_groups[0].end(), scalars.rule);
        for (std::size_t k = 1; k < of_groups.size(); ++k)
            std::copy(of_groups[k].begin(), of_groups[k].end(),
                      groups.begin() + static_cast<std::ptrdiff_t>(k - 1) * rules::most_numbers);
    }

    std::size_t loss_weights_at() const { return sizeof scalars + groups.size() * sizeof(double); }
    std::size_t bytes() const { return loss_weights_at() + loss_weights.size() * sizeof(float); }

    void write(std::byte* to) const {
        std::memcpy(to, &scalars, sizeof scalars);
        copy_bytes(std::as_bytes(std::span(groups)), to + sizeof scalars);
        copy_bytes(std::as_bytes(std::span(loss_weights)), to + loss_weights_at());
    }
    void read(const std::byte* from) {
        std::memcpy(&scalars, from, sizeof scalars);
        copy_bytes({from + sizeof scalars, groups.size() * sizeof(double)},
                   std::as_writable_bytes(std::span(groups)).data());
        copy_bytes({from + loss_weights_at(), loss_weights.size() * sizeof(float)},
                   std::as_writable_bytes(std::span(loss_weights)).data());
    }

  private:
    static void copy_bytes(std::span<const std::byte> from, std::byte* to) { std::copy(from.begin(), from.end(), to); }
};

}  // namespace thunder
