// SPDX-License-Identifier: Apache-2.0
#include "data/weighted_path.h"

#include <charconv>

#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

WeightedPath weighted_path(const std::string& text, const char* help) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || is_file(text) || is_folder(text)) return {text, std::nullopt};
    double weight = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + colon + 1, last, weight);
    if (error != std::errc() || end != last) return {text, std::nullopt};
    if (!(weight >= 1e-100 && weight <= 1e100))
        fail_usage(cat("the weight of ", text.substr(0, colon), " is ", text.substr(colon + 1)), help);
    return {text.substr(0, colon), weight};
}

}  // namespace thunder
