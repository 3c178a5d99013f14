// SPDX-License-Identifier: Apache-2.0
// check_synced_norms: no norm of all ranks' rows becomes one of each rank's.
//
// torch's SyncBatchNorm takes the statistics of the rows of all ranks, forward and backward. Its export is that of one
// process, where it is a BatchNorm, and so are the programs': the class alone tells. For a program of several ranks;
// where the norm goes by its running statistics there is nothing to send. Changes nothing; throws UserError. Tests:
// tests/passes/recognise/check_synced_norms_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module check_synced_norms(Module module, Report& report);

}  // namespace thunderc
