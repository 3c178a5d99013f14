// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/distributed/distribute_parts.h"
#include "compiler/support/error.h"

namespace thunderc::distributing {
namespace {

std::optional<std::size_t> argument_index(const Function& f, Value v) {
    const auto at = std::find(f.arguments.begin(), f.arguments.end(), v);
    if (at == f.arguments.end()) return std::nullopt;
    return static_cast<std::size_t>(at - f.arguments.begin());
}

bool called_by_loops_alone(const Module& module, const std::string& caller, const std::string& body) {
    for (const Function& f : module.functions)
        for (const Op& op : f.ops) {
            const bool called = is_function_call(op) && called_function(op) == body;
            const bool elsewhere = is_loop_over(op, body) && f.name != caller;
            if (called || elsewhere) return false;
        }
    return true;
}

}  // namespace

void wrap_loops(Module& module, const std::string& caller, const std::string& body_name) {
    Function& body = *module.find(body_name);
    // Results that are arguments: the loop gives them itself, so that the layer need not copy them.
    std::vector<std::optional<std::size_t>> given(body.results.size());
    if (called_by_loops_alone(module, caller, body_name)) {
        std::vector<Value> kept;
        for (std::size_t r = 0; r < body.results.size(); ++r) {
            given[r] = argument_index(body, body.results[r]);
            if (!given[r]) kept.push_back(body.results[r]);
        }
        body.results = std::move(kept);
    }
    std::vector<Type> types;
    std::vector<std::string> names;
    for (Value v : body.results) {
        types.push_back(body.type(v));
        names.push_back(body.info(v).name);
    }
    std::vector<Function> loops;
    for (Op& op : module.find(caller)->ops) {
        if (!is_loop_over(op, body_name)) continue;
        Function loop;
        loop.name = module.unique_function_name(body_name + "_loop");
        for (int k = 1;
             std::any_of(loops.begin(), loops.end(), [&](const Function& f) { return f.name == loop.name; });)
            loop.name = module.unique_function_name(fmt::format("{}_loop_{}", body_name, ++k));
        loop.kind = "loop";
        loop.scope = body.scope;
        loop.module_class = body.module_class;
        for (Value v : body.arguments) loop.add_argument(body.type(v), body.info(v).name);
        loop.argument_info.clear();
        Builder b(loop);
        b.set_provenance(op.provenance);
        const std::vector<Value> results = b.emit_typed("call", loop.arguments, {{"callee", body_name}}, types, names);
        std::size_t next = 0;
        for (const std::optional<std::size_t>& argument : given)
            loop.results.push_back(argument ? loop.arguments[*argument] : results[next++]);
        op.attributes.set("body", loop.name);
        loops.push_back(std::move(loop));
    }
    // Behind the last function that is no kernel: the layers' own.
    auto at =
        std::find_if(module.functions.begin(), module.functions.end(), [](const Function& f) { return f.is_kernel(); });
    module.functions.insert(at, loops.begin(), loops.end());
}

std::vector<GradientResult> gradient_results(const Function& f) {
    const Uses uses(f);
    std::vector<GradientResult> out;
    for (std::size_t r = 0; r < f.results.size(); ++r) {
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            if (!is_state(info, gradient_state) || f.info(f.arguments[k]).name != f.result_names.at(r)) continue;
            GradientResult g;
            g.result = r;
            g.parameter = parameter_of_state(info);
            g.op = uses.definition[f.results[r].index];
            if (g.op >= 0) {
                const Op& op = f.ops[static_cast<std::size_t>(g.op)];
                g.op_result = static_cast<std::size_t>(std::find(op.results.begin(), op.results.end(), f.results[r]) -
                                                       op.results.begin());
                g.layered = is_loop(op) && g.op_result >= loop_carried(op);
            }
            out.push_back(std::move(g));
        }
    }
    return out;
}

}  // namespace thunderc::distributing
