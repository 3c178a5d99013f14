// SPDX-License-Identifier: Apache-2.0
#include "watch/watch.h"

#include <limits>
#include <utility>
#include <vector>

#include "support/json.h"
#include "support/text.h"

namespace thunder {

Watch::Watch(const ProgramSpec& program, const Options& options, bool writes)
    : program_(program),
      options_(options),
      writes_(writes),
      peak_flops_(options.peak_tflops * 1e12),
      console_(options.quiet || !writes, options.log_every, program.tokens == program.batch ? "rows" : "tokens"),
      numerics_(program, options, writes) {}

void Watch::set_peak(double flops) {
    if (peak_flops_ == 0) peak_flops_ = flops;
}

void Watch::open(std::int64_t first_step) {
    if (!writes_) return;
    // What an evaluation alone finds is added to what is there.
    if (!options_.log.empty())
        log_.emplace(options_.log, options_.eval_only ? std::numeric_limits<std::int64_t>::max() : first_step);
    if (!options_.eval_only) numerics_.open(first_step);
    if (!options_.tensorboard.empty())
        board_.emplace(options_.tensorboard, options_.eval_only ? std::nullopt : std::optional(first_step));
}

void Watch::step(StepReport report, std::int64_t micro_steps, std::int64_t last) {
    if (peak_flops_ > 0 && report.ms > 0)
        report.mfu = program_.flops_per_micro_step * static_cast<double>(micro_steps) / (report.ms / 1e3) / peak_flops_;
    if (log_) log_->write(json_line(report));
    if (board_) {
        std::vector<std::pair<std::string_view, double>> scalars = {
            {"train/loss", report.loss},
            {"train/learning_rate", report.lr},
            {"train/grad_norm", report.grad_norm},
            {"train/tokens_per_second", tokens_per_second(report)}};
        if (report.mfu > 0) scalars.emplace_back("train/mfu", report.mfu);
        if (report.loss_scale > 0) scalars.emplace_back("train/loss_scale", report.loss_scale);
        board_->write(report.step, scalars);
    }
    console_.step(report, last);
}

void Watch::evaluation(const EvaluationReport& report) {
    if (log_) log_->write(json_line(report));
    std::vector<std::pair<std::string_view, double>> scalars = {{"eval/loss", report.loss}};
    if (report.perplexity) scalars.emplace_back("eval/perplexity", *report.perplexity);
    if (report.accuracy) scalars.emplace_back("eval/accuracy", *report.accuracy);
    if (board_) board_->write(report.step, scalars);
    console_.evaluation(report);
}

void Watch::event(std::int64_t step, const std::string& text) {
    if (log_) log_->write(cat("{\"step\":", step, ",\"event\":", json_quote(text), "}"));
    console_.line(text);
}

}  // namespace thunder
