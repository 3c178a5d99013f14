// SPDX-License-Identifier: Apache-2.0
// The loss of batches that are not trained on: the same ones each time, by the forward pass alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batch_source.h"
#include "train/arenas.h"
#include "train/average.h"
#include "train/batch_loader.h"
#include "train/log.h"
#include "train/options.h"
#include "train/step_numbers.h"

namespace thunder {

class Evaluation {
  public:
    // Opens --eval-data or --eval-feed. Its batches are cut as those of a step are.
    Evaluation(const ProgramSpec& program, const Options& options, const BatchCut& cut);

    // After this many steps, of a run that ends before step `last`.
    bool is_due(std::int64_t step, std::int64_t last) const;

    // Of this rank, in all batches.
    std::int64_t micro_batches() const { return batches_ * cut_.micro_steps; }
    // How often one of them is loaded: twice where their weights are added up first.
    std::int64_t loads() const { return micro_batches() * (program_.loss == Loss::average ? 1 : 2); }
    BatchLoader::Request request(std::int64_t micro_batch) const;

    // What the scalars on the device are before it.
    StepNumbers numbers() const;
    // Whether there is nothing that its loss could be a mean of.
    bool has_no_weight(const StepNumbers& read) const;
    // What this rank added up, and what is reported where these are the sums of all ranks.
    using Sums = std::array<float, 3>;  // of losses, labels, and labels with the largest score
    static Sums sums(const StepNumbers& read);
    EvaluationReport report(const StepNumbers& read, const Sums& of_all) const;

    // For the log: what is not as one might think of its data (BatchSource::notes), and what is evaluated.
    std::vector<std::string> lines() const;

  private:
    const ProgramSpec& program_;
    const Options& options_;
    BatchCut cut_;
    std::unique_ptr<BatchSource> source_;
    std::int64_t batches_ = 0;
};

// Those of a run over the batches that are evaluated.
Options options_of_evaluation(Options options);

// Which batches those are, as far as some pages of the files tell; of no run that evaluates nothing.
std::string evaluated_batches(const Options& options);

// With --eval-ema: the average of the weights takes their place, and they its; and the other way round.
void swap_average(const ProgramSpec& program, const Options& options, const WeightAverage& average,
                  const TrainingArenas& arenas, Stream& stream);

// Whether one is asked for; steps between two.
bool evaluates(const Options& options);
std::int64_t eval_every(const Options& options);

}  // namespace thunder
