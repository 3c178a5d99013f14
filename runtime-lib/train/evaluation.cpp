// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "data/fingerprint.h"
#include "data/mixture.h"
#include "support/error.h"
#include "support/text.h"
#include "train/states.h"

namespace thunder {

Options options_of_evaluation(Options options) {
    options.data = options.eval_data;
    options.feed = options.eval_feed;
    options.data_schedule.clear();
    options.flip = false;
    options.steps = 0;
    options.seed = 0;  // the same batches, whatever the run's
    return options;
}

std::string evaluated_batches(const Options& options) {
    const std::string data = options.eval_data.empty() ? "" : sample_of_data(options_of_evaluation(options));
    return cat(data, sample_of_all(options.eval_feed), ", ", options.eval_batches, " batches",
               options.eval_ema ? ", of the average" : "");
}

std::int64_t eval_every(const Options& options) {
    return options.eval_every > 0 ? options.eval_every : 100;
}

void swap_average(const ProgramSpec& program, const Options& options, const WeightAverage& average,
                  const TrainingArenas& arenas, Stream& stream) {
    if (!options.eval_ema) return;
    average.swap(arenas.parameters, stream);
    make_narrow_copies(program, arenas, stream);
}

bool evaluates(const Options& options) {
    return !options.eval_data.empty() || !options.eval_feed.empty();
}

Evaluation::Evaluation(const ProgramSpec& program, const Options& options, const BatchCut& cut)
    : program_(program),
      options_(options),
      cut_(cut),
      source_(make_batch_source(program, options_of_evaluation(options), cut)) {
    const std::int64_t held = source_->steps();
    if (held == 0)
        fail(cat(options.eval_data, " has no ", cut.global_rows(), " rows, which a batch of the evaluation takes"),
             "give it more");
    // All batches of a feed, which was made for this; of tokens a part is enough.
    constexpr std::int64_t usual = 10;
    const std::int64_t asked = options.eval_batches > 0    ? options.eval_batches
                               : options.eval_feed.empty() ? usual
                                                           : held;
    batches_ = std::min(asked, held);
}

bool Evaluation::is_due(std::int64_t step, std::int64_t last) const {
    if (step == 0) return false;
    return step >= last || step % eval_every(options_) == 0;
}

BatchLoader::Request Evaluation::request(std::int64_t micro_batch) const {
    const std::int64_t step = micro_batch / cut_.micro_steps;
    return {source_.get(), step, step * cut_.global_rows(), micro_batch % cut_.micro_steps};
}

StepNumbers Evaluation::numbers() const {
    StepNumbers numbers(program_, options_);
    numbers.scalars.dloss = 1;
    return numbers;
}

bool Evaluation::has_no_weight(const StepNumbers& read) const {
    return program_.loss == Loss::mean && !(read.scalars.loss_weight > 0);
}

Evaluation::Sums Evaluation::sums(const StepNumbers& read) {
    return {read.scalars.loss_sum, read.scalars.label_count, read.scalars.label_hits};
}

EvaluationReport Evaluation::report(const StepNumbers& read, const Sums& of_all) const {
    EvaluationReport report;
    report.batches = batches_;
    report.loss = of_all[0];
    switch (program_.loss) {
        case Loss::average: report.loss /= static_cast<double>(micro_batches() * cut_.world); break;
        case Loss::mean: report.loss /= static_cast<double>(read.scalars.loss_weight); break;
        case Loss::terms: break;  // each was divided on the way
    }
    if (program_.token_entropy) report.perplexity = std::exp(report.loss);
    if (program_.counts_hits && of_all[1] > 0) report.accuracy = static_cast<double>(of_all[2]) / of_all[1];
    return report;
}

std::vector<std::string> Evaluation::lines() const {
    std::vector<std::string> lines = source_->notes();
    lines.push_back(cat("evaluates ", batches_, batches_ == 1 ? " batch" : " batches", " of ",
                        count_text(static_cast<std::uint64_t>(cut_.global_rows()), "row"), ": ", source_->describe()));
    return lines;
}

}  // namespace thunder
