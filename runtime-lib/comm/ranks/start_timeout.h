// SPDX-License-Identifier: Apache-2.0
// For how long ranks that have come wait for those that have not.
#pragma once

namespace thunder {

inline constexpr int default_start_timeout = 60;  // seconds

// What THUNDER_START_TIMEOUT in the environment says, else the default; fails where that is no number of seconds.
int start_timeout();

}  // namespace thunder
