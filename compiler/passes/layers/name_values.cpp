// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/name_values.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// Leaves that say where an op stands in a module, but not what it is.
bool is_name(const std::string& leaf) {
    return !leaf.empty() && leaf.find('{') == std::string::npos &&
           !std::all_of(leaf.begin(), leaf.end(), [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

std::string leaf_of(const std::string& scope) {
    return scope.substr(scope.rfind('.') + 1);
}

// q_proj, k_proj, v_proj -> qkv_proj; gate_proj, up_proj -> gate_up_proj; of many the first and the last.
std::string joined(const std::vector<std::string>& leaves) {
    std::size_t tail = leaves[0].size();
    for (const std::string& leaf : leaves) {
        std::size_t same = 0;
        while (same < std::min(leaf.size(), leaves[0].size()) &&
               leaf[leaf.size() - 1 - same] == leaves[0][leaves[0].size() - 1 - same])
            ++same;
        tail = std::min(tail, same);
    }
    const std::size_t begin = leaves[0].size() - tail;
    std::size_t underscore = leaves[0].find('_', begin);
    const std::string suffix = underscore == std::string::npos ? std::string() : leaves[0].substr(underscore);
    constexpr std::size_t most = 4;
    if (leaves.size() > most) return leaves.front() + "_to_" + leaves.back();
    std::string out;
    bool letters = true;
    for (const std::string& leaf : leaves) letters = letters && leaf.size() - suffix.size() <= 1;
    for (const std::string& leaf : leaves)
        out += (out.empty() || letters ? "" : "_") + leaf.substr(0, leaf.size() - suffix.size());
    return out + suffix;
}

bool generic(const std::string& name) {
    return name.empty() || find_op(name) != nullptr;
}

// Which values are what a layer computes, perhaps behind views or within another sum: what goes on beside such a term
// is the residual stream.
std::vector<bool> values_of_layers(const Function& f) {
    std::vector<bool> out(f.values.size(), false);
    for (const Op& op : f.ops) {
        if (op.results.empty()) continue;
        const bool through = is_view(op) || op.name == "add";
        out[op.results[0].index] = op_def(op.name).level == OpLevel::composite ||
                                   (through && std::any_of(op.operands.begin(), op.operands.end(),
                                                           [&](Value v) { return v && out[v.index]; }));
    }
    return out;
}

// What the value is, perhaps behind views, to the one op that reads it: the q of sdpa. Ops that work on one tensor call
// it x, which says nothing.
std::string role_of(const Function& f, const Uses& uses, Value v) {
    std::string role;
    int readers = 0;
    std::vector<Value> todo{v};
    while (!todo.empty()) {
        const Value at = todo.back();
        todo.pop_back();
        for (std::int32_t user : uses.users[at.index]) {
            const Op& op = f.ops[static_cast<std::size_t>(user)];
            if (is_view(op)) {
                todo.push_back(op.results[0]);
                continue;
            }
            ++readers;
            const OpDef& def = op_def(op.name);
            if (def.level != OpLevel::composite || def.operand_names.empty() || def.operand_names[0] == "x") continue;
            const auto k =
                static_cast<std::size_t>(std::find(op.operands.begin(), op.operands.end(), at) - op.operands.begin());
            if (k < def.operand_names.size()) role = def.operand_names[k];
        }
    }
    return readers == 1 ? role : std::string();
}

// Of a product with one of several matrices that lie in one parameter, as a mixture's experts do: what that is called.
// A linear layer is a module of its own, and its parameter is called `weight`.
std::string name_of_matrices(const Function& f, const Op& op) {
    const std::vector<ParameterRole>& roles = op_def(op.name).parameter_roles;
    for (std::size_t k = 0; k < std::min(roles.size(), op.operands.size()); ++k) {
        const Value v = op.operands[k];
        if (roles[k] != ParameterRole::product || !v || f.type(v).rank() != 3) continue;
        const auto at = std::find(f.arguments.begin(), f.arguments.end(), v) - f.arguments.begin();
        if (static_cast<std::size_t>(at) >= f.argument_info.size()) continue;
        const ArgInfo& info = f.argument_info[static_cast<std::size_t>(at)];
        if (info.kind == ArgInfo::Kind::parameter) return leaf_of(info.names.front());
    }
    return {};
}

// Whether the op is best told from others of its kind by what it works on: the queries' and the keys' rotary.
bool is_subject(const Function& f, const Op& op) {
    return op_def(op.name).level == OpLevel::composite && !op.operands.empty() && op.operands[0] &&
           !generic(f.info(op.operands[0]).name) && is_name(f.info(op.operands[0]).name);
}

void name_in(Function& f) {
    const Uses uses(f);
    const std::vector<bool> of_layer = values_of_layers(f);
    // Scopes in which one op alone works: its value can be called after the module.
    std::map<std::string, int> work;
    std::map<std::pair<std::string, std::string>, int> alike;  // ops of one name in one scope
    for (const Op& op : f.ops) {
        if (is_view(op) || is_constant_op(op)) continue;
        const std::string& scope = op.provenance.scope;
        ++work[scope];
        // Products that became one, attn.{q,k,v}_proj, work in the module around them.
        if (op.attributes.boolean("adjacent_weights", false))
            ++work[scope.substr(0, std::min(scope.rfind('.'), scope.size()))];
        ++alike[{scope, op.name}];
    }
    for (const Op& op : f.ops) {
        if (op.results.empty() || runs_function(op) || is_constant_op(op)) continue;
        ValueInfo& first = f.info(op.results[0]);
        std::string leaf = leaf_of(op.provenance.scope);
        if (is_view(op)) {
            if (op.name == "slice" && is_name(leaf) && work[op.provenance.scope] == 0)
                first.name = leaf;
            else if (generic(first.name))
                first.name = f.info(op.operands[0]).name;
            continue;
        }
        // Several products of one input: what their slices are called.
        std::vector<std::string> parts, modules;
        for (std::int32_t user : uses.users[op.results[0].index]) {
            const Op& slice = f.ops[static_cast<std::size_t>(user)];
            if (slice.name != "slice" || !op.attributes.boolean("adjacent_weights", false)) continue;
            const std::string& scope = slice.provenance.scope;
            parts.push_back(leaf_of(scope));
            modules.push_back(leaf_of(scope.substr(0, std::min(scope.rfind('.'), scope.size()))));
        }
        // What each of several modules has, q_proj.lora_A and k_proj.lora_A, is called after these as well.
        if (parts.size() > 1 && std::count(parts.begin(), parts.end(), parts[0]) == static_cast<long>(parts.size()))
            for (std::size_t k = 0; k < parts.size(); ++k) parts[k] = modules[k] + "_" + parts[k];
        const bool merged = parts.size() > 1 && std::all_of(parts.begin(), parts.end(), is_name);
        if (merged)
            first.name = joined(parts);
        else if (generic(first.name) && is_name(leaf) && work[op.provenance.scope] == 1)
            first.name = leaf;
        else if (const std::string own = generic(first.name) ? name_of_matrices(f, op) : ""; is_name(own))
            first.name = own;
        else if (op.name == "add" && generic(first.name) && !is_name(leaf) && of_layer[op.results[0].index])
            first.name = "residual";
        else if (const std::string role = generic(first.name) ? role_of(f, uses, op.results[0]) : ""; !role.empty())
            first.name = role;
        else if (generic(first.name) && alike[{op.provenance.scope, op.name}] > 1 && is_subject(f, op))
            first.name = f.info(op.operands[0]).name + "_" + op.name;
        else if (generic(first.name))
            first.name = op.name;
        const OpDef& def = op_def(op.name);
        for (std::size_t r = 1; r < op.results.size() && r < def.result_names.size(); ++r)
            f.info(op.results[r]).name = first.name + "_" + def.result_names[r];
    }
}

}  // namespace

Module name_values(Module module, Report&) {
    for (Function& f : module.functions) name_in(f);
    return module;
}

}  // namespace thunderc
