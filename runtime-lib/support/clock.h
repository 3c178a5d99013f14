// SPDX-License-Identifier: Apache-2.0
// Time that passes, for what is shown and logged.
#pragma once

#include <ctime>

namespace thunder {

// Milliseconds of a clock that never goes back. <chrono> would cost each program a fifth of a second of its build.
inline double steady_ms() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

}  // namespace thunder
