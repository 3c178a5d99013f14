#include "compiler/analysis/integer_values.h"

#include "compiler/ops/op.h"
#include "compiler/support/error.h"

namespace thunderc {

Tensor evaluate_constant(const ConstExpr& expr) {
    if (expr.kind == ConstExpr::Kind::dense) return *expr.data;
    Tensor out(expr.type);
    const std::int64_t size = out.size();
    switch (expr.kind) {
        case ConstExpr::Kind::splat:
            for (std::int64_t k = 0; k < size; ++k) out.set(k, expr.value);
            break;
        case ConstExpr::Kind::affine: {
            const Dims strides = dense_strides(expr.type.dims);
            for (std::int64_t k = 0; k < size; ++k) {
                double value = expr.base;
                std::int64_t rest = k;
                for (std::size_t d = 0; d < strides.size(); ++d) {
                    value += expr.step[d] * static_cast<double>(rest / strides[d]);
                    rest %= strides[d];
                }
                out.set(k, value);
            }
            break;
        }
        case ConstExpr::Kind::elementwise: {
            const OpDef& def = op_def(expr.op_name);
            std::vector<Tensor> operands;
            for (const ConstPtr& operand : expr.operands) operands.push_back(evaluate_constant(*operand));
            if (expr.op_name == "cast") {
                for (std::int64_t k = 0; k < size; ++k) {
                    const double value = operands[0].at(k);
                    out.set(k, expr.type.dtype == DType::boolean ? (value != 0 ? 1.0 : 0.0) : value);
                }
                break;
            }
            check(def.elementwise.has_value(), "the constant's op " + expr.op_name + " is elementwise");
            std::vector<double> values(operands.size());
            for (std::int64_t k = 0; k < size; ++k) {
                for (std::size_t i = 0; i < operands.size(); ++i) values[i] = operands[i].at(k);
                out.set(k, def.elementwise->evaluate(values.data()));
            }
            break;
        }
        case ConstExpr::Kind::select: {
            const Tensor condition = evaluate_constant(*expr.operands[0]);
            const Tensor then = evaluate_constant(*expr.operands[1]);
            const Tensor otherwise = evaluate_constant(*expr.operands[2]);
            for (std::int64_t k = 0; k < size; ++k) out.set(k, condition.at(k) != 0 ? then.at(k) : otherwise.at(k));
            break;
        }
        case ConstExpr::Kind::dense: break;
    }
    return out;
}

void IntegerValues::index_new_ops() {
    for (; indexed_ < function_->ops.size(); ++indexed_) {
        const Op& op = function_->ops[indexed_];
        for (std::size_t r = 0; r < op.results.size(); ++r) definitions_[op.results[r].index] = {indexed_, r};
    }
}

void IntegerValues::forget_from(std::uint32_t value_index, std::size_t op_index) {
    std::erase_if(definitions_, [&](const auto& entry) { return entry.first >= value_index; });
    std::erase_if(known_, [&](const auto& entry) { return entry.first >= value_index; });
    if (indexed_ > op_index) indexed_ = op_index;
}

const Tensor* IntegerValues::find(Value v) {
    if (!v) return nullptr;
    index_new_ops();
    auto memo = known_.find(v.index);
    if (memo == known_.end()) {
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
    if (op.name == "constant") {
        known_[op.results[0].index] = evaluate_constant(*op.attributes.constant("value"));
        return true;
    }
    const OpDef* def = find_op(op.name);
    if (def == nullptr || !def->reference) return false;
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
    for (std::size_t r = 0; r < op.results.size(); ++r) known_[op.results[r].index] = std::move(results[r]);
    return true;
}

std::optional<std::vector<std::int64_t>> IntegerValues::integers(Value v) {
    const Tensor* tensor = find(v);
    if (tensor == nullptr || tensor->floating()) return std::nullopt;
    return tensor->i;
}

}  // namespace thunderc
