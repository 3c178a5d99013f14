// SPDX-License-Identifier: Apache-2.0
#include "train/bad_steps.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

#include "support/text.h"
#include "train/flags.h"
#include "train/loss_scaler.h"

namespace thunder {

namespace {

constexpr std::size_t least_norms = 10;  // from so many on there is a median that says something
constexpr const char *kept_name = "bad_steps", *left_out_name = "rows_left_out";

using Norms = std::deque<std::pair<std::int64_t, float>>;

// The numbers of "3 1 98:1.25,99:1.5"; what is damaged is left out, since the file's checksum holds.
std::pair<std::int64_t, std::int64_t> read_kept(std::string_view text, Norms& norms) {
    const auto take = [&]<typename T>(T& number, char end) {
        const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        text.remove_prefix(static_cast<std::size_t>(at - text.data()));
        if (error != std::errc()) return false;
        if (!text.empty() && text.front() == end) text.remove_prefix(1);
        return true;
    };
    std::pair<std::int64_t, std::int64_t> counts;
    take(counts.first, ' ');
    take(counts.second, ' ');
    for (std::pair<std::int64_t, float> norm; !text.empty();) {
        if (!take(norm.first, ':') || !take(norm.second, ',')) break;
        norms.push_back(norm);
    }
    return counts;
}

}  // namespace

std::int64_t rows_left_out(const Progress& progress) {
    std::int64_t rows = 0;
    if (const auto kept = progress.kept.find(left_out_name); kept != progress.kept.end())
        std::from_chars(kept->second.data(), kept->second.data() + kept->second.size(), rows);
    return rows;
}

std::string_view name_of(Options::OnNan how) {
    constexpr std::string_view names[] = {"stop", "skip", "rollback"};
    return names[static_cast<std::size_t>(how)];
}

std::int64_t spike_window(const Options& options) {
    return options.spike_window > 0 ? options.spike_window : 100;
}
std::int64_t nan_limit(const Options& options) {
    return options.nan_limit > 0 ? options.nan_limit : 10;
}

void BadSteps::begin(const Progress& progress) {
    norms_.clear();
    in_a_row_ = ways_back_ = 0;
    const auto kept = progress.kept.find(kept_name);
    if (kept != progress.kept.end()) std::tie(in_a_row_, ways_back_) = read_kept(kept->second, norms_);
}

double BadSteps::most_norm(std::int64_t step) const {
    if (options_.on_nan == Options::OnNan::stop) return 0;
    constexpr double any = std::numeric_limits<double>::infinity();
    if (options_.spike_factor == 0) return any;
    std::vector<float> known;
    for (auto norm = norms_.rbegin(); norm != norms_.rend(); ++norm)
        if (norm->first + 1 < step && known.size() < static_cast<std::size_t>(spike_window(options_)))
            known.push_back(norm->second);
    if (known.size() < std::min(least_norms, static_cast<std::size_t>(spike_window(options_)))) return any;
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    return options_.spike_factor * static_cast<double>(*middle);
}

void BadSteps::keep(Progress& progress) const {
    std::string text = cat(in_a_row_, " ", ways_back_, " ");
    for (const auto& [step, norm] : norms_) text += cat(step, ":", norm, ",");
    progress.kept[kept_name] = std::move(text);
}

bool BadSteps::add(const StepReport& report, Progress& progress) {
    if (options_.on_nan == Options::OnNan::stop || is_overflow(options_, report)) return false;
    in_a_row_ = report.was_skipped ? in_a_row_ + 1 : 0;
    if (!report.was_skipped && options_.spike_factor > 0) {
        norms_.emplace_back(report.step, static_cast<float>(report.grad_norm));
        if (norms_.size() > static_cast<std::size_t>(spike_window(options_)) + 1) norms_.pop_front();
    }
    keep(progress);
    return report.was_skipped;
}

void BadSteps::count_way_back(Progress& progress, std::int64_t rows) {
    const std::int64_t ways_back = ways_back_ + 1;
    progress.kept[left_out_name] = cat(rows_left_out(progress) + rows);
    begin(progress);
    ways_back_ = ways_back;
    in_a_row_ = 0;
    keep(progress);
}

std::string BadSteps::why(const StepReport& report) const {
    if (!std::isfinite(report.grad_norm)) return "its gradient is not finite";
    if (!std::isfinite(report.loss)) return "its loss is not finite, and its gradient is";
    return cat("the norm of its gradient, ", digits("%.3g", report.grad_norm), ", is more than ",
               digits("%.6g", options_.spike_factor), " times the median of those before");
}

std::string BadSteps::end_of_run(const StepReport& report) const {
    const std::int64_t limit = nan_limit(options_);
    if (goes_back() ? ways_back_ < limit : in_a_row_ <= limit) return "";
    return cat("step ", report.step, " is skipped (", why(report), "), ",
               goes_back() ? cat("and the run went back to a checkpoint ", limit, limit == 1 ? " time" : " times")
                           : cat("as were the ", limit, " before it"),
               " already");
}

void add_bad_step_flags(std::vector<Flag>& flags) {
    const auto add = [&](std::string name, std::string argument, std::string help, auto set) {
        flags.push_back({{std::move(name), std::move(argument), std::move(help), "Training"}, set});
    };
    const auto count = [](std::int64_t Options::*field) {
        return [field](Options& o, const std::string& value, const Place& place) {
            o.*field = integer(value, place, 1, "a whole number of 1 or more");
        };
    };
    add("on-nan", "HOW",
        "what is done with a step whose loss or gradient is not finite: stop the run; skip it: parameters and states "
        "stay as "
        "they are, and the next one has the next data; rollback: go back to the last checkpoint, and on with the data "
        "behind that step",
        [](Options& o, const std::string& value, const Place& place) {
            std::vector<std::pair<std::string, Options::OnNan>> choices;
            for (const auto one : {Options::OnNan::stop, Options::OnNan::skip, Options::OnNan::rollback})
                choices.emplace_back(name_of(one), one);
            o.on_nan = choice<Options::OnNan>(value, place, choices);
        });
    add("spike-factor", "X",
        "with --on-nan skip or rollback: do the same with a step the norm of whose gradient is more than X times the "
        "median of those of the last --spike-window steps",
        [](Options& o, const std::string& value, const Place& place) {
            o.spike_factor = real(value, place, 1, "a number above 1", true);
        });
    add("spike-window", "N", "of how many steps the median is taken", count(&Options::spike_window));
    add("nan-limit", "N", "how many steps in a row are skipped, or how often the run goes back, before it ends",
        count(&Options::nan_limit));
}

}  // namespace thunder
