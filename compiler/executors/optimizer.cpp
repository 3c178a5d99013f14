// SPDX-License-Identifier: Apache-2.0
// What ends a step, over whole arenas instead of tensor by tensor.
#include "compiler/executors/executor.h"
#include "compiler/ir/op_def.h"

namespace thunderc {

Executor optimizer_executor() {
    return {"optimizer",
            "the norm of the gradients, clipping and the optimizer's step, by the runtime's own loops over the arenas",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                if (!op_def(op.name).optimizer && op.name != "global_norm" && op.name != "clip_factor") return "";
                return not_of_the_api(op, function);
            }};
}

}  // namespace thunderc
