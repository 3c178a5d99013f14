// SPDX-License-Identifier: Apache-2.0
// Attention without a matrix of scores in memory.
#include "compiler/executors/executor.h"
#include "compiler/ops/sdpa.h"

namespace thunderc {

Executor attention_executor() {
    return {"attention", "scaled dot-product attention in blocks, forward and backward",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                if (op.name != "sdpa" && op.name != "sdpa_backward") return "";
                return not_of_the_api(op, function);
            },
            sdpa_on_gpus};
}

}  // namespace thunderc
