// SPDX-License-Identifier: Apache-2.0
// --verify-data: packed tokens are read through before the first step.
#pragma once

#include "train/options.h"
#include "watch/console.h"

namespace thunder {

// Of --data, of all sources of a schedule, and of --eval-data. A file whose bytes are not what was written is an error,
// or, with --data-errors skip, noted in `options.damaged_files`. Each rank reads all of it, since each maps it. Tensors
// in .npy and safetensors files have no checksums, and are passed over.
void verify_data(Options& options, Console& console);

}  // namespace thunder
