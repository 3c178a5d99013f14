// SPDX-License-Identifier: Apache-2.0
// The rows of a step stay as many as they were when a run goes on, on whatever number of ranks: the order of the data
// is counted in rows, and a learning rate belongs to a batch.
#pragma once

#include <string>
#include <vector>

#include "data/batch_source.h"
#include "train/options.h"

namespace thunder {

class Console;

// Of a run that goes on from the newest of these checkpoints: sets --grad-accum, where the command line does not say
// it, so that the ranks of `cut` take the rows that a step took before, and says so. Fails where they cannot, or are
// told to take others, unless --change-batch allows it.
void keep_global_batch(Options& options, BatchCut& cut, const ProgramSpec& program,
                       const std::vector<std::string>& checkpoints, Console& console);

}  // namespace thunder
