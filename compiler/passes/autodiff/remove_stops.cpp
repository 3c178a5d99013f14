// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/remove_stops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/ir/function_tools.h"

namespace thunderc {
namespace {

bool is_stop(const Op& op) {
    return op.name == "stop_gradient";
}

// The parameter in which the op looks rows up, of which one pads; else null.
const ArgInfo* padded_parameter(const Function& f, const Op& op) {
    if (!op.attributes.has("padding_idx") || op.operands.empty()) return nullptr;
    const auto at = std::find(f.arguments.begin(), f.arguments.end(), op.operands[0]);
    if (at == f.arguments.end() || f.argument_info.size() != f.arguments.size()) return nullptr;
    const ArgInfo& info = f.argument_info[static_cast<std::size_t>(at - f.arguments.begin())];
    const bool rows = op.attributes.integer("axis", 0) == 0;
    return info.kind == ArgInfo::Kind::parameter && !info.names.empty() && rows ? &info : nullptr;
}

}  // namespace

Module remove_stops(Module module, Report& report) {
    for (Function& f : module.functions) {
        std::map<Value, Value> operands;
        for (const Op& op : f.ops)
            if (is_stop(op)) operands[op.results[0]] = op.operands[0];
        if (operands.empty()) continue;
        substitute(f, operands);
        remove_dead_code(f);
        report.done("stop_gradient", "@" + f.name,
                    fmt::format("{} that {} done", operands.size(), operands.size() == 1 ? "is" : "are"));
    }
    return module;
}

bool stops_gradients(const Module& module) {
    const auto stops = [&](const Function& f) {
        return std::any_of(f.ops.begin(), f.ops.end(), [&](const Op& op) {
            const bool told = &f == &module.functions.front() && padded_parameter(f, op) != nullptr;
            return is_stop(op) || (op.attributes.has("padding_idx") && !told);
        });
    };
    return std::any_of(module.functions.begin(), module.functions.end(), stops);
}

std::vector<PaddedRow> padded_rows(const Module& module) {
    std::vector<PaddedRow> out;
    const Function& main = module.functions.front();
    for (const Op& op : main.ops) {
        const ArgInfo* table = padded_parameter(main, op);
        if (table == nullptr) continue;
        const std::int64_t row = op.attributes.integer("padding_idx");
        if (std::none_of(out.begin(), out.end(),
                         [&](const PaddedRow& p) { return p.table == table->names.front() && p.row == row; }))
            out.push_back({table->names.front(), row});
    }
    return out;
}

}  // namespace thunderc
