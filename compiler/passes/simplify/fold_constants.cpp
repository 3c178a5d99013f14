// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/fold_constants.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

std::size_t fold(Function& f) {
    std::vector<ConstPtr> known(f.values.size());
    std::size_t folded = 0;
    std::vector<Op> out;
    out.reserve(f.ops.size());
    for (Op& op : f.ops) {
        if (is_constant_op(op)) {
            known[op.results[0].index] = op.attributes.constant("value");
            out.push_back(std::move(op));
            continue;
        }
        std::vector<ConstPtr> operands;
        bool all = !op.operands.empty();
        for (Value v : op.operands) {
            operands.push_back(v ? known[v.index] : nullptr);
            all = all && (!v || operands.back());
        }
        std::vector<ConstPtr> values;
        const bool empty = !op.results.empty() && std::all_of(op.results.begin(), op.results.end(), [&](Value v) {
            return f.type(v).is_tensor() && f.type(v).elements() == 0;
        });
        if (empty) {
            for (Value v : op.results) values.push_back(ConstExpr::dense(Tensor(f.type(v))));
        } else if (all &&
                   std::any_of(operands.begin(), operands.end(), [](const ConstPtr& e) { return e != nullptr; })) {
            std::vector<Type> types;
            for (Value v : op.results) types.push_back(f.type(v));
            try {
                values = fold_op(op, operands, types);
            } catch (UserError& error) {  // an index outside of its table
                Diagnostic& d = error.diagnostic();
                if (!op.provenance.nodes.empty()) d.node = op.provenance.nodes.front();
                if (!op.provenance.node_ops.empty()) d.op = op.provenance.node_ops.front();
                d.module = op.provenance.scope;
                throw;
            }
        }
        if (values.empty()) {
            out.push_back(std::move(op));
            continue;
        }
        ++folded;
        for (std::size_t k = 0; k < values.size(); ++k) {
            known[op.results[k].index] = values[k];
            out.push_back({"constant", {}, {op.results[k]}, {{"value", values[k]}}, op.provenance});
        }
    }
    f.ops = std::move(out);
    if (folded > 0) remove_dead_code(f);
    return folded;
}

}  // namespace

Module fold_constants(Module module, Report& report) {
    for (Function& f : module.functions) {
        if (std::size_t count = fold(f); count > 0)
            report.done("constants", f.name, std::to_string(count) + " ops folded");
    }
    return module;
}

}  // namespace thunderc
