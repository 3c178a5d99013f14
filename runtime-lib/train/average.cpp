// SPDX-License-Identifier: Apache-2.0
#include "train/average.h"

#include <algorithm>

#include "device/api.h"
#include "optim/average.h"

namespace thunder {

namespace {

constexpr std::size_t swapped_at_once = std::size_t{4} << 20;  // bytes

}  // namespace

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

void WeightAverage::allocate(Device& device, bool swaps) {
    memory_ = device.allocate(bytes());
    if (swaps) room_ = device.allocate(std::min(swapped_at_once, bytes()));
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

void WeightAverage::swap(std::byte* parameters, Stream& stream) const {
    const std::size_t all = memory_.bytes();
    for (std::size_t at = 0; at < all; at += swapped_at_once) {
        const std::size_t part = std::min(swapped_at_once, all - at);
        copy(room_.data(), memory_.data() + at, part, stream);
        copy(memory_.data() + at, parameters + at, part, stream);
        copy(parameters + at, room_.data(), part, stream);
    }
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
