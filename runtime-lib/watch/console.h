// SPDX-License-Identifier: Apache-2.0
// What a person sees of a run, on standard error: on a terminal one line that is written over, elsewhere a line for the
// first step, the last one, each whose number `every` divides, and each that was skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/log.h"

namespace thunder {

// A part of the live line. Where there is no room for all, those of the largest number go first.
struct LiveField {
    std::string text;
    int number = 0;
};

// The fields that `width` columns have room for, two spaces between them; the most important one is cut rather than
// left out.
std::string live_text(std::vector<LiveField> fields, std::size_t width);

class Console {
  public:
    // `counted`: what a step's tokens are.
    Console(bool quiet, std::int64_t every, std::string counted);
    ~Console();
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    void line(const std::string& text);
    void alarm(const std::string& text);  // with --quiet as well
    void step(const StepReport& report, std::int64_t steps);
    void evaluation(const EvaluationReport& report);

    // The live line is over: what is written next begins at the left.
    void end();

  private:
    friend class LongWait;
    void live(std::vector<LiveField> fields);
    // Writes this over the live line; "" takes it away.
    void show(const std::string& text);

    bool quiet_, terminal_;
    std::int64_t every_;
    std::string counted_;
    std::string shown_;         // the live line, as it stands there
    double shown_at_ = 0;       // in milliseconds
    double first_step_at_ = 0;  // when the first step was done, from which on time is taken for what is left
    std::int64_t steps_ = 0;
    double tokens_per_second_ = 0;  // of the last steps, those before counting less and less
    std::optional<double> eval_loss_;
};

// Something that takes its time before or between steps, as reading weights: while it lasts, a terminal shows how far
// it is. Elsewhere a line says it where it takes longer than half a minute, and again each half minute.
class LongWait {
  public:
    // `what`: "reading weights"; `total`: of what add() is told, in any unit; 0: not known.
    LongWait(Console& console, std::string what, double total);
    ~LongWait();
    LongWait(const LongWait&) = delete;
    LongWait& operator=(const LongWait&) = delete;

    void add(double done);

  private:
    Console& console_;
    std::string what_;
    double total_, done_ = 0;
    double began_, told_at_;  // in milliseconds
    bool shown_ = false;      // in the place of the live line that was there
    std::string before_;
};

}  // namespace thunder
