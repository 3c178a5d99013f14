// SPDX-License-Identifier: Apache-2.0
// The order of all passes: the compiler's tables of contents.
#pragma once

#include <vector>

#include "compiler/options.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// From an imported module to a planned one. There are two tables of contents: of a training program, and of a function
// library, which adds no loss and no optimizer.
std::vector<Pass> pipeline(const CompileOptions& options);

// Of products: what the command line says, or how the export has its parameters.
DType compute_dtype(const CompileOptions& options, const Module& module);

}  // namespace thunderc
