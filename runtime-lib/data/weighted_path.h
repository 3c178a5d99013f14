// SPDX-License-Identifier: Apache-2.0
// PATH or PATH:WEIGHT, as --data and `thunderc data mix` name a part of a mixture.
#pragma once

#include <optional>
#include <string>

namespace thunder {

struct WeightedPath {
    std::string path;
    std::optional<double> weight;
};

// What is there under the whole text is that, whatever colons its name has; else a number behind the last colon is a
// weight. Fails (exit status 2, with `help`) where that is not above 0, or too far from 1 for sums and products of such
// to be numbers.
WeightedPath weighted_path(const std::string& text, const char* help);

}  // namespace thunder
