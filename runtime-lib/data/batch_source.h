// SPDX-License-Identifier: Apache-2.0
// Where a training program's batches come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/options.h"
#include "train/program.h"

namespace thunder {

// How the global batch of a step is cut: micro-step m of rank r takes its rows (m W + r) B ... (m W + r + 1) B, so that
// a step is the same on every world and with any accumulation.
struct BatchCut {
    std::int64_t world = 1, rank = 0;
    std::int64_t micro_steps = 1;
    std::int64_t batch = 1;  // B, rows of one micro-batch of one rank

    std::int64_t global_rows() const { return world * micro_steps * batch; }
    std::int64_t first_row(std::int64_t micro_step) const { return (micro_step * world + rank) * batch; }
};

// Where a run goes on that a checkpoint is of.
struct DataStart {
    std::int64_t step = 0, position = 0;  // steps, and rows that they took
    std::string record{};                 // BatchSource::record() of that run; "" where it tells none
    std::string path{};                   // of the checkpoint, for messages
    std::optional<std::uint64_t> seed{};  // of that run; else the options'
};

class BatchSource {
  public:
    virtual ~BatchSource() = default;

    // Where rows come from from here on; before all below, and once more where a run goes back to a checkpoint. What is
    // said of it (notes) is that of the first.
    virtual void begin(const DataStart& /*start*/) {}

    // One micro-batch of step `step` into host memory, laid out like the batch arena. `position` is the number of rows
    // that all steps before took. Fails with a message on an id out of range.
    virtual void load(std::int64_t step, std::int64_t position, std::int64_t micro_step,
                      std::span<std::byte> batch) = 0;

    // Steps of which each has rows of its own, before any comes again.
    virtual std::int64_t steps() const = 0;

    // One line for the log.
    virtual std::string describe() const = 0;
    // Others, of what is not as one might think; those that are to be seen with --quiet as well begin with "warning".
    virtual std::vector<std::string> notes() const { return {}; }

    // What a checkpoint keeps beside the position (data_record.h); "": nothing.
    virtual std::string record() const { return ""; }
};

// Opens files: what is wrong with them is said here. Where the run goes on, begin() tells the source.
std::unique_ptr<BatchSource> open_batch_source(const ProgramSpec& program, const Options& options, const BatchCut& cut);
// Both at once.
std::unique_ptr<BatchSource> make_batch_source(const ProgramSpec& program, const Options& options, const BatchCut& cut,
                                               const DataStart& start = {});

// Fixed batches (feed.cpp); samples of files in a random order (sample_batches.cpp).
std::unique_ptr<BatchSource> make_feed(const ProgramSpec& program, const Options& options, const BatchCut& cut);
std::unique_ptr<BatchSource> make_sample_batches(const ProgramSpec& program, const Options& options,
                                                 const BatchCut& cut);

}  // namespace thunder
