// SPDX-License-Identifier: Apache-2.0
// What a checkpoint of a run has: all parameters under their framework names, those that are frozen as well, so that a
// run goes on without the file that it began with, optimizer state as optimizer.<state>.<parameter>, of the shape that
// it has, the average of the weights that --ema keeps as optimizer.ema.<parameter>, and in the metadata the step, the
// position in the data, the seed and what program it belongs to. Where it lies is folder.h's, who writes it writer.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/stored.h"
#include "support/error.h"
#include "train/arenas.h"
#include "train/program.h"
#include "train/states.h"

namespace thunder {

class Stream;
class WeightAverage;
class World;

// In the metadata of a checkpoint, and of a rank's file of one.
inline constexpr std::string_view checkpoint_format = "thunder-checkpoint", part_format = "thunder-checkpoint-part";

// What a run needs beside its tensors to go on.
struct Progress {
    std::int64_t step = 0;           // steps that are done
    std::int64_t data_position = 0;  // rows that they took
    std::uint64_t seed = 0;
    // What the learning rate followed, beside what the command line says; -1 where the checkpoint does not tell.
    std::int64_t steps = -1, warmup = -1;
    // What the products of the program that wrote it are of; "" where the checkpoint does not tell.
    std::string compute;
    std::string batches{};  // where its rows came from, --data or --feed; "" where the checkpoint does not tell
    // What else the steps so far were made by, as text: options by their names, and what is behind --data or --feed.
    // Empty where the checkpoint does not tell.
    std::map<std::string, std::string> made_by{};
    double ema = 0;            // decay of the average of weights that the checkpoint has; 0: it has none
    std::int64_t skipped = 0;  // of the steps, those that were not taken
    // Of a dynamic scale of the loss: the next step's, and the steps since it last changed; 0: there is none.
    double loss_scale = 0;
    std::int32_t loss_scale_good = 0;
    std::map<std::string, std::string> kept{};  // what parts of the trainer go on with, as text, by their names
    bool ema_begun = true;                      // a step was taken since the average was a copy of the parameters
    // Frozen parameters that the checkpoint has in a narrow type and this program holds in f32; that type.
    std::size_t rounded = 0;
    std::string_view rounded_to{};
};

// In Progress::made_by, the rows that all ranks took in a step.
inline constexpr const char* rows_a_step = "rows a step";
// And what BatchSource::record() says.
inline constexpr const char* data_record = "data record";
// Progress::made_by of a checkpoint, of which nothing else is read; empty where it is another program's.
std::map<std::string, std::string> made_by_of(const std::string& path, const ProgramSpec& program);

// A hash of what a checkpoint's tensors mean: the names, types and shapes of the parameters, which of them are trained,
// and the optimizer. In which order they are listed and where in memory they lie, the batch, the number of ranks, the
// type of products and that in which frozen parameters are held are no part of it.
std::uint64_t program_identity(const ProgramSpec& program);

// What products are of: "f32", "bf16", "f16".
std::string_view compute_type(const ProgramSpec& program);

// Reads every `of`-th file of a checkpoint, beginning with the `first`: what says that it is not what was written, as
// where a disk was full, or a copy did not end; nothing where it is whole. What a whole one is of, read_checkpoint
// tells. `on_progress` is called now and then.
std::optional<DamagedFile> damage_of(const std::string& path, const std::function<void()>& on_progress,
                                     std::size_t first = 0, std::size_t of = 1);

// Every tensor of a checkpoint with the arena that it lies in; null: there is no average of the weights.
std::vector<HeldTensor> tensors_of(const ProgramSpec& program, const TrainingArenas& arenas,
                                   const OptimizerStates& states, const WeightAverage* average);
std::map<std::string, std::string> checkpoint_metadata(const ProgramSpec& program, const WeightAverage& average,
                                                       const Progress& progress);

// Reads what this rank holds of one into the arenas, the average of the weights too where both have one. Another
// program's is refused with what differs; nothing is changed before all was checked.
Progress read_checkpoint(const std::string& path, const ProgramSpec& program, const TrainingArenas& arenas,
                         const OptimizerStates& states, WeightAverage& average, const World& world, Stream& stream);

}  // namespace thunder
