// SPDX-License-Identifier: Apache-2.0
// Rows of a table by id; their gradient in the order of rows, at any number of threads.
#include "compiler/executors/executor.h"

namespace thunderc {

Executor embedding_executor() {
    return {"embedding", "embedding tables, forward and backward",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                if (op.name != "embedding" && op.name != "embedding_backward") return "";
                return not_of_the_api(op, function);
            }};
}

}  // namespace thunderc
