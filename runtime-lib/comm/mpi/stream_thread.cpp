// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/stream_thread.h"

#include <cstdlib>
#include <exception>

#include "device/stream_observer.h"
#include "support/error.h"

namespace thunder {

StreamThread::StreamThread(Lane& lane) : lane_(lane) {
    thread_ = std::thread([queue = queue_, &lane] {
        EventLog::work_on(lane);
        for (;;) {
            std::function<void()> work;
            {
                std::unique_lock lock(queue->mutex);
                queue->busy = false;
                if (queue->work.empty()) queue->changed.notify_all();
                queue->changed.wait(lock, [&] { return queue->ends || !queue->work.empty(); });
                if (queue->work.empty()) return;
                work = std::move(queue->work.front());
                queue->work.pop_front();
                queue->busy = true;
            }
            try {
                work();
            } catch (...) {
                std::_Exit(report_error());  // nobody waits for what this thread throws
            }
        }
    });
}

StreamThread::~StreamThread() {
    {
        const std::lock_guard lock(queue_->mutex);
        queue_->ends = true;
    }
    queue_->changed.notify_all();
    if (std::uncaught_exceptions() > 0) {
        thread_.detach();
    } else {
        thread_.join();
    }
}

void StreamThread::push(std::function<void()> work) {
    {
        const std::lock_guard lock(queue_->mutex);
        queue_->work.push_back(std::move(work));
    }
    queue_->changed.notify_all();
}

void StreamThread::record(Event& event) {
    Event::Native* native = event.native();
    const std::uint64_t recording = event.issue();
    native->keep();
    push([native, recording] {
        if (stream_observer != nullptr) stream_observer->order();
        native->complete(recording);
        native->release();
    });
}

void StreamThread::wait(const Event& event) {
    Event::Native* native = event.native();
    const std::uint64_t recording = event.issued();
    native->keep();
    push([native, recording] {
        if (stream_observer != nullptr) stream_observer->order();
        native->wait_for(recording);
        native->release();
    });
}

void StreamThread::synchronize() {
    std::unique_lock lock(queue_->mutex);
    queue_->changed.wait(lock, [&] { return queue_->work.empty() && !queue_->busy; });
}

}  // namespace thunder
