// SPDX-License-Identifier: Apache-2.0
// What is said of a tensor whose type programs store, but do not compute in by themselves.
#pragma once

#include <string>

#include "compiler/ir/dtype.h"
#include "compiler/options.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// `what` is of the type `stored`: computed in f32, with a warning, unless the program computes in that type.
void say_how_it_is_computed(DType stored, const std::string& what, const CompileOptions& options, Report& report);

}  // namespace thunderc
