// SPDX-License-Identifier: Apache-2.0
// Numbers that are given in the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace thunder {

// The whole number that the variable holds; nothing where it is not set. Fails where it holds anything else (an empty
// text as well), or a number out of bounds; `help` says what to do instead of giving a good one.
std::optional<std::int64_t> number_of_environment(const char* variable, std::int64_t least, std::int64_t most,
                                                  const std::string& help);

}  // namespace thunder
