// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/unroll_repeats.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

void unroll(const Module& module, Function& f, const Op& op, std::map<Value, Value>& replaced) {
    const Function& body = callee(module, op);
    const auto n = loop_count(op);
    const auto carried = loop_carried(op);
    const auto per_layer = loop_per_layer(op);
    const bool reverse = loop_reversed(op);
    Builder b(f);
    b.set_provenance(op.provenance);
    std::vector<Type> types;
    for (Value v : body.results) types.push_back(body.type(v));
    std::vector<Value> values(op.operands.begin(), op.operands.begin() + static_cast<std::ptrdiff_t>(carried));
    std::vector<std::vector<Value>> collected(op.results.size(), std::vector<Value>(static_cast<std::size_t>(n)));
    for (std::int64_t step = 0; step < n; ++step) {
        const std::int64_t layer = reverse ? n - 1 - step : step;
        std::vector<Value> operands = values;
        for (std::size_t k = carried; k < op.operands.size(); ++k) {
            Value v = op.operands[k];
            if (k < carried + per_layer)
                v = b.op("member", {v}, {{"index", layer}}, fmt::format("{}_{}", f.info(v).name, layer));
            operands.push_back(v);
        }
        std::vector<std::string> names;
        for (Value v : op.results) names.push_back(fmt::format("{}_{}", f.info(v).name, layer));
        std::vector<Value> results = b.emit_typed("call", operands, {{"callee", body.name}}, types, names);
        for (std::size_t k = 0; k < results.size(); ++k) {
            if (k < carried)
                values[k] = results[k];
            else
                collected[k][static_cast<std::size_t>(layer)] = results[k];
        }
    }
    for (std::size_t k = 0; k < op.results.size(); ++k)
        replaced[op.results[k]] =
            k < carried ? values[k] : b.op("family", collected[k], {}, f.info(op.results[k]).name);
}

bool unroll_in(const Module& module, Function& f) {
    bool changed = false;
    std::vector<Op> ops = std::exchange(f.ops, {});
    std::map<Value, Value> replaced;
    for (Op& op : ops) {
        for (Value& v : op.operands)
            if (auto at = replaced.find(v); at != replaced.end()) v = at->second;
        if (!is_loop(op)) {
            f.ops.push_back(std::move(op));
            continue;
        }
        unroll(module, f, op, replaced);
        changed = true;
    }
    substitute(f, replaced);
    return changed;
}

}  // namespace

Module unroll_repeats(Module module, Report& report) {
    for (Function& f : module.functions)
        if (unroll_in(module, f)) report.done("unroll_repeats", f.name);
    return module;
}

Module unroll_nested_repeats(Module module) {
    for (std::size_t k = 1; k < module.functions.size(); ++k)
        if (module.functions[k].argument_info.empty()) unroll_in(module, module.functions[k]);  // no entry
    return module;
}

}  // namespace thunderc
