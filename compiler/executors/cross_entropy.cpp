// SPDX-License-Identifier: Apache-2.0
// Cross entropy that reads the logits once and writes their gradient over them.
#include "compiler/executors/executor.h"

namespace thunderc {

Executor cross_entropy_executor() {
    return {"cross_entropy", "cross entropy of logits, forward and backward",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                if (op.name != "cross_entropy" && op.name != "cross_entropy_backward") return "";
                if (function.type(op.operands[1]).dtype != DType::i64)
                    return "labels are i32: the runtime API reads i64";
                return not_of_the_api(op, function);
            }};
}

}  // namespace thunderc
