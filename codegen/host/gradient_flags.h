// SPDX-License-Identifier: Apache-2.0
// The flag that says whether a step overwrites gradients or adds to them: in the text it is a WriteMode, which the host
// passes by value.
#pragma once

#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {

// Of a call of the runtime API.
bool is_gradient_flag(const RuntimeCall& call, const CallField& field);
// By operand of a kernel's call: whether it is that flag, the step's own or one that is always true, and the kernel
// chooses by it alone.
std::vector<bool> gradient_flags(const Module& module, const CallSites& calls, const Function& caller, const Op& fused);

}  // namespace thunderc
