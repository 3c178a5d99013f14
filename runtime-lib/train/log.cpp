// SPDX-License-Identifier: Apache-2.0
#include "train/log.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/clock.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

double tokens_per_second(const StepReport& report) {
    return report.ms > 0 ? static_cast<double>(report.tokens) * 1000 / report.ms : 0;
}

// "665k"
std::string short_count(double number) {
    if (number < 1e4) return digits("%.0f", number);
    if (number < 1e7) return digits("%.0fk", number / 1e3);
    return digits("%.1fM", number / 1e6);
}

std::string duration(double seconds) {
    const auto whole = std::llround(seconds);
    char buffer[64];
    if (whole < 3600) {
        std::snprintf(buffer, sizeof buffer, "%lld:%02lld", whole / 60, whole % 60);
    } else {
        std::snprintf(buffer, sizeof buffer, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    }
    return buffer;
}

// How many bytes of the log come before a step: whole lines, up to the first one of that step or a later one.
std::size_t bytes_before(const std::string& path, std::int64_t step) {
    if (step == 0 || !is_file(path)) return 0;
    const MappedFile file(path);
    const std::string_view text{reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
    std::size_t kept = 0;
    for (std::size_t end; (end = text.find('\n', kept)) != std::string_view::npos; kept = end + 1) {
        long long number = -1;
        if (std::sscanf(std::string(text.substr(kept, end - kept)).c_str(), "{\"step\":%lld", &number) == 1 &&
            number >= step)
            break;
    }
    return kept;  // what is behind the last line end was cut short when the run before was killed
}

// JSON has no number for what is none.
std::string json_number(double x) {
    return std::isfinite(x) ? digits("%.9g", x) : "null";
}

}  // namespace

std::string json_line(const StepReport& report) {
    // Nine digits tell any two floats apart.
    return cat("{\"step\":", report.step, ",\"loss\":", json_number(report.loss),
               ",\"grad_norm\":", json_number(report.grad_norm), ",\"lr\":", digits("%.9g", report.lr),
               ",\"tokens\":", report.tokens, ",\"step_ms\":", digits("%.3f", report.ms),
               ",\"tokens_per_second\":", digits("%.1f", tokens_per_second(report)),
               report.loss_scale > 0
                   ? cat(",\"loss_scale\":", digits("%.9g", report.loss_scale), ",\"skipped\":", report.skipped)
                   : "",
               "}");
}

std::string json_line(const EvaluationReport& report) {
    return cat("{\"step\":", report.step, ",\"eval_loss\":", json_number(report.loss),
               ",\"eval_batches\":", report.batches, ",\"eval_ms\":", digits("%.3f", report.ms), "}");
}

JsonLog::JsonLog(std::string path, std::int64_t first_step) : path_(std::move(path)) {
    const std::size_t kept = bytes_before(path_, first_step);
    file_ = std::fopen(path_.c_str(), "a");
    if (file_ == nullptr) fail_writing(path_, errno);
    // Cut, never written again: the lines that stay are on the disk at every moment. A pipe or a terminal has no end to
    // cut.
    struct stat status {};
    const bool cut = fstat(fileno(file_), &status) == 0 && S_ISREG(status.st_mode);
    if (cut && ftruncate(fileno(file_), static_cast<off_t>(kept)) != 0) {
        const int error = errno;
        std::fclose(std::exchange(file_, nullptr));
        fail_writing(path_, error);
    }
    if (cut) bytes_ = kept;
}

JsonLog::~JsonLog() {
    if (file_ != nullptr) std::fclose(file_);
}

void JsonLog::write(const std::string& line) {
    if (std::fprintf(file_, "%s\n", line.c_str()) >= 0 && std::fflush(file_) == 0) {
        if (bytes_) *bytes_ += line.size() + 1;
        return;
    }
    const int error = errno;
    std::fclose(std::exchange(file_, nullptr));  // which tries to write the rest
    if (bytes_) static_cast<void>(truncate(path_.c_str(), static_cast<off_t>(*bytes_)) == 0);  // no half line stays
    fail_writing(path_, error);
}

Console::Console(bool quiet, std::int64_t every)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0), every_(every) {}

Console::~Console() {
    if (live_) std::fputs("\n", stderr);
}

void Console::line(const std::string& text) {
    if (!quiet_) alarm(text);
}

void Console::alarm(const std::string& text) {
    std::fprintf(stderr, "%s%s\n", live_ ? "\n" : "", text.c_str());
    live_ = false;
}

void Console::evaluation(const EvaluationReport& report) {
    line(cat("after ", count_text(static_cast<std::uint64_t>(report.step), "step"), "  eval loss ",
             digits("%.4f", report.loss), "  (", report.batches, report.batches == 1 ? " batch, " : " batches, ",
             digits("%.1f", report.ms / 1000), " s)"));
}

void Console::step(const StepReport& report, std::int64_t steps) {
    // The first step warms caches up and says little about the others.
    if (++steps_ > 0) seconds_ += report.ms / 1000;
    const double a_step = steps_ > 0 ? seconds_ / static_cast<double>(steps_) : report.ms / 1000;
    if (quiet_) return;
    const bool asked = steps_ == 0 || report.was_skipped || report.step % every_ == 0 || report.step + 1 >= steps;
    if (!terminal_ && !asked) return;
    // A terminal that is written to a thousand times a second slows the steps down.
    const double now = steady_ms();
    if (terminal_ && report.step + 1 < steps && now - shown_ < 50) return;
    shown_ = now;
    std::string text = cat("step ", report.step, "/", steps, "  loss ", digits("%.4f", report.loss), "  grad norm ",
                           digits("%.3g", report.grad_norm), "  lr ", digits("%.2e", report.lr), "  ",
                           digits("%.1f", report.ms), " ms  ", short_count(tokens_per_second(report)), " tokens/s");
    if (report.loss_scale > 0)
        text += cat("  loss scale ", digits("%.6g", report.loss_scale), report.was_skipped ? ", step skipped" : "");
    if (terminal_) {
        text += cat("  ", duration(static_cast<double>(steps - report.step - 1) * a_step), " left");
        // A line that the terminal breaks could not be written over.
        winsize window{};
        if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
            text = text.substr(0, window.ws_col - 1);
        std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
        std::fflush(stderr);
        live_ = true;
    } else {
        std::fprintf(stderr, "%s\n", text.c_str());
    }
}

}  // namespace thunder
