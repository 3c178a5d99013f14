// SPDX-License-Identifier: Apache-2.0
// The naive program: everything that has a primitive form is decomposed, whatever other executors could do with it, and
// products and indexed access are plain loops (runtime-lib/device/reference.h).
#include "compiler/executors/executor.h"
#include "compiler/ops/plain_call.h"

namespace thunderc {

Executor reference_executor() {
    return {reference_name,
            "nothing is claimed: the program of primitives, in plain loops, that others are compared with",
            [](const Op&, const Function&) -> std::optional<std::string> { return ""; }};
}

}  // namespace thunderc
