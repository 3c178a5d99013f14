// SPDX-License-Identifier: Apache-2.0
// A stream of a CPU that is a thread: what is put into it is done there, in that order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/ranks/event_log.h"
#include "device/cpu/native.h"

namespace thunder {

class StreamThread : public Stream::Native {
  public:
    explicit StreamThread(Lane& lane);
    StreamThread(const StreamThread&) = delete;
    StreamThread& operator=(const StreamThread&) = delete;
    // Does what is left. In a run that ends early nothing is waited for: the process is about to end.
    ~StreamThread() override;

    void push(std::function<void()> work);
    Lane& lane() { return lane_; }

    void record(Event& event) override;
    void wait(const Event& event) override;
    void synchronize() override;

  private:
    void work();

    // What the thread works with, which it may still do when the stream is gone.
    struct Queue {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<std::function<void()>> work;
        bool busy = false, ends = false;
    };

    Lane& lane_;
    std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
    std::thread thread_;
};

}  // namespace thunder
