// SPDX-License-Identifier: Apache-2.0
// What ranks must have in common.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

// Fails where a rank runs another program, has other options or sees other files than rank 0, with what differs; rank 0
// tells. On all ranks. `checkpoint`: that it goes on from, or "".
void check_config(Communicator& communicator, const ProgramSpec& program, const Options& options,
                  const std::string& checkpoint);

}  // namespace thunder
