// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include "comm/communicator.h"
#include "optim/clipping.h"
#include "program/transfer.h"
#include "support/text.h"
#include "train/groups.h"

namespace thunder {

namespace {

// Below this scaling has no purpose: gradients are larger than they are. A run that comes to `least` gets a gradient
// that is not finite at any scale: 30 halvings from 65536.
constexpr double odd = 1, least = 0x1p-14;

std::string not_finite(double number) {
    return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

}  // namespace

bool is_overflow(const Options& options, const StepReport& report) {
    return options.loss_scaling == Options::LossScaling::dynamic && report.was_skipped && std::isfinite(report.loss) &&
           !std::isfinite(report.grad_norm);
}

std::string help_of_no_number(std::span<const float> weights) {
    const auto none = std::find(weights.begin(), weights.end(), 0.0F);
    if (none == weights.end())
        return "a lower --lr, a longer --warmup, or --grad-clip 1 often help; look at the data of this step too";
    return cat("a term of the loss has no weight in this step, as where all its labels are ignored: ",
               "arenas_.loss_weights[", none - weights.begin(),
               "], which forward_backward in model.cpp divides it by, is 0; look at the inputs that loss_weight "
               "there adds it up from");
}

std::string nothing_to_learn(const ProgramSpec& program, const StepScalars& read) {
    if (program.loss != Loss::mean || read.loss_weight > 0) return {};
    return cat("the batch of step ", read.step,
               " has nothing to learn from: the loss has no weight in it, as where all labels are ignored");
}

std::string loss_scale_text(const Options& o) {
    switch (o.loss_scaling) {
        case Options::LossScaling::off: return "off";
        case Options::LossScaling::fixed: return cat(o.loss_scale);
        case Options::LossScaling::dynamic: return "dynamic";
    }
    return "";
}

// Those of torch.amp.GradScaler, where the command line has none.
double loss_scale_start(const Options& options) {
    return options.loss_scale_start > 0 ? options.loss_scale_start : 65536;
}
std::int64_t loss_scale_interval(const Options& options) {
    return options.loss_scale_interval > 0 ? options.loss_scale_interval : 2000;
}

void LossScaler::begin(std::byte* scalars, const Progress& progress, const WeightAverage& average, Stream& stream) {
    if (!is_on()) return;
    StepNumbers numbers(program_, options_);
    const bool goes_on = is_dynamic() && progress.loss_scale > 0;
    const double first = is_dynamic()                                           ? loss_scale_start(options_)
                         : options_.loss_scaling == Options::LossScaling::fixed ? options_.loss_scale
                                                                                : 1;
    numbers.scale.scale = static_cast<float>(goes_on ? progress.loss_scale : first);
    numbers.scale.good = goes_on ? progress.loss_scale_good : 0;
    numbers.scale.skipped = progress.skipped;
    numbers.scale.averages = average.has_begun() ? 1 : 0;
    skipped_in_a_row_ = 0;
    scalars_ = reinterpret_cast<StepScalars*>(scalars);
    scale_ = reinterpret_cast<LossScale*>(scalars + numbers.scale_at());
    after_skip_ = reinterpret_cast<const double*>(scalars + numbers.after_skip_at());
    to_device(scalars + numbers.scale_at(), &numbers.scale, sizeof numbers.scale, stream);
}

void LossScaler::set_rule(StepNumbers& numbers, const Progress& progress, bool unknown) const {
    const RuleInfo& rule = rule_of(program_);
    numbers.set_rule(numbers_of_groups(rule, options_, progress.step, progress.skipped));
    if (is_on())
        numbers.set_rule_after_skip(
            numbers_of_groups(rule, options_, progress.step, progress.skipped + (unknown ? 1 : 0)));
}

void LossScaler::scale(Stream& stream) {
    if (!is_on()) return;
    scale_loss({.scalars = scalars_,
                .scale = scale_,
                .numbers_after_skip = after_skip_,
                .groups = static_cast<std::int64_t>(options_.groups.size())},
               stream);
}

void LossScaler::agree_on_loss(Communicator& communicator, Stream& stream) {
    if (options_.on_nan == Options::OnNan::stop || communicator.world() == 1) return;
    auto* const on_device = reinterpret_cast<std::byte*>(&scalars_->loss_sum);
    float mine = 0;
    from_device(&mine, on_device, sizeof mine, stream);
    float all = mine;
    communicator.all_reduce_sum({&all, 1}, "the step's loss");
    if (std::isfinite(mine) && !std::isfinite(all)) to_device(on_device, &all, sizeof all, stream);
}

void LossScaler::end_step(const std::byte* parameters, WeightAverage& average, Stream& stream) {
    if (!is_on()) return average.update(parameters, stream);
    next_loss_scale({.scalars = scalars_,
                     .scale = scale_,
                     .interval = is_dynamic() ? loss_scale_interval(options_) : 0,
                     .average_part = static_cast<float>(1 - average.decay())},
                    stream);
    average.update(parameters, &scale_->average_part, stream);
}

void LossScaler::read(const StepNumbers& numbers, StepReport& report, Progress& progress) {
    if (!is_on()) {
        progress.ema_begun = true;  // by this step at the latest: none is skipped
        return;
    }
    report.loss /= static_cast<double>(numbers.scalars.loss_scale);
    if (options_.loss_scaling != Options::LossScaling::off)
        report.loss_scale = static_cast<double>(numbers.scalars.loss_scale);
    report.may_skip = true;
    report.was_skipped = is_skipped(numbers.scalars.clip_factor);
    report.skipped = numbers.scale.skipped;
    next_scale_ = static_cast<double>(numbers.scale.scale);
    skipped_in_a_row_ = report.was_skipped ? skipped_in_a_row_ + 1 : 0;
    progress.skipped = numbers.scale.skipped;
    progress.ema_begun = numbers.scale.averages != 0;
    if (!is_dynamic()) return;
    progress.loss_scale = next_scale_;
    progress.loss_scale_good = numbers.scale.good;
}

std::optional<std::string> LossScaler::warning(const StepReport& report) {
    if (!is_dynamic() || warned_ || !report.was_skipped || next_scale_ >= odd) return std::nullopt;
    warned_ = true;
    return cat("warning: the scale of the loss falls below 1 after step ", report.step, ", where ", report.skipped,
               report.skipped == 1 ? " step was" : " steps were",
               " skipped: the gradient overflows without scaling as well; a lower --lr, a longer --warmup, or a look "
               "at the data may help");
}

std::string LossScaler::end_of_run(const StepReport& report) const {
    if (report.was_skipped && options_.on_nan != Options::OnNan::stop && !is_overflow(options_, report))
        return "";  // BadSteps judges it
    if (is_dynamic() && report.was_skipped) {
        if (next_scale_ >= least) return "";
        return cat("the gradient is not finite at step ", report.step,
                   ", whatever the loss is scaled by: the scale is ", digits("%.3g", report.loss_scale), " after ",
                   count_text(static_cast<std::uint64_t>(skipped_in_a_row_), "step"), " in a row that ",
                   skipped_in_a_row_ == 1 ? "was" : "were", " skipped");
    }
    if (!std::isfinite(report.loss)) return cat("the loss is ", not_finite(report.loss), " at step ", report.step);
    if (!std::isfinite(report.grad_norm))
        return cat("the gradient's norm is ", not_finite(report.grad_norm), " at step ", report.step,
                   ", where the loss is ", digits("%.6g", report.loss));
    return "";
}

void note_loss_scale(const Progress& before, const Options& options, std::vector<std::string>& notes) {
    const bool dynamic = options.loss_scaling == Options::LossScaling::dynamic;
    if (dynamic && before.loss_scale == 0) {
        notes.push_back(cat("note: the checkpoint has no scale of the loss: that of --loss-scale dynamic begins with ",
                            digits("%.9g", loss_scale_start(options))));
    } else if (!dynamic && before.loss_scale > 0) {
        notes.push_back(cat("note: the checkpoint's steps scaled the loss, the next one's by ",
                            digits("%.9g", before.loss_scale), ": without --loss-scale dynamic that ends here"));
    }
}

}  // namespace thunder
