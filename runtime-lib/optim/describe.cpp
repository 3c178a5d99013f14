// SPDX-License-Identifier: Apache-2.0
#include "optim/describe.h"

#include "support/text.h"

namespace thunder {

namespace {

std::int64_t elements_of(std::span<const ParameterSegment> segments) {
    std::int64_t elements = 0;
    for (const ParameterSegment& s : segments) elements += s.end - s.begin;
    return elements;
}

std::string segments_text(std::span<const ParameterSegment> segments) {
    return cat("of ", count_text(static_cast<std::uint64_t>(elements_of(segments)), "parameter"), " in ",
               count_text(segments.size(), "segment"));
}

template <typename Tensor>
double bytes_of_element(const Tensor& tensor) {
    return tensor ? static_cast<double>(size_of(tensor.dtype)) : 0;
}

}  // namespace

std::string describe(const OptimizerUpdate& c) {
    return segments_text(c.segments);
}
std::string describe(const GlobalNorm& c) {
    return cat("of ", c.elements, " gradients");
}
std::string describe(const AverageUpdate& c) {
    return segments_text(c.segments);
}

// Parameters and states are read and written, gradients read, narrow copies written; some dozen operations an element.
Cost cost_of(const OptimizerUpdate& c) {
    const auto n = static_cast<double>(elements_of(c.segments));
    double bytes =
        2 * bytes_of_element(c.parameters) + bytes_of_element(c.gradients) + bytes_of_element(c.narrow_copies);
    for (const Output& state : c.states) bytes += 2 * bytes_of_element(state);
    return {n * bytes, 12 * n};
}
Cost cost_of(const GlobalNorm& c) {
    const auto n = static_cast<double>(c.elements);
    return {n * bytes_of_element(c.gradients), 2 * n};
}
Cost cost_of(const AverageUpdate& c) {
    const auto n = static_cast<double>(elements_of(c.segments));
    return {n * (2 * sizeof(float) + bytes_of_element(c.parameters)), 3 * n};
}

}  // namespace thunder
