// SPDX-License-Identifier: Apache-2.0
// choose_outputs: of a graph's results those of these names, in their order; what computed others alone is dropped.
//
//     func @main(…) -> (%loss "loss", %logits "logits")      with {"loss"}:      func @main(…) -> (%loss "loss")
//
// Runs directly behind the import. Throws UsageError, which lists the outputs, where there is none of a name. Arguments
// stay as they are. Tests: tests/passes/recognise/choose_outputs_test.cpp
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

Module choose_outputs(Module module, const std::vector<std::string>& names);

}  // namespace thunderc
