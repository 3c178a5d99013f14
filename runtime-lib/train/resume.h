// SPDX-License-Identifier: Apache-2.0
// What a run writes of itself into its checkpoints, and says where it goes on from those of a run that was not the
// same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/batch_source.h"
#include "support/file.h"
#include "train/options.h"

namespace thunder {

class Communicator;
class Console;
class World;

// Of a run that begins. `rows`: of all ranks in a step.
void begin_progress(Progress& progress, const ProgramSpec& program, const Options& options, std::int64_t rows);

// Its seed is the one that it began with; fails where another one is asked for.
void keep_seed(Options& options, const Progress& progress, const std::string& checkpoint);

// Of a run that goes on from `progress`, as a checkpoint has it: lines that say in what it is not the run before.
std::vector<std::string> resume_progress(Progress& progress, const ProgramSpec& program, const Options& options,
                                         std::int64_t rows);

// Those that are warnings are seen with --quiet as well.
void tell_notes(const std::vector<std::string>& notes, Console& console);

// Where the data of a run goes on.
DataStart data_start_of(const Progress& progress, const std::string& checkpoint);

// A machine that went down, or a disk that loses bytes, may leave the newest checkpoints damaged: with --resume they
// are left out of the list, and get another name, so that the run goes on from the one before. One that cannot be
// verified, since it has no checksum, is told of. On all ranks, which read its files side by side.
void leave_out_damaged(std::vector<std::string>& checkpoints, const Options& options, Communicator& communicator,
                       const World& world, Console& console);

}  // namespace thunder
