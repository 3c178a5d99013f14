// SPDX-License-Identifier: Apache-2.0
// Who computes an attention on a GPU.
#pragma once

#include <string>

#include "compiler/ir/module.h"

namespace thunderc {

// "on GPUs by cuDNN", or "on GPUs by the runtime's own blocks: ..." with the reason, for sdpa and sdpa_backward: the
// rules of cudnn_takes in runtime-lib/device/cuda/attention/attention.h, but for what a build lacks and for addresses,
// which the planner aligns. What cuDNN then refuses, the program says when it meets it.
// The operand of sdpa that is the seed of its dropout; the number of the draw and those of the rows follow.
inline constexpr std::size_t sdpa_seed = 4;

std::string sdpa_on_gpus(const Op& op, const Function& f);

}  // namespace thunderc
