// SPDX-License-Identifier: Apache-2.0
// Streams of a CPU that are threads, and events between them: for what communicates (comm/ranks).
#pragma once

#include <atomic>
#include <cstdint>

#include "device/stream.h"

namespace thunder {

// What a stream that is a thread does instead of the calling one.
struct Stream::Native {
    virtual ~Native() = default;
    virtual void record(Event& event) = 0;
    virtual void wait(const Event& event) = 0;
    virtual void synchronize() = 0;
};

struct Event::Native {
    std::atomic<std::uint64_t> issued{0};
    std::atomic<std::uint64_t> completed{0};
    // The event itself, and its recordings and waits in queues of threads, which may outlive it: the last one deletes.
    std::atomic<int> owners{1};

    void keep() { owners.fetch_add(1, std::memory_order_relaxed); }
    void release() {
        if (owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

    void complete(std::uint64_t recording) {
        completed.store(recording, std::memory_order_release);
        completed.notify_all();
    }
    bool has_come_to(std::uint64_t recording) const { return completed.load(std::memory_order_acquire) >= recording; }
    void wait_for(std::uint64_t recording) const;
};

}  // namespace thunder
