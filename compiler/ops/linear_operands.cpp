// SPDX-License-Identifier: Apache-2.0
// Which operands and results of linear layers are what, and which lie side by side.
#include <utility>

#include "compiler/ops/composite.h"
#include "compiler/ops/fp8.h"
#include "compiler/ops/linear.h"

namespace thunderc {

std::size_t linear_products(std::size_t operand_count) {
    return operand_count <= 4 ? 1 : 1 + (operand_count - 3) / 2;
}

std::size_t backward_input_products(std::size_t operand_count) {
    return operand_count <= 3 ? 1 : operand_count - 2;
}

std::vector<std::vector<Value>> adjacent_values(const Op& op) {
    std::vector<std::vector<Value>> groups;
    auto add = [&groups](std::vector<Value> group) {
        if (group.size() > 1) groups.push_back(std::move(group));
    };
    if (op.name == "linear") {
        std::vector<Value> weights, biases;
        for (std::size_t k = 0; k < linear_products(op.operands.size()); ++k) {
            weights.push_back(op.operands[linear_weight(k)]);
            if (has_operand(op, linear_bias(k))) biases.push_back(op.operands[linear_bias(k)]);
        }
        add(std::move(weights));
        add(std::move(biases));
    } else if (op.name == "linear_backward_input") {
        std::vector<Value> weights;
        for (std::size_t k = 0; k < backward_input_products(op.operands.size()); ++k)
            weights.push_back(op.operands[backward_input_weight(k)]);
        add(std::move(weights));
    } else if (op.name == "linear_backward_weight") {
        std::size_t n = op.attributes.boolean("bias", false) ? op.results.size() / 2 : op.results.size();
        auto split = [&](const std::vector<Value>& values, std::size_t from) {
            if (values.size() < from + n) return;
            add({values.begin() + static_cast<std::ptrdiff_t>(from),
                 values.begin() + static_cast<std::ptrdiff_t>(from + n)});
        };
        split(op.results, 0);
        split(op.results, n);
        split(op.operands, backward_weight_before);
        split(op.operands, backward_weight_before + n);
    } else if (op.name.starts_with("fp8_quantise") || op.name == "fp8_requantise") {
        const auto [begin, end] = fp8_range_of_x(op);
        add({op.operands.begin() + static_cast<std::ptrdiff_t>(begin),
             op.operands.begin() + static_cast<std::ptrdiff_t>(end)});
    } else if (op.name == "fp8_linear" && op.operands.size() > fp8_bias) {
        add({op.operands.begin() + fp8_bias, op.operands.end()});
    } else if (op.name == "fp8_linear_backward_weight") {
        const auto n = static_cast<std::ptrdiff_t>(op.results.size()), from = static_cast<std::ptrdiff_t>(fp8_before);
        add(op.results);
        if (op.operands.size() >= fp8_before + op.results.size())
            add({op.operands.begin() + from, op.operands.begin() + from + n});
    }
    return groups;
}

}  // namespace thunderc
