// SPDX-License-Identifier: Apache-2.0
// What a model keeps beside its parameters and moves itself in each micro-step: a batch norm's running statistics.
#pragma once

#include <cstddef>

#include "comm/communicator.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

bool has_buffers(const ProgramSpec& program);

// Before they go to a file, which has one of each: ranks, which each move their own by what they saw, put the mean of
// all in the place of them. A running average of means is the mean of running averages, so it does not matter how often
// that is done, but for rounding. With --buffers first nothing is done: the file has those of the first rank, as
// torch's DistributedDataParallel. On all ranks.
void agree_on_buffers(const ProgramSpec& program, const Options& options, Communicator& communicator,
                      std::byte* parameters, Stream& stream);

}  // namespace thunder
