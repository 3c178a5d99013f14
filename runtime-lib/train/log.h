// SPDX-License-Identifier: Apache-2.0
// What a training run tells of a step, and the log: a line of JSON for each.
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
    double loss_scale = 0;  // what the loss was multiplied by; 0: it was not
    // Where steps may be skipped: whether this one was, and how many were, it included.
    bool may_skip = false, was_skipped = false;
    std::int64_t skipped = 0;
    double mfu = 0;            // the part that products take of what the device can do at most; 0: not known
    std::uint64_t memory = 0;  // bytes that this process takes: of a GPU, or else of the host; 0: not known
};

// Nine digits, which tell any two floats apart; null: JSON has no number for what is none.
std::string json_number(double x);

double tokens_per_second(const StepReport& report);

struct EvaluationReport {
    std::int64_t step = 0;  // how many were trained before it
    double loss = 0;
    std::optional<double> perplexity;  // exp(loss), of a cross entropy of tokens
    std::optional<double> accuracy;    // the part of labels that got the largest score, of scores of classes
    std::int64_t batches = 0;
    double ms = 0;
};

// {"step":100,"eval_loss":3.21,"eval_perplexity":24.8,"eval_batches":10,"eval_ms":812.5}
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

}  // namespace thunder
