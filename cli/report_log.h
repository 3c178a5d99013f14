// SPDX-License-Identifier: Apache-2.0
// The log of a training run (train --log) as a report shows it: as many points as a picture has room for, however long
// the run was. The same lines give the same points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/json.h"

namespace thunderc {

// A number of a line, or of the lines that a point stands for.
struct ReportNumber {
    double sum = 0, weight = 0;  // of those that are numbers: the mean is their quotient
    double least = 0, most = 0;
    std::int64_t none = 0;  // lines that have null there: what was computed was no number

    bool is_there() const { return weight > 0; }
    double mean() const { return sum / weight; }
    void add(const ReportNumber& other);
};

// So many lines in a row.
struct ReportPoint {
    std::int64_t first = 0, last = 0;  // their steps
    double tokens = 0, seconds = 0;    // since the log began, behind the last of them
    std::vector<ReportNumber> numbers;
};

// Lines of one kind, at most `most` points of them: when there are more, each two neighbours become one, and a point
// stands for twice as many lines from there on.
class ReportSeries {
  public:
    static constexpr std::size_t most = 2048;

    explicit ReportSeries(std::vector<std::string> names) : names_(std::move(names)) {}

    void add(ReportPoint line);

    const std::vector<std::string>& names() const { return names_; }
    const std::vector<ReportPoint>& points() const { return points_; }
    std::int64_t lines() const { return lines_; }

  private:
    std::vector<std::string> names_;
    std::vector<ReportPoint> points_;
    std::int64_t lines_ = 0;
    std::int64_t lines_of_point_ = 1, in_last_ = 0;
};

struct ReportEvent {
    std::int64_t step = 0;
    std::string text;
};

struct ReportLog {
    std::string path, name;  // the name tells it from the report's other runs
    ReportSeries steps{{"loss", "lr", "grad_norm", "tokens_per_second", "mfu", "loss_scale"}};
    ReportSeries evaluations{{"eval_loss", "eval_perplexity", "eval_accuracy"}};
    std::vector<ReportEvent> events;  // the first so many
    double last_loss = 0;             // of the last step whose loss is a number
    std::optional<std::int64_t> best_step;
    double best_loss = 0;            // of all evaluations, the first of the lowest
    std::vector<std::string> notes;  // what in the file was not as it should be
};

// Lines that are none, as a run that was killed may leave, are left out, with a note. Throws UserError where the file
// is there and no line of it is of a log.
ReportLog read_report_log(const std::filesystem::path& path);

// Names that tell them apart: what is left of their paths when what all have in common is gone.
void name_logs(std::vector<ReportLog>& logs);

// A line of a run's files as JSON; nullopt where it is none, or says no step.
std::optional<thunder::Json> line_of_step(std::string_view text);

}  // namespace thunderc
