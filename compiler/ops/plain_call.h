// SPDX-License-Identifier: Apache-2.0
// Calls that come in two forms: the runtime API's, and that of naive programs, in plain loops
// (runtime-lib/device/reference.h).
#pragma once

#include <utility>

#include "compiler/ir/op_def.h"

namespace thunderc {

// The executor whose name such an op bears as its attribute `executor`, which `claim` gives it.
inline constexpr const char* reference_name = "reference";

// `call` as it is made of `op`: reference_matmul instead of matmul where the executor `reference` has it.
inline RuntimeCall by_executor(RuntimeCall call, const Op& op) {
    if (call.function.empty() || op.attributes.string("executor", "") != reference_name) return call;
    call.function = "reference_" + call.function;
    call.header = "device/reference.h";
    call.header_comment = "products and indexed access in plain loops";
    return call;
}

}  // namespace thunderc
