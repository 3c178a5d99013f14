// SPDX-License-Identifier: Apache-2.0
// --numerics: of every N-th step a line of JSON for each tensor that its first micro-step writes, as it is when it was
// written (memory is used again), and one for the gradient of each parameter and of each layer. docs/watching.md has
// the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "device/recomputation.h"
#include "device/timed.h"
#include "train/log.h"
#include "train/options.h"
#include "train/program.h"
#include "watch/tensor_statistics.h"

namespace thunder {

// "model.layers.3" of "model.layers.3.mlp.up_proj.weight": what a parameter's gradient is added up in. Up to the first
// number; without one, the module that has the parameter.
std::string layer_of(std::string_view parameter);

// The signal's power over the noise's, in decibels; nothing where there is no signal. Infinite where there is no noise.
std::optional<double> signal_to_noise(std::span<const double> exact, std::span<const double> found);

// Of the program's tensors, by the names that lines of --numerics have, those whose noise is known: each once, in the
// order of its functions.
std::vector<std::string> names_with_noise(const ProgramSpec& program);

class Numerics : public CallObserver, public RangeObserver {
  public:
    // `writes`: whether this rank does; the others are only asked for their parts of gradients.
    Numerics(const ProgramSpec& program, const Options& options, bool writes);
    ~Numerics() override;
    Numerics(const Numerics&) = delete;
    Numerics& operator=(const Numerics&) = delete;

    // The run begins with this step: lines of it and of later ones are dropped.
    void open(std::int64_t first_step);
    bool is_due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }

    // A micro-step is about to be issued: of a step that is due the first one is looked at.
    void begin_micro_step(std::int64_t step, std::int64_t micro_step, Stream& stream);
    // The step's gradients are complete, and none of its calls is looked at any longer. On all ranks. `arena`: where
    // gradients lie; `divided_by`: the scale of the loss.
    void gradients(std::int64_t step, const std::byte* arena, double divided_by, Communicator& communicator,
                   Stream& stream);

    bool begin(const ObservedCall& call, Stream& stream) override;
    void end(Stream& stream) override;
    bool recomputes() const override { return tensors_.has_value(); }
    void begin_range(const char* name) override;
    void end_range() override;

  private:
    // A function that has begun.
    struct Frame {
        const FunctionResults* function = nullptr;  // null: the program says nothing of it
        std::string module;
        std::size_t next = 0;  // of its results: where the search for the next call begins
    };
    // The call that has begun.
    struct Looked {
        std::vector<CallResult> results;
        std::span<const ResultSpec> named;
        std::optional<Recomputation> again;
        std::vector<std::int64_t> places;  // elements that are computed again, from the first row on
        std::vector<double> exact;
    };

    void stop(Stream& stream);
    std::span<const ResultSpec> results_of_call(std::string_view name);
    std::string name_of(const ResultSpec& spec) const;
    void compute_again(const Recomputation& recomputation, Stream& stream);
    std::int64_t clipped(Quantised from, DType codes, Stream& stream);
    void write(const ResultSpec& spec, const CallResult& result, Stream& stream);
    // Bytes of the device as the host reads them, good until the next one.
    const std::byte* on_host(const void* device, std::size_t bytes, std::vector<std::byte>& memory, Stream& stream);

    const ProgramSpec& program_;
    std::string path_;
    std::int64_t every_;
    std::optional<std::regex> tensors_;
    bool writes_;
    std::optional<JsonLog> log_;
    std::thread::id thread_ = std::this_thread::get_id();
    std::int64_t step_ = 0;
    bool looks_ = false;
    int depth_ = 0;  // of calls within calls
    std::vector<Frame> frames_;
    std::map<std::string_view, std::int64_t> times_;  // that a function has begun in this micro-step
    Looked looked_;
};

}  // namespace thunder
