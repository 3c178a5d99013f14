// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/integer_values.h"

#include <algorithm>

#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/user_ops.h"

namespace thunderc {

void IntegerValues::index_new_ops() {
    for (; indexed_ < function_->ops.size(); ++indexed_) {
        const Op& op = function_->ops[indexed_];
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            definitions_[op.results[r].index] = {indexed_, r};
            end_ = std::max(end_, op.results[r].index + 1);
        }
    }
}

void IntegerValues::forget_from(std::uint32_t value_index, std::size_t op_index) {
    for (; end_ > value_index; --end_) {
        definitions_.erase(end_ - 1);
        known_.erase(end_ - 1);
    }
    if (indexed_ > op_index) indexed_ = op_index;
}

const Tensor* IntegerValues::find(Value v) {
    if (!v) return nullptr;
    index_new_ops();
    auto memo = known_.find(v.index);
    if (memo == known_.end()) {
        end_ = std::max(end_, v.index + 1);
        const Type& type = function_->type(v);
        auto definition = definitions_.find(v.index);
        if (!type.is_tensor() || type.elements() > limit_ || definition == definitions_.end() ||
            !evaluate(definition->second.op)) {
            known_[v.index] = std::nullopt;
        }
        memo = known_.find(v.index);
    }
    return memo->second ? &*memo->second : nullptr;
}

bool IntegerValues::evaluate(std::size_t op_index) {
    const Op& op = function_->ops[op_index];
    if (is_constant_op(op)) {
        known_[op.results[0].index] = materialize(*op.attributes.constant("value"));
        return true;
    }
    const OpDef* def = find_op(op.name);
    if (def == nullptr || !def->reference || def->draws || is_user_op(op.name)) return false;
    std::vector<Type> types;
    for (Value result : op.results) {
        types.push_back(function_->type(result));
        if (!types.back().is_tensor() || types.back().elements() > limit_) return false;
    }
    std::vector<Tensor> operands;
    for (Value operand : op.operands) {
        if (!operand) {
            operands.emplace_back();
            continue;
        }
        const Tensor* tensor = find(operand);
        if (tensor == nullptr) return false;
        operands.push_back(*tensor);
    }
    std::vector<Tensor> results = def->reference(op, operands, types);
    for (std::size_t r = 0; r < op.results.size(); ++r) {
        wrap_integers(results[r]);
        known_[op.results[r].index] = std::move(results[r]);
    }
    return true;
}

std::optional<std::vector<std::int64_t>> IntegerValues::integers(Value v) {
    const Tensor* tensor = find(v);
    if (tensor == nullptr || tensor->floating()) return std::nullopt;
    return tensor->i;
}

}  // namespace thunderc
