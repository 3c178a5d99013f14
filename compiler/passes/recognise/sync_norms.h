// SPDX-License-Identifier: Apache-2.0
// sync_norms: batch norms of all ranks' rows, for a program of several ranks.
//
// torch's SyncBatchNorm takes the statistics of the rows of all ranks, forward and backward. Its export is that of one
// process, where it is a BatchNorm: the class alone tells. It, and every other batch norm where `all` holds, gets the
// attribute `ranks`, and its running variance moves by that of a sample of so many rows. What goes by its running
// statistics has nothing to send, and stays. Throws UserError where `all` holds and there is no norm by the batch's
// statistics. Tests: tests/passes/recognise/sync_norms_test.cpp
#pragma once

#include <cstdint>

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct SyncOptions {
    std::int64_t ranks = 1;
    bool all = false;  // --sync-batch-norm
};

Module sync_norms(Module module, const SyncOptions& options, Report& report);

}  // namespace thunderc
