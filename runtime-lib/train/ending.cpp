// SPDX-License-Identifier: Apache-2.0
#include "train/ending.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "support/clock.h"
#include "support/text.h"
#include "train/bad_steps.h"
#include "train/schedule.h"

namespace thunder {

namespace {

volatile std::sig_atomic_t caught = 0;

void on_signal(int signal) {
    caught = signal;
}

// A page of a mapped file is behind its end, or the disk does not give it: there is nothing to go on with. Of what may
// be called here, writing and leaving are enough.
void on_lost_page(int) {
    constexpr std::string_view text =
        "error: a file that is being read was cut short, or cannot be read any more (SIGBUS)\nhelp: put the files of "
        "--data and --init back as they were, and go on with --resume\n";
    static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
    _exit(1);
}

}  // namespace

void catch_lost_pages() {
    struct sigaction action {};
    action.sa_handler = on_lost_page;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGBUS, &action, nullptr);
}

void catch_signals() {
    caught = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

int caught_signal() {
    return caught;
}

void EndRequest::add(const EndRequest& other) {
    signal = std::max(signal, other.signal);
    is_out_of_time = std::max(is_out_of_time, other.is_out_of_time);
}

EndRequest end_request(const Options& options, double began) {
    const bool late = options.max_seconds > 0 && steady_ms() - began >= options.max_seconds * 1e3;
    return {caught_signal(), late ? 1 : 0};
}

std::int64_t last_step(const ProgramSpec& program, Options& options, const BatchCut& cut, const Progress& progress) {
    if (options.max_tokens == 0) return options.steps;
    // Steps before may have been of other batches, on another number of ranks: their rows were counted.
    const std::int64_t a_row = std::max<std::int64_t>(1, program.tokens / program.batch);
    const std::int64_t rows = (options.max_tokens - 1) / a_row + 1;
    const std::int64_t left = std::max<std::int64_t>(0, rows - (progress.data_position - rows_left_out(progress)));
    const std::int64_t last = progress.step + (left == 0 ? 0 : (left - 1) / cut.global_rows() + 1);
    if (options.steps_given) return std::min(last, options.steps);
    options.steps = last;
    if (options.warmup < 0) options.warmup = usual_warmup(last);
    return last;
}

std::string nothing_left(const Options& options, std::int64_t done, std::int64_t last) {
    const bool by_tokens = options.max_tokens > 0 && (last < options.steps || !options.steps_given);
    return cat(done, " steps are done, ",
               by_tokens ? cat("--max-tokens is ", options.max_tokens) : cat("--steps is ", options.steps),
               ": nothing to train");
}

double seconds_of(std::string_view text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !(number >= 0)) return -1;
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    const std::pair<std::string_view, double> units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    for (const auto& [name, seconds] : units)
        if (unit == name) return number * seconds;
    return -1;
}

}  // namespace thunder
