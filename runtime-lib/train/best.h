// SPDX-License-Identifier: Apache-2.0
// Which evaluation had the lowest loss: for --keep-best, which keeps that checkpoint, and --early-stop, which ends a
// run that comes to none that is lower.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/writer.h"
#include "train/log.h"
#include "train/options.h"
#include "train/world.h"

namespace thunder {

class BestEvaluation {
  public:
    explicit BestEvaluation(const Options& options) : options_(options) {}

    // What was so far, as the run stands in `progress`. Losses of other batches are none to compare with: then it
    // begins anew, and a line says so.
    std::string begin(const Progress& progress);

    // True: its loss is lower than all before. Into what a checkpoint keeps. One that was counted already, before a run
    // that goes on stopped, is not again.
    bool add(const EvaluationReport& report, Progress& progress);

    bool ends_run() const { return options_.early_stop > 0 && since_ >= options_.early_stop; }
    // "--early-stop 3: no lower loss in 3 evaluations: the lowest is 1.2345, after step 100"
    std::string describe() const;

    // The steps that were done before the evaluation with the lowest loss whose checkpoint is kept; -1: none is. It
    // stays where a run goes on without --keep-best.
    std::int64_t kept_step() const { return kept_; }
    // best.json in the folder of checkpoints names the one of that step.
    void write(const std::string& checkpoint) const;
    // Names it where it was there, or on its way there, before its loss was known, as --checkpoint-every and --resume
    // have it; the one before, which was spared for its loss alone, goes. On all ranks.
    void name(const std::string& checkpoint, CheckpointWriter& writer, const World& world) const;

  private:
    bool is_asked() const { return options_.keep_best || options_.early_stop > 0; }
    std::int64_t named_step() const;

    const Options& options_;
    std::int64_t step_ = -1, since_ = 0, last_ = -1, kept_ = -1;
    double loss_ = 0;
};

}  // namespace thunder
