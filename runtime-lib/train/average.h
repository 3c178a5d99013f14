// SPDX-License-Identifier: Apache-2.0
// The average of a run's weights, --ema: an exponential moving one of what trains, over the steps, in f32 whatever the
// parameters are stored as. It is torch.optim.swa_utils.AveragedModel's with get_ema_multi_avg_fn(decay): a copy of the
// parameters at first and after the first step, and (1 - decay) of the way to them with each step after it. A rank
// averages what it holds of the parameters.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "device/api.h"
#include "device/stream.h"
#include "optim/segments.h"
#include "train/program.h"

namespace thunder {

class WeightAverage {
  public:
    // `decay` 0: there is none, and all below does nothing. `segments`: what trains, of this rank.
    WeightAverage(const ProgramSpec& program, double decay, std::span<const ParameterSegment> segments);

    double decay() const { return decay_; }
    // Of the device, beside the program's arenas; 0 where this rank holds nothing that trains.
    std::size_t bytes() const;
    // `swaps`: with room for that.
    void allocate(Device& device, bool swaps);
    // Laid out like the first part of the parameter arena, which is what trains.
    std::byte* arena() const { return memory_.data(); }

    // The run begins with these parameters.
    void begin(const std::byte* parameters, Stream& stream);
    // The run goes on with an average that was read into the arena.
    void go_on() { parts_ = true; }
    // A step is done.
    void update(const std::byte* parameters, Stream& stream);
    // The same where the device knows whether the step was taken: `part` of it, on the device.
    void update(const std::byte* parameters, const float* part, Stream& stream);
    bool has_begun() const { return parts_; }
    // The average is where the parameters were, which are of f32 too, and they where it was; and the other way round.
    void swap(std::byte* parameters, Stream& stream) const;

  private:
    void move(const std::byte* parameters, double part, const float* part_of_step, Stream& stream);

    double decay_;
    DType dtype_ = DType::f32;  // of the parameters
    std::span<const ParameterSegment> segments_;
    Memory memory_, room_;
    bool parts_ = false;  // the first step was taken whole
};

}  // namespace thunder
