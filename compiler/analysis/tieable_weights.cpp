// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/tieable_weights.h"

#include <map>
#include <set>

#include "compiler/ir/structure.h"
#include "compiler/ops/linear.h"

namespace thunderc {
namespace {

class TieFinder {
  public:
    explicit TieFinder(const Function& main) : main_(main) {
        for (const Op& op : main.ops)
            for (const Value result : op.results) definitions_[result] = &op;
        for (std::size_t k = 0; k < main.arguments.size(); ++k) arguments_[main.arguments[k]] = &main.argument_info[k];
    }

    std::optional<TieableWeights> run() const {
        std::set<Value> heads, tables;
        for (const Op& op : main_.ops)
            if (op.name == "cross_entropy")
                if (const Value head = weight_behind(op.operands[0])) heads.insert(head);
        if (heads.size() != 1) return std::nullopt;
        const Value head = *heads.begin();
        for (const Op& op : main_.ops)
            if (op.name == "embedding")
                if (const Value table = parameter(op.operands[0]))
                    if (main_.type(table).dims == main_.type(head).dims) tables.insert(table);
        // Where the head itself is looked up, the program ties the two.
        if (tables.size() != 1 || tables.contains(head)) return std::nullopt;
        return TieableWeights{arguments_.at(*tables.begin())->names[0], arguments_.at(head)->names[0]};
    }

  private:
    const Op* definition(Value v) const {
        const auto at = definitions_.find(v);
        return at == definitions_.end() ? nullptr : at->second;
    }

    bool is_constant(Value v) const {
        if (const Op* op = definition(v)) return is_constant_op(*op);
        const auto at = arguments_.find(v);
        return at != arguments_.end() && at->second->kind == ArgInfo::Kind::constant;
    }

    // The parameter that the value is, but for its type.
    Value parameter(Value v) const {
        for (const Op* op = definition(v); op != nullptr && op->name == "cast"; op = definition(v)) v = op->operands[0];
        const auto at = arguments_.find(v);
        return at != arguments_.end() && at->second->kind == ArgInfo::Kind::parameter ? v : Value{};
    }

    // The weight of the product that the logits are, whatever was done to them since that takes nothing else but
    // constants: shifted, scaled, capped, cut into rows.
    Value weight_behind(Value logits) const {
        for (const Op* op = definition(logits); op != nullptr; op = definition(logits)) {
            if (op->name == "linear")
                return linear_products(op->operands.size()) == 1 ? parameter(op->operands[linear_weight(0)]) : Value{};
            Value next;
            for (const Value operand : op->operands) {
                if (!operand || is_constant(operand)) continue;
                if (next && next != operand) return {};
                next = operand;
            }
            logits = next;
        }
        return {};
    }

    const Function& main_;
    std::map<Value, const Op*> definitions_;
    std::map<Value, const ArgInfo*> arguments_;
};

}  // namespace

std::optional<TieableWeights> tieable_weights(const Module& module) {
    return TieFinder(module.main()).run();
}

}  // namespace thunderc
