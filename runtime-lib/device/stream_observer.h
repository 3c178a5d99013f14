// SPDX-License-Identifier: Apache-2.0
// Who looks on at what the streams of this process do: programs of several ranks (comm/ranks/event_log.h). Most have
// nobody.
#pragma once

namespace thunder {

// Is told what streams do, each by the thread that does it.
class StreamObserver {
  public:
    virtual ~StreamObserver() = default;
    virtual void begin(const char* name) = 0;  // of a Range, or of a wait that has to wait
    virtual void end() = 0;
    virtual void order() = 0;  // an event is recorded, or waited for
};

// Null: nobody looks on.
extern StreamObserver* stream_observer;

}  // namespace thunder
