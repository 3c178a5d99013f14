// SPDX-License-Identifier: Apache-2.0
#include "support/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

std::optional<std::int64_t> number_of_environment(const char* variable, std::int64_t least, std::int64_t most,
                                                  const std::string& help) {
    const char* const given = std::getenv(variable);
    if (given == nullptr) return std::nullopt;
    const std::string_view text = given;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
        fail(cat(variable, " is '", text, "': a whole number from ", least, " to ", most, " is asked for"), help);
    return number;
}

}  // namespace thunder
