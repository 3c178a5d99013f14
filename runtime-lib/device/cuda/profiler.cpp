#include "device/cuda/profiler.h"

#include <algorithm>

#include "device/cuda/native.h"
#include "support/text.h"

namespace thunder {

namespace {

double peak(const Roof& roof, Cost::Arithmetic arithmetic) {
    switch (arithmetic) {
        case Cost::Arithmetic::f32: return roof.f32_flops;
        case Cost::Arithmetic::tf32: return roof.tf32_flops;
        case Cost::Arithmetic::bf16: return roof.bf16_flops;
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
    const std::string space(width > text.size() ? width - text.size() : 0, ' ');
    return left ? text + space : space + text;
}

}  // namespace

Profiler::~Profiler() {
    for (const Pending& p : pending_) {
        cudaEventDestroy(p.begin);
        cudaEventDestroy(p.end);
    }
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
}

cudaEvent_t Profiler::take_event() {
    if (free_.empty()) {
        cudaEvent_t event = nullptr;
        check(cudaEventCreate(&event), "cudaEventCreate");
        return event;
    }
    cudaEvent_t event = free_.back();
    free_.pop_back();
    return event;
}

void Profiler::begin(const std::string& name, const Cost& cost, cudaStream_t stream) {
    if (depth_++ > 0) return;
    const auto [found, is_new] = index_.try_emplace(name, rows_.size());
    if (is_new) {
        rows_.emplace_back();
        rows_.back().name = name;
    }
    rows_[found->second].cost = cost;
    if (pending_.size() >= 4096) collect();
    pending_.push_back({found->second, take_event(), take_event()});
    check(cudaEventRecord(pending_.back().begin, stream), "cudaEventRecord");
}

void Profiler::end(cudaStream_t stream) {
    if (--depth_ > 0) return;
    const Pending& p = pending_.back();
    check(cudaEventRecord(p.end, stream), "cudaEventRecord");
    Row& row = rows_[p.row];
    ++row.calls;
    if (row.calls == 1) return;  // collect() leaves its time out, so what it moved is left out too
    row.bytes += row.cost.bytes;
    row.flops += row.cost.flops;
    row.roof_seconds += roof_seconds(roof_, row.cost);
}

void Profiler::collect() {
    for (const Pending& p : pending_) {
        float milliseconds = 0;
        check(cudaEventSynchronize(p.end), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&milliseconds, p.begin, p.end), "cudaEventElapsedTime");
        Row& row = rows_[p.row];
        if (row.timed++ > 0) row.milliseconds += static_cast<double>(milliseconds);
        free_.push_back(p.begin);
        free_.push_back(p.end);
    }
    pending_.clear();
}

std::string Profiler::report() {
    collect();
    std::vector<Row> rows = rows_;
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.milliseconds > b.milliseconds; });
    double total = 0;
    for (const Row& row : rows) total += row.milliseconds;
    std::string text = cat(padded("call", 44, true), padded("calls", 8), padded("ms", 11), padded("share", 8),
                           padded("us/call", 11), padded("GB/s", 9), padded("TFLOP/s", 9), padded("of roof", 9), "\n");
    for (const Row& row : rows) {
        const std::int64_t timed = row.calls - 1;
        if (timed <= 0) continue;
        const double seconds = row.milliseconds / 1e3;
        const auto rate = [&](double amount, double unit) {
            return amount > 0 && seconds > 0 ? digits("%.1f", amount / seconds / unit) : std::string("-");
        };
        text += cat(padded(row.name, 44, true), padded(cat(timed), 8), padded(digits("%.3f", row.milliseconds), 11),
                    padded(digits("%.1f%%", total > 0 ? 100 * row.milliseconds / total : 0), 8),
                    padded(digits("%.2f", 1e3 * row.milliseconds / static_cast<double>(timed)), 11),
                    padded(rate(row.bytes, 1e9), 9), padded(rate(row.flops, 1e12), 9),
                    padded(row.roof_seconds > 0 && seconds > 0 ? digits("%.1f%%", 100 * row.roof_seconds / seconds)
                                                               : std::string("-"),
                           9),
                    "\n");
    }
    text += cat(padded("all", 44, true), padded("", 8), padded(digits("%.3f", total), 11), "\n");
    return text;
}

}  // namespace thunder
