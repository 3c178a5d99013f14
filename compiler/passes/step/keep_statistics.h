// SPDX-License-Identifier: Apache-2.0
// Tells each batch norm which buffers its statistics move, so that an evaluation can take these in their place.
//
//   in:   %y, %mean, %variance = batch_norm(%x, %w, %b)
//         %moved = 0.9 %running_mean + 0.1 %mean                     // a result of main, by the buffer's name
//   out:  %y, %mean, %variance = batch_norm(%x, %w, %b, %running_mean, %running_var)
//
// The norm computes what it did: it reads neither. Requires: phase values, main alone, whose last results are what its
// buffers will be. A buffer that no norm's statistic moves, or two of different norms that would be one's, leave all as
// it was: add_evaluation then finds that the model is not to be evaluated.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module keep_statistics(Module module, Report& report);

// Takes back what keep_statistics told, once add_evaluation has read it: a backward pass that computes a norm again
// would keep what the buffers were. Functions give up the arguments that nothing else reads.
Module forget_statistics(Module module, Report& report);

}  // namespace thunderc
