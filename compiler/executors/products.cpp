// SPDX-License-Identifier: Apache-2.0
// Linear layers, those in groups too, and their gradients, as products of the vendor's library.
#include <set>
#include <string_view>

#include "compiler/executors/executor.h"

namespace thunderc {

Executor products_executor() {
    return {"products", "linear layers, forward and backward, by the products of the device's library",
            [](const Op& op, const Function& function) -> std::optional<std::string> {
                static const std::set<std::string_view> products = {"linear",
                                                                    "linear_backward_input",
                                                                    "linear_backward_weight",
                                                                    "grouped_linear",
                                                                    "grouped_linear_backward_weight",
                                                                    "linear_cross_entropy",
                                                                    "linear_cross_entropy_gradients"};
                if (!products.contains(op.name)) return "";
                return not_of_the_api(op, function);
            }};
}

}  // namespace thunderc
