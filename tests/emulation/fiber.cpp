// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __x86_64__
// Saves the registers that a call preserves on the stack of who leaves, and restores those of who goes on. The system's
// swapcontext saves the signal mask too: two system calls for each switch, most of the time of an emulated barrier.
extern "C" void thunder_emulation_switch(void** leaving, void* entering);
asm(R"(
    .text
    .globl thunder_emulation_switch
    .type thunder_emulation_switch, @function
thunder_emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size thunder_emulation_switch, .-thunder_emulation_switch
)");
#endif

namespace thunder::emulation {
namespace {

// Kernels keep a few hundred bytes; sanitizers put zones around each variable, and the tests' own code may format a
// message. Pages that nobody touches cost nothing.
constexpr std::size_t stack_bytes = 256 * 1024;

thread_local Fiber* entering = nullptr;
thread_local Fiber* leaving = nullptr;

}  // namespace

Fiber::Fiber() = default;

Fiber::Fiber(std::function<void(Fiber&)> body) : body_(std::move(body)) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = stack_bytes;
    memory_ = mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory_, page, PROT_NONE);
    bottom_ = static_cast<std::byte*>(memory_) + page;
#ifdef __x86_64__
    // As if it had left from the beginning of enter(): six registers and where to return to. A function begins 8 bytes
    // past a multiple of 16, where its caller's address is; here there is none, which ends a debugger's stack trace.
    auto* top = reinterpret_cast<std::uintptr_t*>(static_cast<std::byte*>(bottom_) + bytes_);
    *--top = 0;
    *--top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
    for (int k = 0; k < 6; ++k) *--top = 0;
    stack_pointer_ = top;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = bottom_;
    context_.uc_stack.ss_size = bytes_;
    context_.uc_link = nullptr;
    makecontext(&context_, &Fiber::enter, 0);
#endif
}

Fiber::~Fiber() {
    if (memory_ == nullptr) return;
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(bottom_, bytes_);  // of frames that were never left; the pages may become another stack
#endif
    munmap(memory_, bytes_ + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

void Fiber::switch_to(Fiber& other) {
    entering = &other;
    leaving = this;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_stack_, other.bottom_, other.bytes_);
#endif
#ifdef __x86_64__
    thunder_emulation_switch(&stack_pointer_, other.stack_pointer_);
#else
    swapcontext(&context_, &other.context_);
#endif
    arrived();
}

void Fiber::arrived() {
#if defined(__SANITIZE_ADDRESS__)
    const void* from = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &from, &bytes);
    if (leaving->memory_ == nullptr) {  // the thread's own stack: only the sanitizer knows where it is
        leaving->bottom_ = const_cast<void*>(from);
        leaving->bytes_ = bytes;
    }
#endif
}

void Fiber::enter() {
    Fiber* self = entering;
    self->arrived();
    self->body_(*self);
    std::abort();
}

}  // namespace thunder::emulation
