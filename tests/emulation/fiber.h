// SPDX-License-Identifier: Apache-2.0
// A stack of its own for each thread of a block, and the switch between them.
#pragma once

#include <cstddef>
#include <functional>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace thunder::emulation {

class Fiber {
  public:
    Fiber();  // the thread that runs already
    // Runs `body` when it is switched to for the first time; `body` never returns.
    explicit Fiber(std::function<void(Fiber&)> body);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Leaves this one, which is running, and goes on with the other.
    void switch_to(Fiber& other);

    int thread = -1;  // that it runs

  private:
    static void enter();
    void arrived();

    std::function<void(Fiber&)> body_;
    void* memory_ = nullptr;  // with a guard page below the stack
    void* bottom_ = nullptr;
    std::size_t bytes_ = 0;
    void* fake_stack_ = nullptr;  // of the address sanitizer
#ifdef __x86_64__
    void* stack_pointer_ = nullptr;
#else
    ucontext_t context_{};
#endif
};

}  // namespace thunder::emulation
