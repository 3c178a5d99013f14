// SPDX-License-Identifier: Apache-2.0
// Steps whose gradient is no number, or far larger than those before: what --on-nan and --spike-factor say of them. The
// device skips them: nothing but the run's count of steps and its place in the data moves on. What the host decides
// follows from norms that all ranks know alike.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "train/log.h"
#include "train/options.h"

namespace thunder {

class BadSteps {
  public:
    explicit BadSteps(const Options& options) : options_(options) {}

    bool goes_back() const { return options_.on_nan == Options::OnNan::rollback; }

    // What was so far, as the run stands in `progress`.
    void begin(const Progress& progress);

    // The norm of the gradient above which a step is skipped: --spike-factor times the median of the last
    // --spike-window steps that were taken, but for the one right before it, which a host that is a step ahead of its
    // device does not know; 0: any is taken, as while there are fewer than ten.
    double most_norm(std::int64_t step) const;

    // A step is done. True: it was skipped by this, and is told of. Into what a checkpoint keeps.
    bool add(const StepReport& report, Progress& progress);
    // The run goes back to a checkpoint, in which it stands now.
    void count_way_back(Progress& progress);

    // "the gradient's norm is nan", of a step that was skipped.
    std::string why(const StepReport& report) const;
    // Why the run ends with such a step; "": it does not.
    std::string end_of_run(const StepReport& report) const;

  private:
    void keep(Progress& progress) const;

    const Options& options_;
    std::deque<std::pair<std::int64_t, float>> norms_;  // of steps that were taken, a window and one more
    std::int64_t in_a_row_ = 0, ways_back_ = 0;
};

std::string_view name_of(Options::OnNan how);
std::int64_t spike_window(const Options& options);
std::int64_t nan_limit(const Options& options);

}  // namespace thunder
