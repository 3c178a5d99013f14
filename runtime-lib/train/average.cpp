// SPDX-License-Identifier: Apache-2.0
#include "train/average.h"

#include <algorithm>

#include "optim/average.h"

namespace thunder {

WeightAverage::WeightAverage(const ProgramSpec& program, double decay, std::span<const ParameterSegment> segments)
    : decay_(decay), segments_(segments) {
    const auto& all = program.parameters;
    const auto trains = std::find_if(all.begin(), all.end(), [](const ParameterSpec& p) { return p.trainable; });
    if (trains != all.end()) dtype_ = trains->dtype;
}

std::size_t WeightAverage::bytes() const {
    std::int64_t end = 0;
    for (const ParameterSegment& segment : segments_) end = std::max(end, segment.end);
    return decay_ > 0 ? static_cast<std::size_t>(end) * sizeof(float) : 0;
}

void WeightAverage::allocate(Device& device) {
    memory_ = device.allocate(bytes());
}

void WeightAverage::begin(const std::byte* parameters, Stream& stream) {
    move(parameters, 1, nullptr, stream);
    parts_ = false;
}

void WeightAverage::update(const std::byte* parameters, Stream& stream) {
    move(parameters, parts_ ? 1 - decay_ : 1, nullptr, stream);
    parts_ = true;
}

void WeightAverage::update(const std::byte* parameters, const float* part, Stream& stream) {
    move(parameters, 1, part, stream);
}

void WeightAverage::move(const std::byte* parameters, double part, const float* part_of_step, Stream& stream) {
    if (memory_.bytes() == 0) return;
    Input in;
    in.data = parameters;
    in.dtype = dtype_;
    average_parameters({.averages = reinterpret_cast<float*>(memory_.data()),
                        .parameters = in,
                        .part = static_cast<float>(part),
                        .segments = segments_,
                        .part_of_step = part_of_step},
                       stream);
}

}  // namespace thunder
