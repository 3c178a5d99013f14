// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/keep_statistics.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/unread.h"
#include "compiler/ops/batch_norm.h"

namespace thunderc {
namespace {

// A statistic of a norm: its op, by place, and the operand that the buffer of it becomes.
using Statistic = std::pair<std::size_t, std::size_t>;

// The statistics that a value is made of, by sums and products; where a norm is applied twice there are two.
std::set<Statistic> statistics_of(const Function& main, const Uses& uses, Value moved) {
    std::set<Statistic> found;
    std::set<Value> seen;
    for (std::vector<Value> open{moved}; !open.empty();) {
        const Value v = open.back();
        open.pop_back();
        if (!v || !seen.insert(v).second || uses.definition[v.index] < 0) continue;
        const auto at = static_cast<std::size_t>(uses.definition[v.index]);
        const Op& op = main.ops[at];
        if (op.name != batch_norm_name) {
            open.insert(open.end(), op.operands.begin(), op.operands.end());
        } else if (v != op.results[0]) {
            found.emplace(at, v == op.results[1] ? batch_norm_running_mean : batch_norm_running_variance);
        }
    }
    return found;
}

}  // namespace

Module keep_statistics(Module module, Report& report) {
    Function& main = module.main();
    const std::size_t moved = moved_buffers(main, main.results.size());
    if (moved == 0) return module;
    std::map<std::string, Value> buffers;
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::buffer)
            buffers[main.argument_info[k].names.front()] = main.arguments[k];
    const Uses uses(main);
    std::map<Statistic, Value> of;
    for (std::size_t r = main.results.size() - moved; r < main.results.size(); ++r) {
        const std::string& name = main.result_names[r];
        const std::set<Statistic> found = statistics_of(main, uses, main.results[r]);
        bool alone = !found.empty();
        for (const Statistic& statistic : found) alone = of.emplace(statistic, buffers.at(name)).second && alone;
        if (alone) continue;
        report.declined("keep_statistics", name, "it is moved by no statistic of a batch norm, or by one of another's");
        return module;
    }
    std::set<std::size_t> norms;
    for (const auto& [statistic, buffer] : of) {
        std::vector<Value>& operands = main.ops[statistic.first].operands;
        operands.resize(batch_norm_operands);
        operands[statistic.second] = buffer;
        norms.insert(statistic.first);
    }
    report.done("keep_statistics", "@main",
                fmt::format("{} batch norm{} which buffers they move", norms.size(),
                            norms.size() == 1 ? " is told" : "s are told"));
    return module;
}

Module forget_statistics(Module module, Report&) {
    bool told = false;
    for (Function& f : module.functions)
        for (Op& op : f.ops) {
            if (op.name != batch_norm_name || op.operands.size() <= batch_norm_running_mean) continue;
            op.operands.resize(batch_norm_running_mean);
            while (!op.operands.back()) op.operands.pop_back();
            told = true;
        }
    if (!told) return module;
    std::vector<std::string> called = callees_first(module, module.main());
    called.pop_back();  // main keeps its arguments
    leave_out_unread_arguments(module, called);
    return module;
}

}  // namespace thunderc
