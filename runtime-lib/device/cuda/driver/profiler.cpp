// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/driver/profiler.h"

#include <utility>

#include "device/cuda/driver/native.h"

namespace thunder {

EventProfiler::~EventProfiler() {
    for (const Pending& p : pending_) {
        cudaEventDestroy(p.begin);
        cudaEventDestroy(p.end);
    }
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
    if (begin_ != nullptr) cudaEventDestroy(begin_);
}

cudaEvent_t EventProfiler::take_event() {
    if (free_.empty()) {
        cudaEvent_t event = nullptr;
        check(cudaEventCreate(&event), "cudaEventCreate");
        return event;
    }
    cudaEvent_t event = free_.back();
    free_.pop_back();
    return event;
}

void EventProfiler::start(Stream& stream) {
    if (pending_.size() >= 4096) collect();
    if (begin_ == nullptr) begin_ = take_event();  // else a call failed between its two
    check(cudaEventRecord(begin_, stream_of(stream)), "cudaEventRecord");
}

void EventProfiler::stop(std::size_t row, Stream& stream) {
    pending_.push_back({row, std::exchange(begin_, nullptr), take_event()});
    check(cudaEventRecord(pending_.back().end, stream_of(stream)), "cudaEventRecord");
}

void EventProfiler::collect() {
    for (const Pending& p : pending_) {
        float milliseconds = 0;
        check(cudaEventSynchronize(p.end), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&milliseconds, p.begin, p.end), "cudaEventElapsedTime");
        add(p.row, static_cast<double>(milliseconds));
        free_.push_back(p.begin);
        free_.push_back(p.end);
    }
    pending_.clear();
}

}  // namespace thunder
