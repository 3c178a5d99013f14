// SPDX-License-Identifier: Apache-2.0
// Linear layers and their gradients, as products of the vendor's library.
#include "compiler/executors/executor.h"

namespace thunderc {

Executor products_executor() {
    return {"products", "linear layers, forward and backward, by the products of the device's library",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                if (op.name != "linear" && op.name != "linear_backward_input" && op.name != "linear_backward_weight")
                    return "";
                return not_of_the_api(op, function);
            }};
}

}  // namespace thunderc
