// SPDX-License-Identifier: Apache-2.0
// Steps whose loss or gradient is no number, or whose gradient is far larger than those before: what --on-nan and
// --spike-factor say of them. The device skips them: nothing but the run's count of steps and its place in the data
// moves on. What the host decides follows from norms that all ranks know alike.
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
    // device does not know; infinity: any that is finite is taken, as while there are fewer than ten, but not where the
    // loss is no number; 0: the loss is not looked at, as without --on-nan.
    double most_norm(std::int64_t step) const;

    // A step is done. True: it was skipped by this, and is told of; not where a dynamic scale of the loss skips it by
    // itself (is_overflow). Into what a checkpoint keeps.
    bool add(const StepReport& report, Progress& progress);
    // The run goes back to a checkpoint, in which it stands now, and on behind so many rows that nothing is trained on.
    void count_way_back(Progress& progress, std::int64_t rows);

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

// Of the rows before Progress::data_position, those that no step of the run as it stands was trained on.
std::int64_t rows_left_out(const Progress& progress);

std::string_view name_of(Options::OnNan how);
std::int64_t spike_window(const Options& options);
std::int64_t nan_limit(const Options& options);

}  // namespace thunder
