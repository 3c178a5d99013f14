// SPDX-License-Identifier: Apache-2.0
#include "train/flags.h"

#include <charconv>
#include <cmath>

#include "support/error.h"
#include "support/json.h"

namespace thunder {

void Place::reject(const std::string& value, const std::string& expected) const {
    const std::string message = cat(name, " takes ", expected, ", not ", json_quote(value));
    command_line ? fail_usage(message, help) : fail(message, help);
}

double real(const std::string& value, const Place& place, double least, const std::string& expected, bool open) {
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (!whole || !std::isfinite(number) || number < least || (open && number == least)) place.reject(value, expected);
    return number;
}

std::int64_t integer(const std::string& value, const Place& place, std::int64_t least, const std::string& expected) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least) place.reject(value, expected);
    return number;
}

}  // namespace thunder
