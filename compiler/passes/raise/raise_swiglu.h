// SPDX-License-Identifier: Apache-2.0
// raise_swiglu: x * sigmoid(x) becomes `silu`, and times another value of its shape `swiglu`.
//
//     %s = sigmoid(%gate)
//     %a = mul(%gate, %s)
//     %y = mul(%a, %up)          ==>  %y = swiglu(%gate, %up)
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_swiglu(Module module, Report& report);

}  // namespace thunderc
