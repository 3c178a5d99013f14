// SPDX-License-Identifier: Apache-2.0
// When the optimizer steps the parameters: behind a step's backward pass, or, on a device of several streams, beside
// the next step's forward pass, on a stream of its own and part by part (ProgramSpec::update_parts). The pass waits for
// each part where it first reads it (wait_for_update), and for all of them before it writes gradients
// (wait_for_updates). Whoever else reads parameters has what is left over done first: flush().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/stream.h"
#include "train/arenas.h"
#include "train/program.h"

namespace thunder {

// The segments of all parameters by the parts that the program cuts them into; in the order of the parts.
std::vector<std::vector<ParameterSegment>> cut_into_parts(std::span<const UpdateRange> ranges,
                                                          std::span<const ParameterSegment> segments);

class Updates {
  public:
    using Step = std::function<void(const UpdatePart&, Stream&)>;  // Model::update

    // `beside`: on a stream of its own where the device has several, else in the place that it would have there.
    // Not where something follows each step, as an average of the weights does. `scalar_bytes`: of StepNumbers.
    void begin(const ProgramSpec& program, TrainingArenas& arenas, std::size_t scalar_bytes, bool beside,
               Stream& compute);
    void set_step(Step step) { step_ = std::move(step); }

    // The gradients of a step are complete, and clip_factor is known: the parameters are stepped, or soon will be.
    void update();
    // Whether the micro-step that is issued next has an update beside its forward pass. It is asked once.
    bool take() { return std::exchange(pending_, false); }
    // Issues it, where there is one; a part of the micro-step.
    void run(const MicroStep& micro_step);
    // What is not done yet, is.
    void flush();
    // What is not done yet never will be: the parameters are read from a checkpoint.
    void forget() { pending_ = false; }

    void wait(std::size_t part, Stream& stream) const {
        if (running_) stream.wait(done_[part]);
    }
    void wait(Stream& stream) const {
        if (running_) stream.wait(done_.back());
        stream.leave(0);
    }

  private:
    Step step_;
    Stream* compute_ = nullptr;
    std::span<const ParameterSegment> segments_;
    std::vector<std::vector<ParameterSegment>> parts_;  // empty: all is stepped behind the backward pass
    const StepScalars* scalars_ = nullptr;
    std::size_t scalar_bytes_ = 0;
    Memory kept_scalars_;  // of the step whose update is pending: the next one has its own by then
    Graph graph_;          // of an update behind the backward pass
    Event fork_;
    std::deque<Event> done_;     // of each part
    bool pending_ = false;       // gradients wait for their update
    bool running_ = false;       // one is beside the micro-step that is issued now
    std::optional<Stream> own_;  // last: its work ends before what it works on goes
};

}  // namespace thunder
