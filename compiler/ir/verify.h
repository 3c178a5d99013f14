// SPDX-License-Identifier: Apache-2.0
// Checks a module's invariants; runs between passes.
#pragma once

#include "compiler/ir/module.h"

namespace thunderc {

// Throws InternalError that names the function and the op. Checks: each value is defined once and before its use; op
// names are known; result types are what the op's shape rule says; calls and repeats agree with the functions they
// name; value names are unique; in phase `values` nothing is placed, in phase `planned` every value is.
void verify(const Module& module);

}  // namespace thunderc
