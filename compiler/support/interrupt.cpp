// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/interrupt.h"

#include <array>
#include <csignal>

namespace thunderc {
namespace {

constexpr std::array deferred = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t interrupted_by = 0;

void remember(int signal) {
    interrupted_by = signal;
    std::signal(signal, SIG_DFL);
}

}  // namespace

DeferInterrupts::DeferInterrupts() {
    for (const int signal : deferred)
        if (std::signal(signal, remember) == SIG_IGN) std::signal(signal, SIG_IGN);  // as `nohup` has it
}

DeferInterrupts::~DeferInterrupts() {
    for (const int signal : deferred)
        if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
    if (interrupted_by != 0) std::raise(interrupted_by);
}

void stop_if_interrupted() {
    if (interrupted_by != 0) throw Interrupted();
}

}  // namespace thunderc
