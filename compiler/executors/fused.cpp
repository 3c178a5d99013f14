// SPDX-License-Identifier: Apache-2.0
// Generated kernels. They are made of primitives, so this executor claims no composite: it takes what the others leave.
#include "compiler/executors/executor.h"

namespace thunderc {

Executor fused_executor() {
    return {"fused", "everything else, as kernels generated from primitives",
            [](const Op&, const Function&) -> std::optional<std::string> { return ""; }};
}

}  // namespace thunderc
