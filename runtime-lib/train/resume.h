// SPDX-License-Identifier: Apache-2.0
// What a run writes of itself into its checkpoints, and says where it goes on from those of a run that was not the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "train/options.h"

namespace thunder {

// Of a run that begins. `rows`: of all ranks in a step.
void begin_progress(Progress& progress, const ProgramSpec& program, const Options& options, std::int64_t rows);

// Of a run that goes on from `progress`, as a checkpoint has it: lines that say in what it is not the run before.
std::vector<std::string> resume_progress(Progress& progress, const ProgramSpec& program, const Options& options,
                                         std::int64_t rows);

}  // namespace thunder
