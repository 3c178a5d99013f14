// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/function_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/support/error.h"

namespace thunderc {

std::size_t remove_dead_ops(Function& function) {
    Mask used(function.values.size(), false);
    for (Value v : function.results)
        if (v) used[v.index] = true;
    std::vector<bool> keep(function.ops.size(), false);
    for (std::size_t k = function.ops.size(); k-- > 0;) {
        const Op& op = function.ops[k];
        for (Value v : op.results) keep[k] = keep[k] || used[v.index];
        if (!keep[k]) continue;
        for (Value v : op.operands)
            if (v) used[v.index] = true;
    }
    std::size_t to = 0;
    for (std::size_t k = 0; k < function.ops.size(); ++k) {
        if (!keep[k]) continue;
        if (to != k) function.ops[to] = std::move(function.ops[k]);
        ++to;
    }
    const std::size_t dropped = function.ops.size() - to;
    function.ops.resize(to);
    return dropped;
}

std::size_t remove_dead_code(Function& function) {
    const std::size_t dropped = remove_dead_ops(function);
    compact_values(function);
    return dropped;
}

void compact_values(Function& function) {
    std::deque<ValueInfo> values;
    std::vector<Value> to(function.values.size());
    auto define = [&](Value& v) {
        to[v.index] = {static_cast<std::uint32_t>(values.size())};
        values.push_back(std::move(function.info(v)));
        v = to[v.index];
    };
    for (Value& v : function.arguments) define(v);
    for (Op& op : function.ops) {
        for (Value& v : op.operands) {
            if (!v) continue;
            if (!to[v.index])
                throw InternalError("@" + function.name + " reads %" + function.info(v).name + " before it is defined");
            v = to[v.index];
        }
        for (Value& v : op.results) define(v);
    }
    for (Value& v : function.results)
        if (v) v = to[v.index];
    for (ValueInfo& info : values)
        if (info.placement.view_of) info.placement.view_of = to[info.placement.view_of.index];
    function.values = std::move(values);
}

void order_by_dependencies(Function& function) {
    const Uses uses(function);
    std::vector<Op> ordered;
    ordered.reserve(function.ops.size());
    enum class State : std::uint8_t { waiting, open, done };
    std::vector<State> state(function.ops.size(), State::waiting);
    std::vector<std::size_t> open;
    for (std::size_t k = 0; k < function.ops.size(); ++k) {
        open.push_back(k);
        while (!open.empty()) {
            const std::size_t top = open.back();
            if (state[top] == State::done) {
                open.pop_back();
                continue;
            }
            const std::size_t before = open.size();
            const std::vector<Value>& operands = function.ops[top].operands;
            for (auto v = operands.rbegin(); v != operands.rend(); ++v) {
                if (!*v || uses.definition[v->index] < 0) continue;
                const auto producer = static_cast<std::size_t>(uses.definition[v->index]);
                if (state[producer] == State::done) continue;
                check(state[producer] == State::waiting,
                      "ops of @" + function.name + " depend on each other in a circle");
                open.push_back(producer);
            }
            if (open.size() != before) {
                state[top] = State::open;
                continue;
            }
            state[top] = State::done;
            open.pop_back();
            ordered.push_back(std::move(function.ops[top]));
        }
    }
    function.ops = std::move(ordered);
}

void remove_unreached_functions(Module& module, std::size_t entries) {
    std::set<std::string> reached;
    std::vector<const Function*> open;
    for (std::size_t k = 0; k < entries && k < module.functions.size(); ++k) open.push_back(&module.functions[k]);
    while (!open.empty()) {
        const Function* f = open.back();
        open.pop_back();
        if (!reached.insert(f->name).second) continue;
        for (const Op& op : f->ops)
            for (const char* attribute : {"callee", "body", "kernel"})
                if (op.attributes.has(attribute))
                    if (const Function* g = module.find(op.attributes.string(attribute))) open.push_back(g);
    }
    std::erase_if(module.functions, [&](const Function& f) { return !reached.contains(f.name); });
}

void substitute(Function& function, const std::map<Value, Value>& replacements) {
    if (replacements.empty()) return;
    auto replace = [&](Value& v) {
        for (auto at = replacements.find(v); at != replacements.end(); at = replacements.find(v)) v = at->second;
    };
    for (Op& op : function.ops)
        for (Value& v : op.operands) replace(v);
    for (Value& v : function.results) replace(v);
}

std::int64_t batch_rows(const Function& main) {
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        if (info.kind == ArgInfo::Kind::input && info.batched && type.rank() > 0) return type.dims[0];
    }
    return 0;
}

std::size_t moved_buffers(const Function& main, std::size_t results) {
    const auto is_moved = [&](const std::string& name) {
        return std::any_of(main.argument_info.begin(), main.argument_info.end(), [&](const ArgInfo& info) {
            return info.kind == ArgInfo::Kind::buffer && info.names.front() == name;
        });
    };
    results = std::min(results, main.result_names.size());
    std::size_t count = 0;
    while (count < results && is_moved(main.result_names[results - 1 - count])) ++count;
    return count;
}

Module outputs_alone(Module module) {
    Function& main = module.main();
    const std::size_t moved = moved_buffers(main, main.results.size());
    if (moved == 0) return module;
    main.results.resize(main.results.size() - moved);
    main.result_names.resize(main.results.size());
    return module;
}

std::string unique_value_name(const Function& function, const std::string& wanted) {
    std::unordered_set<std::string_view> alike;  // others are not in the way
    for (const ValueInfo& info : function.values)
        if (info.name.starts_with(wanted)) alike.insert(info.name);
    std::string name = wanted;
    for (int k = 1; alike.contains(name); ++k) name = fmt::format("{}_{}", wanted, k);
    return name;
}

ValueNames::ValueNames(const Function& function) {
    for (const ValueInfo& info : function.values) taken_.insert(info.name);
}

std::string ValueNames::unique(const std::string& wanted) {
    std::string name = wanted;
    for (int k = 1; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", wanted, k);
    return name;
}

const Op* definition_of(const Function& function, const Uses& uses, Value v) {
    const std::int32_t k = uses.definition[v.index];
    return k < 0 ? nullptr : &function.ops[static_cast<std::size_t>(k)];
}

std::size_t index_of(const std::vector<Value>& values, Value v) {
    return static_cast<std::size_t>(std::find(values.begin(), values.end(), v) - values.begin());
}

}  // namespace thunderc
