// SPDX-License-Identifier: Apache-2.0
// How far long work is: one line that is written over on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace thunderc {

class ProgressLine {
  public:
    enum class Mode : std::uint8_t { none, lines, terminal };
    // On standard error; `what` begins each line.
    ProgressLine(std::string what, Mode mode);
    static Mode mode_of_stderr(bool quiet);
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;
    ~ProgressLine();  // takes the line off the terminal

    // `done` of `all`, which has a rate; `more` stands behind.
    void show(std::uint64_t done, std::uint64_t all, const std::string& more);

  private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    Mode mode_;
    Clock::time_point begin_ = Clock::now(), next_ = begin_;
    std::uint64_t first_ = 0;  // what was done when it was first asked: of work that goes on
    bool shown_ = false;
};

// "42% ███████░░░░░░░░░░░░ 1.2 GB of 2.9 GB, 13.4 MB/s, 2:07 left": of a rate over `seconds`, 0 where there is none.
// `all` is 0 where nobody knows it.
std::string progress_text(std::uint64_t done, std::uint64_t all, std::uint64_t since_begin, double seconds, bool bar);

}  // namespace thunderc
