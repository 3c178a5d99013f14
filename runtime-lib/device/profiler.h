// SPDX-License-Identifier: Apache-2.0
// Adds up what timed calls took and moved: the table of --profile. Each device has a clock of its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/timed.h"

namespace thunder {

// What the hardware can do at most; 0 where that is not known. FLOP/s are dense.
struct Roof {
    double bytes_per_second = 0;
    double narrow_flops = 0, tf32_flops = 0, f32_flops = 0;
};

class Profiler : public CallObserver {
  public:
    Profiler(const Profiler&) = delete;
    Profiler& operator=(const Profiler&) = delete;

    // False, and nothing is timed, on a thread that is not the profiler's own: streams of communication have theirs.
    bool begin(const ObservedCall& call, Stream& stream) override;
    void end(Stream& stream) override;

    // A line for each name, longest first: calls, time, share, what a call moves and computes, rates, share of the
    // roof. The first call of each name is left out: in it libraries make their plans.
    std::string report();

  protected:
    explicit Profiler(Roof roof) : roof_(roof) {}

    // The clock's own: around a call; add() says what it took, then or in collect().
    virtual void start(Stream& stream) = 0;
    virtual void stop(std::size_t row, Stream& stream) = 0;
    virtual void collect() {}
    void add(std::size_t row, double milliseconds);

  private:
    struct Row {
        std::string name;
        std::int64_t calls = 0, timed = 0;
        double milliseconds = 0, bytes = 0, flops = 0, roof_seconds = 0;
        Cost cost;
    };

    Roof roof_;
    std::thread::id thread_ = std::this_thread::get_id();
    int depth_ = 0;
    std::size_t row_ = 0;  // that is timed now
    std::map<std::string, std::size_t, std::less<>> index_;
    std::vector<Row> rows_;
};

// Of a device whose calls have done their work when they return.
std::unique_ptr<Profiler> make_clock_profiler();

}  // namespace thunder
