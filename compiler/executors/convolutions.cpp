// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, of which the plan has no columns.
#include "compiler/executors/executor.h"
#include "compiler/ir/op_def.h"

namespace thunderc {

Executor convolutions_executor() {
    return {"convolutions", "convolutions, forward and backward, by the device's library",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                if (op.name != "convolution" && op.name != "convolution_backward_input" &&
                    op.name != "convolution_backward_weight")
                    return "";
                if (op_def(op.name).call(op, function).function.empty())
                    return "the runtime API's convolutions are of three dimensions at most";
                return std::nullopt;
            }};
}

}  // namespace thunderc
