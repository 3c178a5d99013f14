// SPDX-License-Identifier: Apache-2.0
// The emulated counterpart of device/cuda/driver/call.h: a call is issued, and that is all.
#pragma once

#include <string>

#include "device/api.h"
#include "device/timed.h"

namespace thunder {

template <typename Call, typename Body>
void issue(const char* /*name*/, const Call& /*call*/, Stream& /*stream*/, Body&& body) {
    body();
}

}  // namespace thunder
