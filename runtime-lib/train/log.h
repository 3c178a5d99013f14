// SPDX-License-Identifier: Apache-2.0
// What a training run tells: a live line, and one line of JSON a step.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace thunder {

struct StepReport {
    std::int64_t step = 0;
    double loss = 0, grad_norm = 0, lr = 0;
    std::int64_t tokens = 0;  // of this step, all ranks
    double ms = 0;
    // Where the loss was scaled: by what, whether the step was skipped, and how many were, it included; 0: it was not.
    double loss_scale = 0;
    bool was_skipped = false;
    std::int64_t skipped = 0;
};

struct EvaluationReport {
    std::int64_t step = 0;  // how many were trained before it
    double loss = 0;
    std::int64_t batches = 0;
    double ms = 0;
};

// {"step":100,"eval_loss":3.21,"eval_batches":10,"eval_ms":812.5}
std::string json_line(const EvaluationReport& report);

// {"step":0,"loss":5.5451,"grad_norm":1.23,"lr":0.001,"tokens":8192,"step_ms":12.3,"tokens_per_second":665000}
std::string json_line(const StepReport& report);

// The log file: one such line a step, and one for each evaluation.
class JsonLog {
  public:
    // `first_step` is where the run goes on: lines of it and of later steps, from a run that came further than its last
    // checkpoint, are dropped. 0 begins anew.
    JsonLog(std::string path, std::int64_t first_step);
    JsonLog(const JsonLog&) = delete;
    JsonLog& operator=(const JsonLog&) = delete;
    ~JsonLog();

    void write(const std::string& line);

  private:
    std::string path_;
    std::optional<std::size_t> bytes_;  // of whole lines, where it is a file
    std::FILE* file_ = nullptr;
};

// Standard error: a line that is written over on a terminal; elsewhere a line for the first step, the last one, each
// whose number `every` divides, and each that was skipped.
class Console {
  public:
    Console(bool quiet, std::int64_t every);
    ~Console();
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    void line(const std::string& text);
    void alarm(const std::string& text);  // with --quiet as well
    void step(const StepReport& report, std::int64_t steps);
    void evaluation(const EvaluationReport& report);

  private:
    bool quiet_, terminal_, live_ = false;
    std::int64_t every_;
    double seconds_ = 0;  // of all steps so far but the first, for the time that is left
    std::int64_t steps_ = -1;
    double shown_ = 0;  // when a line was last written, in milliseconds
};

}  // namespace thunder
