// SPDX-License-Identifier: Apache-2.0
#include "packing/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "support/text.h"

namespace thunderc {

using thunder::cat;

std::string progress_text(std::uint64_t done, std::uint64_t all, std::uint64_t since_begin, double seconds, bool bar) {
    const double rate = seconds > 0 ? static_cast<double>(since_begin) / seconds : 0;
    const bool has_rate = rate > 0 && seconds >= 1;
    const std::string rate_text = cat(", ", thunder::bytes_text(static_cast<std::uint64_t>(rate)), "/s");
    if (all == 0) return cat(thunder::bytes_text(done), has_rate ? rate_text : "");
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
    std::string text = thunder::digits("%3.0f%%", 100 * share);
    if (bar) {
        constexpr int width = 20;
        text += ' ';
        for (int i = 0; i < width; ++i) text += i < static_cast<int>(share * width) ? "█" : "░";
    }
    text += cat(" ", thunder::bytes_text(done), " of ", thunder::bytes_text(all));
    if (has_rate) {
        const auto left = static_cast<std::uint64_t>(static_cast<double>(all - std::min(all, done)) / rate);
        text += cat(rate_text, ", ", left / 3600 > 0 ? cat(left / 3600, ":") : "",
                    left / 3600 > 0 && left / 60 % 60 < 10 ? "0" : "", left / 60 % 60, ":", left % 60 < 10 ? "0" : "",
                    left % 60, " left");
    }
    return text;
}

ProgressLine::Mode ProgressLine::mode_of_stderr(bool quiet) {
    return quiet ? Mode::none : isatty(STDERR_FILENO) != 0 ? Mode::terminal : Mode::lines;
}

ProgressLine::ProgressLine(std::string what, Mode mode) : what_(std::move(what)), mode_(mode) {
    // Short work is done before anybody asks.
    next_ += mode_ == Mode::terminal ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000);
}

ProgressLine::~ProgressLine() {
    if (shown_ && mode_ == Mode::terminal) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(std::uint64_t done, std::uint64_t all, const std::string& more) {
    if (mode_ == Mode::none) return;
    if (first_ == 0) first_ = done;
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + (mode_ == Mode::terminal ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000));
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const std::string text =
        cat(what_, " ", progress_text(done, all, done - first_, seconds, mode_ == Mode::terminal), ", ", more);
    if (mode_ == Mode::terminal) {
        std::fprintf(stderr, "\r%s\033[K", text.c_str());
    } else {
        std::fprintf(stderr, "%s\n", text.c_str());
    }
    std::fflush(stderr);
    shown_ = true;
}

}  // namespace thunderc
