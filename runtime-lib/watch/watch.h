// SPDX-License-Identifier: Apache-2.0
// Where a run tells what it does: the console, the log (--log), event files (--tensorboard), statistics of tensors
// (--numerics). On ranks that write nothing it takes the same calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/log.h"
#include "train/options.h"
#include "train/program.h"
#include "watch/console.h"
#include "watch/numerics.h"
#include "watch/tensorboard.h"

namespace thunder {

class Watch {
  public:
    // `writes`: whether this rank does.
    Watch(const ProgramSpec& program, const Options& options, bool writes);

    Console& console() { return console_; }
    Numerics& numerics() { return numerics_; }  // with --numerics, else nothing is ever due
    // What is known of one rank's device, in FLOP/s; 0: nothing. --peak-tflops goes before it.
    void set_peak(double flops);

    // Opens the files, where the run begins with this step. Lines and events of it and of later ones, from a run that
    // came further than its last checkpoint, are dropped.
    void open(std::int64_t first_step);

    // A step of a run that ends before step `last`; `micro_steps` of this rank. Sets the report's share of the peak.
    void step(StepReport report, std::int64_t micro_steps, std::int64_t last);
    void evaluation(const EvaluationReport& report);
    // What happened before this step: a line of the log with a text, {"step":100,"event":"..."}, and a line for people.
    void event(std::int64_t step, const std::string& text);

  private:
    const ProgramSpec& program_;
    const Options& options_;
    bool writes_;
    double peak_flops_;
    Console console_;
    Numerics numerics_;
    std::optional<JsonLog> log_;
    std::optional<TensorBoard> board_;
};

}  // namespace thunder
