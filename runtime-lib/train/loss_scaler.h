// SPDX-License-Identifier: Apache-2.0
// --loss-scale: what the host has to do with the scale of the loss. The device decides (optim/loss_scale.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "train/average.h"
#include "train/log.h"
#include "train/options.h"
#include "train/step_numbers.h"

namespace thunder {

class Communicator;

class LossScaler {
  public:
    LossScaler(const ProgramSpec& program, const Options& options) : program_(program), options_(options) {}

    bool is_on() const { return options_.skips_steps(); }

    // `scalars`: what StepNumbers lie in on the device. The run begins, or goes on.
    void begin(std::byte* scalars, const Progress& progress, const WeightAverage& average, Stream& stream);

    // The rule's numbers of the next step; `unknown`: the host does not know yet what became of the one before.
    void set_rule(StepNumbers& numbers, const Progress& progress, bool unknown) const;
    // dloss is set.
    void scale(Stream& stream);
    // Gradients are there. Where a step is skipped whose loss is no number, each rank's device skips it for any rank's
    // loss: on all ranks.
    void agree_on_loss(Communicator& communicator, Stream& stream);
    // The optimizer has made its step, or has not.
    void end_step(const std::byte* parameters, WeightAverage& average, Stream& stream);

    // What the host learns of a step: into the report, and into what a checkpoint says.
    void read(const StepNumbers& numbers, StepReport& report, Progress& progress);
    // A line for people, once.
    std::optional<std::string> warning(const StepReport& report);
    // Why a run ends with a step whose numbers are none; "" where it does not, as where the step was skipped and a
    // smaller scale may help.
    std::string end_of_run(const StepReport& report) const;

  private:
    bool is_dynamic() const { return options_.loss_scaling == Options::LossScaling::dynamic; }

    const ProgramSpec& program_;
    const Options& options_;
    StepScalars* scalars_ = nullptr;  // on the device, and what is behind it
    LossScale* scale_ = nullptr;
    const double* after_skip_ = nullptr;
    double next_scale_ = 0;  // after the step that was read last
    std::int64_t skipped_in_a_row_ = 0;
    bool warned_ = false;
};

// Whether a step was skipped for what a smaller scale mends: a gradient that is not finite, of a loss that is, under a
// dynamic scale. All else that is skipped BadSteps judges.
bool is_overflow(const Options& options, const StepReport& report);

// What to do where a step's numbers are none. A term of the loss may have no weight, and the loss all the same be a
// number: where it bounds its weight from below.
std::string help_of_no_number(std::span<const float> weights);

// Why a step has no loss: none of its samples has a weight in it; empty: some have.
std::string nothing_to_learn(const ProgramSpec& program, const StepScalars& read);

// As the command line has it: "off", "dynamic" or the number.
std::string loss_scale_text(const Options& options);
// Of a dynamic one: the scale of the first step, and the steps in a row after which it doubles.
double loss_scale_start(const Options& options);
std::int64_t loss_scale_interval(const Options& options);

// The lines that a run says of it which goes on from a checkpoint.
void note_loss_scale(const Progress& before, const Options& options, std::vector<std::string>& notes);

}  // namespace thunder
