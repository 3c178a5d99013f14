// SPDX-License-Identifier: Apache-2.0
#include "device/profiler.h"

#include <algorithm>
#include <chrono>

#include "support/text.h"

namespace thunder {

namespace {

double peak(const Roof& roof, Cost::Arithmetic arithmetic) {
    switch (arithmetic) {
        case Cost::Arithmetic::f32: return roof.f32_flops;
        case Cost::Arithmetic::tf32: return roof.tf32_flops;
        case Cost::Arithmetic::narrow: return roof.narrow_flops;
    }
    return 0;
}

// The least time that the hardware allows; 0 where it is not known.
double roof_seconds(const Roof& roof, const Cost& cost) {
    const double memory = roof.bytes_per_second > 0 ? cost.bytes / roof.bytes_per_second : 0;
    const double flops = peak(roof, cost.arithmetic);
    return std::max(memory, flops > 0 ? cost.flops / flops : 0);
}

std::string padded(const std::string& text, std::size_t width, bool left = false) {
    const std::string space(width > text.size() ? width - text.size() : 1, ' ');
    return left ? text + space : space + text;
}

class ClockProfiler : public Profiler {
  public:
    ClockProfiler() : Profiler(Roof{}) {}

  private:
    using Clock = std::chrono::steady_clock;
    void start(Stream&) override { begin_ = Clock::now(); }
    void stop(std::size_t row, Stream&) override {
        add(row, std::chrono::duration<double, std::milli>(Clock::now() - begin_).count());
    }

    Clock::time_point begin_;
};

}  // namespace

std::unique_ptr<Profiler> make_clock_profiler() {
    return std::make_unique<ClockProfiler>();
}

bool Profiler::begin(const ObservedCall& call, Stream& stream) {
    if (std::this_thread::get_id() != thread_) return false;
    if (depth_++ > 0) return true;
    const auto found = index_.find(call.name);
    row_ = found == index_.end() ? rows_.size() : found->second;
    if (found == index_.end()) {
        index_.emplace(call.name, row_);
        rows_.emplace_back();
        rows_.back().name = call.name;
    }
    rows_[row_].cost = call.cost;
    start(stream);
    return true;
}

void Profiler::end(Stream& stream) {
    if (--depth_ > 0) return;
    stop(row_, stream);
    Row& row = rows_[row_];
    ++row.calls;
    if (row.calls == 1) return;  // add() leaves its time out, so what it moved is left out too
    row.bytes += row.cost.bytes;
    row.flops += row.cost.flops;
    row.roof_seconds += roof_seconds(roof_, row.cost);
}

void Profiler::add(std::size_t number, double milliseconds) {
    Row& row = rows_[number];
    if (row.timed++ > 0) row.milliseconds += milliseconds;
}

std::string Profiler::report() {
    collect();
    std::vector<Row> rows = rows_;
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.milliseconds > b.milliseconds; });
    double total = 0;
    for (const Row& row : rows) total += row.milliseconds;
    std::string text = cat(padded("call", 44, true), padded("calls", 8), padded("ms", 11), padded("share", 8),
                           padded("us/call", 11), padded("MB/call", 10), padded("GFLOP/call", 12), padded("GB/s", 9),
                           padded("TFLOP/s", 9), padded("of roof", 9), "\n");
    const auto positive = [](bool known, const char* format, double number) {
        return known ? digits(format, number) : std::string("-");
    };
    for (const Row& row : rows) {
        const std::int64_t timed = row.calls - 1;
        if (timed <= 0) continue;
        const double seconds = row.milliseconds / 1e3, n = static_cast<double>(timed);
        const bool moves = row.bytes > 0, computes = row.flops > 0, took = seconds > 0;
        text +=
            cat(padded(row.name, 44, true), padded(cat(timed), 8), padded(digits("%.3f", row.milliseconds), 11),
                padded(digits("%.1f%%", total > 0 ? 100 * row.milliseconds / total : 0), 8),
                padded(digits("%.2f", 1e3 * row.milliseconds / n), 11),
                padded(positive(moves, "%.3f", row.bytes / n / 1e6), 10),
                padded(positive(computes, "%.4f", row.flops / n / 1e9), 12),
                padded(positive(moves && took, "%.1f", row.bytes / seconds / 1e9), 9),
                padded(positive(computes && took, "%.3f", row.flops / seconds / 1e12), 9),
                padded(positive(row.roof_seconds > 0 && took, "%.1f%%", 100 * row.roof_seconds / seconds), 9), "\n");
    }
    text += cat(padded("all", 44, true), padded("", 8), padded(digits("%.3f", total), 11), "\n");
    if (roof_.bytes_per_second <= 0) text += "what this hardware can do at most is not known: no share of the roof\n";
    return text;
}

void Device::observe(CallObserver* observer) {
    // Threads of communication read it.
    __atomic_store_n(&observer_, observer != nullptr ? observer : profiler_, __ATOMIC_RELAXED);
}

std::string Device::profile_report() const {
    return profiler_ != nullptr ? profiler_->report() : "";
}

}  // namespace thunder
