// SPDX-License-Identifier: Apache-2.0
#include "cli/report_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compiler/support/error.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"

namespace thunderc {

std::optional<thunder::Json> line_of_step(std::string_view text) {
    try {
        thunder::Json line = thunder::parse_json(text, "line");
        const thunder::Json* step = line.find("step");
        if (step != nullptr && step->is(thunder::Json::Kind::integer)) return line;
    } catch (const thunder::Error&) {  // as what was begun when a run was ended
    }
    return std::nullopt;
}
namespace {

constexpr std::size_t most_events = 1000;

// What a line says under this key: nothing, a number, or that there was none. An infinite one cannot be drawn.
ReportNumber number_of(const thunder::Json& line, std::string_view key, double weight) {
    ReportNumber out;
    const thunder::Json* value = line.find(key);
    if (value == nullptr) return out;
    const bool number = value->is(thunder::Json::Kind::integer) || value->is(thunder::Json::Kind::real);
    if (!number || !std::isfinite(value->real)) {
        out.none = 1;
        return out;
    }
    return {value->real * weight, weight, value->real, value->real, 0};
}

double real_of(const thunder::Json& line, std::string_view key) {
    const ReportNumber number = number_of(line, key, 1);
    return number.is_there() ? number.mean() : 0;
}

class LogReader {
  public:
    explicit LogReader(ReportLog& log) : log_(&log) {}

    void read(std::string_view text) {
        std::int64_t number = 0;
        while (!text.empty()) {
            const std::size_t end = text.find('\n');
            ++number;
            const std::string_view line = text.substr(0, end);
            if (end == std::string_view::npos) {
                // What has no end yet may be whole all the same, as where an editor left its end away.
                if (!take(line)) {
                    log_->notes.emplace_back("its last line is cut short, and left out");
                    if (!line.starts_with("{")) ++bad_;
                }
                break;
            }
            if (!line.empty() && !take(line)) {
                if (bad_++ == 0) first_bad_ = number;
            }
            text.remove_prefix(end + 1);
        }
        if (first_bad_ > 0)
            log_->notes.push_back(fmt::format("{} {} no line of a log and {} left out, the first is line {}", bad_,
                                              bad_ == 1 ? "line is" : "lines are", bad_ == 1 ? "is" : "are",
                                              first_bad_));
        if (behind_ > 0)
            log_->notes.push_back(fmt::format("{} {} of steps that came before and {} left out: two runs in one file?",
                                              behind_, behind_ == 1 ? "line is" : "lines are",
                                              behind_ == 1 ? "is" : "are"));
        if (events_ > most_events)
            log_->notes.push_back(fmt::format("the first {} of {} events are shown", most_events, events_));
    }

    bool took_any() const { return taken_ > 0; }
    bool saw_any() const { return taken_ > 0 || bad_ > 0; }  // else it is empty, but for what was begun

  private:
    bool take(std::string_view text) {
        const std::optional<thunder::Json> parsed = line_of_step(text);
        if (!parsed) return false;
        const thunder::Json& line = *parsed;
        const thunder::Json* step = line.find("step");
        if (step->integer < 0) return false;
        if (line.find("loss") != nullptr) {
            take_step(line, step->integer);
        } else if (line.find("eval_loss") != nullptr) {
            take_evaluation(line, step->integer);
        } else if (const thunder::Json* event = line.find("event"); event != nullptr) {
            if (++events_ <= most_events) log_->events.push_back({step->integer, event->string});
        } else {
            return false;
        }
        ++taken_;
        return true;
    }

    ReportPoint point_at(std::int64_t step) const { return {step, step, tokens_, seconds_, {}}; }

    void take_step(const thunder::Json& line, std::int64_t step) {
        if (step <= last_step_) {
            ++behind_;
            return;
        }
        last_step_ = step;
        const double ms = std::max(0.0, real_of(line, "step_ms"));
        tokens_ += std::max(0.0, real_of(line, "tokens"));
        seconds_ += ms / 1e3;
        ReportPoint point = point_at(step);
        for (const std::string& name : log_->steps.names()) {
            // Rates count as long as they held: their mean is that of the tokens over the time.
            const bool rate = name == "tokens_per_second" || name == "mfu";
            point.numbers.push_back(number_of(line, name, rate && ms > 0 ? ms : 1));
        }
        if (point.numbers.front().is_there()) log_->last_loss = point.numbers.front().mean();
        log_->steps.add(std::move(point));
    }

