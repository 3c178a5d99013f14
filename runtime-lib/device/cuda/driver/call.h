// SPDX-License-Identifier: Apache-2.0
// Around each call of the runtime API on a GPU: what is wrong in it is told with the call, its tensors and their
// shapes, and
// --profile times it.
#pragma once

#ifdef THUNDER_EMULATION
#include "emulation/call.h"  // in the tests
#else

#include <string>

#include "device/cuda/driver/native.h"
#include "device/describe.h"
#include "support/error.h"

namespace thunder {

// Does `body`, which issues the call.
template <typename Call, typename Body>
void issue(const char* name, const Call& call, Stream& stream, Body&& body) {
    try {
        const Timed timed = timed_call(name, call, stream);
        body();
    } catch (const Error& error) {
        fail(std::string(name) + " " + describe(call) + ": " + error.message(), error.help());
    }
}

}  // namespace thunder

#endif
