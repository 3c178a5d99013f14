// SPDX-License-Identifier: Apache-2.0
// Ctrl-C in the midst of writing: what is half-written is removed before the process ends.
#pragma once

namespace thunderc {

// Thrown where a write stops because the process is to end. No failure: nobody reports it.
struct Interrupted {};

// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process: it is asked to by `stop_if_interrupted`. Its
// destructor lets the signal that came do what it would have done. A second one ends the process at once.
class DeferInterrupts {
  public:
    DeferInterrupts();
    ~DeferInterrupts();
    DeferInterrupts(const DeferInterrupts&) = delete;
    DeferInterrupts& operator=(const DeferInterrupts&) = delete;
};

// Throws Interrupted where a signal came.
void stop_if_interrupted();

}  // namespace thunderc
