// SPDX-License-Identifier: Apache-2.0
// What does not fit together on the command line of a training program, each option by itself being right.
#pragma once

#include "train/options.h"

namespace thunder {

// Fails as a wrong command line does, with what to do.
void check_options(const Options& options, const ProgramSpec& program);

}  // namespace thunder
