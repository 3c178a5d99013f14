// SPDX-License-Identifier: Apache-2.0
#include "watch/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/clock.h"
#include "support/text.h"

namespace thunder {

namespace {

// A terminal that is written to a thousand times a second slows the steps down.
constexpr double least_ms_between = 50;

// Whether lines can be written over there. TERM=dumb is that of editors and logs which cannot.
bool is_terminal() {
    const char* const term = std::getenv("TERM");
    return isatty(STDERR_FILENO) != 0 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

// In columns; where the terminal does not say, as wide as all are.
std::size_t width_of_terminal() {
    winsize window{};
    const bool told = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
    return told ? window.ws_col : 80;
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

std::string joined(const std::vector<LiveField>& fields) {
    std::string text;
    for (const LiveField& field : fields) text += cat(text.empty() ? "" : "  ", field.text);
    return text;
}

}  // namespace

std::string live_text(std::vector<LiveField> fields, std::size_t width) {
    while (fields.size() > 1 && joined(fields).size() > width)
        fields.erase(std::max_element(fields.begin(), fields.end(),
                                      [](const LiveField& a, const LiveField& b) { return a.number < b.number; }));
    return joined(fields).substr(0, width);
}

Console::Console(bool quiet, std::int64_t every, std::string counted)
    : quiet_(quiet), terminal_(is_terminal()), every_(every), counted_(std::move(counted)) {}

Console::~Console() {
    end();
}

void Console::end() {
    if (!shown_.empty()) std::fputs("\n", stderr);
    shown_.clear();
}

void Console::show(const std::string& text) {
    if (text.empty() && shown_.empty()) return;
    std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
    std::fflush(stderr);
    shown_ = text;
}

void Console::live(std::vector<LiveField> fields) {
    // A line that the terminal breaks could not be written over.
    show(live_text(std::move(fields), width_of_terminal() - 1));
}

void Console::line(const std::string& text) {
    if (!quiet_) alarm(text);
}

void Console::alarm(const std::string& text) {
    const std::string live = shown_;
    show("");
    std::fprintf(stderr, "%s\n", text.c_str());
    show(live);
}

void Console::evaluation(const EvaluationReport& report) {
    eval_loss_ = report.loss;
    line(cat("after ", count_text(static_cast<std::uint64_t>(report.step), "step"), "  eval loss ",
             digits("%.4f", report.loss),
             report.perplexity ? cat("  perplexity ", digits("%.4g", *report.perplexity)) : std::string(),
             report.accuracy ? cat("  accuracy ", digits("%.2f", 100 * *report.accuracy), "%") : std::string(), "  (",
             report.batches, report.batches == 1 ? " batch, " : " batches, ", digits("%.1f", report.ms / 1000), " s)"));
}

void Console::step(const StepReport& report, std::int64_t steps) {
    const double now = steady_ms();
    // The first step warms caches up and says little about the others.
    if (steps_++ == 0) first_step_at_ = now;
    const double rate = tokens_per_second(report);
    tokens_per_second_ = steps_ <= 2 ? rate : 0.9 * tokens_per_second_ + 0.1 * rate;
    if (quiet_) return;
    const bool last = report.step + 1 >= steps;
    const bool asked = steps_ == 1 || report.was_skipped || report.step % every_ == 0 || last;
    if (terminal_ ? !last && now - shown_at_ < least_ms_between : !asked) return;
    shown_at_ = now;
    std::vector<LiveField> fields;
    const auto field = [&](int number, std::string text) { fields.push_back({std::move(text), number}); };
    field(0, cat("step ", report.step, "/", steps));
    field(1, cat("loss ", digits("%.4f", report.loss)));
    if (terminal_ && eval_loss_) field(4, cat("eval ", digits("%.4f", *eval_loss_)));
    field(8, cat("grad norm ", digits("%.3g", report.grad_norm)));
    field(5, cat("lr ", digits("%.2e", report.lr)));
    field(9, cat(digits("%.1f", report.ms), " ms"));
    field(3, cat(short_count(terminal_ ? tokens_per_second_ : rate), " ", counted_, "/s"));
    if (report.mfu > 0) field(6, cat(digits("%.1f", 100 * report.mfu), "% MFU"));
    if (terminal_ && report.memory > 0) field(7, bytes_text(report.memory));
    if (report.loss_scale > 0) field(10, cat("loss scale ", digits("%.6g", report.loss_scale)));
    if (report.was_skipped) field(1, "step skipped");
    if (!terminal_) return static_cast<void>(std::fprintf(stderr, "%s\n", joined(fields).c_str()));
    // Evaluations and checkpoints between steps will take their part of what is left, too.
    const double a_step = steps_ > 1 ? (now - first_step_at_) / static_cast<double>(steps_ - 1) : report.ms;
    field(2, cat(duration(static_cast<double>(steps - report.step - 1) * a_step / 1000), " left"));
    live(std::move(fields));
}

LongWait::LongWait(Console& console, std::string what, double total)
    : console_(console), what_(std::move(what)), total_(total), began_(steady_ms()), told_at_(began_) {}

LongWait::~LongWait() {
    if (shown_) console_.show(before_);
}

void LongWait::add(double done) {
    done_ += done;
    if (console_.quiet_) return;
    const double now = steady_ms();
    if (now - told_at_ < (console_.terminal_ ? 2 * least_ms_between : 30e3)) return;
    told_at_ = now;
    const double part = total_ > 0 ? std::min(1.0, done_ / total_) : 0;
    std::vector<LiveField> fields{{what_, 0}};
    if (part > 0) {
        fields.push_back({digits("%.0f%%", 100 * part), 1});
        fields.push_back({cat(duration((now - began_) / 1e3 * (1 - part) / part), " left"), 2});
    }
    if (!console_.terminal_) return console_.line(joined(fields));
    if (!std::exchange(shown_, true)) before_ = console_.shown_;
    console_.live(std::move(fields));
}

}  // namespace thunder