    void take_evaluation(const thunder::Json& line, std::int64_t step) {
        seconds_ += std::max(0.0, real_of(line, "eval_ms")) / 1e3;
        ReportPoint point = point_at(step);
        for (const std::string& name : log_->evaluations.names()) point.numbers.push_back(number_of(line, name, 1));
        const ReportNumber& loss = point.numbers.front();
        if (loss.is_there() && (!log_->best_step || loss.mean() < log_->best_loss)) {
            log_->best_step = step;
            log_->best_loss = loss.mean();
        }
        log_->evaluations.add(std::move(point));
    }

    ReportLog* log_;
    double tokens_ = 0, seconds_ = 0;
    std::int64_t last_step_ = -1, taken_ = 0, bad_ = 0, first_bad_ = 0, behind_ = 0;
    std::size_t events_ = 0;
};

}  // namespace

void ReportNumber::add(const ReportNumber& other) {
    none += other.none;
    if (!other.is_there()) return;
    least = is_there() ? std::min(least, other.least) : other.least;
    most = is_there() ? std::max(most, other.most) : other.most;
    sum += other.sum;
    weight += other.weight;
}

namespace {

void join(ReportPoint& point, const ReportPoint& next) {
    point.last = next.last;
    point.tokens = next.tokens;
    point.seconds = next.seconds;
    for (std::size_t k = 0; k < point.numbers.size(); ++k) point.numbers[k].add(next.numbers[k]);
}

}  // namespace

void ReportSeries::add(ReportPoint line) {
    ++lines_;
    if (in_last_ > 0 && in_last_ < lines_of_point_) {
        join(points_.back(), line);
        ++in_last_;
        return;
    }
    if (points_.size() == most) {
        for (std::size_t k = 0; k < most / 2; ++k) {
            if (k > 0) points_[k] = std::move(points_[2 * k]);
            join(points_[k], points_[2 * k + 1]);
        }
        points_.resize(most / 2);
        lines_of_point_ *= 2;
    }
    points_.push_back(std::move(line));
    in_last_ = 1;
}

ReportLog read_report_log(const std::filesystem::path& path) {
    const thunder::MappedFile file(path.string());
    ReportLog log;
    log.path = path.string();
    LogReader reader(log);
    reader.read({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
    if (!reader.took_any() && reader.saw_any())
        fail(fmt::format("{} is not the log of a training run: none of its lines has a step", path.string()),
             "name a file that out/build/train --log FILE wrote");
    if (!reader.took_any()) log.notes.insert(log.notes.begin(), "it has no line yet");
    return log;
}

void name_logs(std::vector<ReportLog>& logs) {
    // As many folders as tell them apart, from the file's own name upwards.
    std::vector<std::vector<std::string>> parts;
    std::size_t longest = 1;
    for (const ReportLog& log : logs) {
        const std::filesystem::path path = std::filesystem::path(log.path).lexically_normal();
        std::vector<std::string> of_path;
        for (const std::filesystem::path& part : path) of_path.push_back(part.string());
        of_path.back() = path.stem().string();
        longest = std::max(longest, of_path.size());
        parts.push_back(std::move(of_path));
    }
    for (std::size_t depth = 1; depth <= longest; ++depth) {
        std::set<std::string> names;
        for (std::size_t k = 0; k < logs.size(); ++k) {
            const std::vector<std::string>& of_path = parts[k];
            std::string name;
            for (std::size_t p = of_path.size() - std::min(depth, of_path.size()); p < of_path.size(); ++p)
                name += (name.empty() || name == "/" ? "" : "/") + of_path[p];
            logs[k].name = name;
            names.insert(std::move(name));
        }
        if (names.size() == logs.size()) return;
    }
    for (std::size_t k = 0; k < logs.size(); ++k) logs[k].name = logs[k].path;
}

}  // namespace thunderc
