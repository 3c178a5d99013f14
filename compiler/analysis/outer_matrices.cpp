// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/outer_matrices.h"

#include <map>
#include <set>

#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

class OuterFinder {
  public:
    explicit OuterFinder(const Function& main) : main_(main) {
        for (std::size_t k = 0; k < main.arguments.size(); ++k) {
            const bool parameter = main.argument_info[k].kind == ArgInfo::Kind::parameter;
            of_[main.arguments[k]] = {parameter, main.argument_info[k].kind == ArgInfo::Kind::input};
        }
        for (const Op& op : main.ops) {
            Made made;
            for (const Value v : op.operands) {
                if (!v) continue;
                made.of_parameters = made.of_parameters || of_[v].of_parameters;
                made.of_inputs = made.of_inputs || of_[v].of_inputs;
            }
            for (const Value v : op.results) {
                of_[v] = made;
                definitions_[v] = &op;
            }
        }
    }

    std::vector<std::string> run() {
        last_products(main_.results.front());
        std::set<Value> outer;
        for (const Op& op : main_.ops)
            if (op.name == "embedding") parameters_of(op.operands[0], outer);
        if (products_.size() == 1)
            for (const Value operand : (*products_.begin())->operands)
                if (operand && !of_[operand].of_inputs) parameters_of(operand, outer);
        std::vector<std::string> names;
        for (std::size_t k = 0; k < main_.arguments.size(); ++k)
            if (outer.contains(main_.arguments[k]) && main_.type(main_.arguments[k]).rank() == 2)
                names.push_back(main_.argument_info[k].names[0]);
        return names;
    }

  private:
    struct Made {
        bool of_parameters = false, of_inputs = false;
    };

    // The products that the value is made of with no other product behind them.
    void last_products(Value v) {
        const auto at = definitions_.find(v);
        if (at == definitions_.end() || !seen_.insert(v).second) return;
        const Op& op = *at->second;
        if (const auto& flops = op_def(op.name).flops; flops && flops(op, main_) > 0) {
            products_.insert(&op);
            return;
        }
        for (const Value operand : op.operands)
            if (operand && of_[operand].of_parameters && of_[operand].of_inputs) last_products(operand);
    }

    // The parameters that the value is made of.
    void parameters_of(Value v, std::set<Value>& into) {
        if (!of_[v].of_parameters) return;
        const auto at = definitions_.find(v);
        if (at == definitions_.end()) {
            into.insert(v);
            return;
        }
        for (const Value operand : at->second->operands)
            if (operand) parameters_of(operand, into);
    }

    const Function& main_;
    std::map<Value, Made> of_;
    std::map<Value, const Op*> definitions_;
    std::set<Value> seen_;
    std::set<const Op*> products_;
};

}  // namespace

std::vector<std::string> outer_matrices(const Module& module) {
    return OuterFinder(module.main()).run();
}

}  // namespace thunderc
