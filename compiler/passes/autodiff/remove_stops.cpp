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
    const auto stops = [](const Op& op) { return is_stop(op) || op.attributes.has("padding_idx"); };
    return std::any_of(module.functions.begin(), module.functions.end(),
                       [&](const Function& f) { return std::any_of(f.ops.begin(), f.ops.end(), stops); });
}

}  // namespace thunderc
