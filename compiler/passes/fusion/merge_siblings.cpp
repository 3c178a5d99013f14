// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/merge_siblings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/precision/exempt_layers.h"

namespace thunderc {
namespace {

bool has(const Op& op, std::size_t k) {
    return k < op.operands.size() && op.operands[k];
}

// Arguments of called functions, by name and place.
using Places = std::set<std::pair<std::string, std::size_t>>;

// Of called functions, the arguments whose tensor is read in some other place as well: by an op of a caller, by another
// function, or as another argument of the same one. Calls of one function with one tensor in one place are one.
Places read_elsewhere(const Module& module) {
    Places out;
    bool more = true;
    while (more) {  // until what callers know has come to all that they call
        const std::size_t before = out.size();
        for (const Function& f : module.functions) {
            std::map<Value, Places> readers;  // "" where an op of f reads it
            for (std::size_t at = 0; at < f.ops.size(); ++at) {
                const Op& op = f.ops[at];
                const std::string callee = is_function_call(op) ? called_function(op)
                                           : is_loop(op)        ? loop_body(op)
                                                                : std::string();
                for (std::size_t k = 0; k < op.operands.size(); ++k)
                    if (op.operands[k]) readers[op.operands[k]].emplace(callee, callee.empty() ? at : k);
            }
            for (std::size_t k = 0; k < f.arguments.size(); ++k) {
                const Places& places = readers[f.arguments[k]];
                if (places.size() < 2 && !out.contains({f.name, k})) continue;
                for (const auto& place : places)
                    if (!place.first.empty()) out.insert(place);
            }
        }
        more = out.size() > before;
    }
    return out;
}

// A product that can be one of several: no residual, no activation, its tensors are arguments. A weight or a bias that
// something else reads as well (a tied head) has to lie where that wants it.
bool plain(const Function& f, const Op& op, const std::set<Value>& arguments, const std::map<Value, int>& readers) {
    if (op.name != "linear" || linear_products(op.operands.size()) != 1 || op.results.size() != 1) return false;
    if (has(op, linear_residual) || op.attributes.string("activation", "none") != "none") return false;
    const auto alone = [&](Value v) { return arguments.contains(v) && readers.at(v) == 1; };
    if (!alone(op.operands[linear_weight(0)])) return false;
    if (has(op, linear_bias(0)) && !alone(op.operands[linear_bias(0)])) return false;
    return f.type(op.operands[0]).rank() >= 1;
}

bool trained(const Function& f, Value v) {
    for (std::size_t k = 0; k < f.argument_info.size(); ++k)
        if (f.arguments[k] == v) return f.argument_info[k].trainable;
    return true;  // of a function that is called: its callers know
}

std::string leaf(const std::string& scope) {
    return scope.substr(scope.rfind('.') + 1);
}

// "attn.{q,k,v}_proj" of attn.q_proj, attn.k_proj, attn.v_proj; "attn.{q,k,v}_proj.lora_A" of what stands in each of
// these; the scope that they have in common where they are no neighbours.
std::string scope_of(const std::vector<const Op*>& siblings, const std::string& common) {
    std::vector<std::string> leaves;
    std::string inner;  // ".lora_A"
    for (const Op* op : siblings) {
        const std::string& scope = op->provenance.scope;
        const std::size_t begin = common.empty() ? 0 : common.size() + 1;
        if (scope.size() <= begin) return common;
        const std::size_t dot = std::min(scope.find('.', begin), scope.size());
        if (dot == begin || (!leaves.empty() && scope.substr(dot) != inner)) return common;
        inner = scope.substr(dot);
        leaves.push_back(scope.substr(begin, dot - begin));
    }
    // Numbers in a row: "heads.{0..23}", as names of layers are written.
    bool in_a_row = leaves.size() > 2;
    for (std::size_t k = 0; k < leaves.size(); ++k)
        in_a_row = in_a_row && leaves[k] == std::to_string(std::strtoll(leaves[0].c_str(), nullptr, 10) +
                                                           static_cast<std::int64_t>(k));
    if (in_a_row)
        return fmt::format("{}{}{{{}..{}}}{}", common, common.empty() ? "" : ".", leaves.front(), leaves.back(), inner);
    constexpr std::size_t most = 8;
    if (leaves.size() > most) return common;
    // What all of them end in, from an underscore on.
    std::string end;
    for (std::size_t at = leaves[0].find('_'); at != std::string::npos; at = leaves[0].find('_', at + 1)) {
        end = leaves[0].substr(at);
        if (std::all_of(leaves.begin(), leaves.end(), [&](const std::string& l) { return l.ends_with(end); })) break;
        end.clear();
    }
    for (std::string& l : leaves) l.resize(l.size() - end.size());
    if (std::any_of(leaves.begin(), leaves.end(), [](const std::string& l) { return l.empty(); })) return common;
    return fmt::format("{}{}{{{}}}{}{}", common, common.empty() ? "" : ".", fmt::join(leaves, ","), end, inner);
}

// "q_k_v"; of many the first and the last.
std::string name_of(const Function& f, const std::vector<const Op*>& siblings) {
    constexpr std::size_t most = 4;
    std::vector<std::string> names;
    for (const Op* op : siblings) names.push_back(f.info(op->results[0]).name);
    if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return name == names[0]; }))
        return names[0];
    if (names.size() > most) return fmt::format("{}_to_{}", names.front(), names.back());
    return fmt::format("{}", fmt::join(names, "_"));
}

std::string place_of(const std::vector<const Op*>& siblings) {
    Provenance all = siblings[0]->provenance;
    for (const Op* op : siblings) all = merge(all, op->provenance);
    return scope_of(siblings, all.scope);
}

Op merged_product(Function& f, const std::vector<const Op*>& siblings) {
    Op op;
    op.name = "linear";
    op.attributes = siblings[0]->attributes;
    op.attributes.set("adjacent_weights", true);
    op.provenance = siblings[0]->provenance;
    op.operands = {siblings[0]->operands[0], siblings[0]->operands[1],
                   has(*siblings[0], 2) ? siblings[0]->operands[2] : Value{}, Value{}};
    Type type = f.type(siblings[0]->results[0]);
    for (std::size_t k = 1; k < siblings.size(); ++k) {
        op.operands.push_back(siblings[k]->operands[1]);
        op.operands.push_back(has(*siblings[k], 2) ? siblings[k]->operands[2] : Value{});
        op.provenance = merge(op.provenance, siblings[k]->provenance);
        type.dims.back() += f.type(siblings[k]->results[0]).dims.back();
    }
    op.results = {f.add_value(type, name_of(f, siblings))};
    const std::string common = op.provenance.scope;
    op.provenance.scope = scope_of(siblings, common);
    // Of the siblings, which a pattern names; what only encloses them is of another class.
    if (op.provenance.scope != common) op.provenance.module_class = siblings[0]->provenance.module_class;
    return op;
}

void merge_in(Function& f, const Places& read_elsewhere, Report& report) {
    const std::set<Value> arguments(f.arguments.begin(), f.arguments.end());
    std::map<Value, int> readers;
    for (std::size_t k = 0; k < f.arguments.size(); ++k)
        if (read_elsewhere.contains({f.name, k})) ++readers[f.arguments[k]];
    for (const Op& op : f.ops)
        for (Value v : op.operands)
            if (v) ++readers[v];
    // By input, whether there is a bias, what of the two is trained (one product has one gradient), and whether it
    // stays in bf16.
    std::map<std::tuple<Value, bool, bool, bool, bool>, std::vector<std::size_t>> groups;
    for (std::size_t k = 0; k < f.ops.size(); ++k) {
        const Op& op = f.ops[k];
        if (!plain(f, op, arguments, readers)) continue;
        const bool bias = has(op, 2);
        groups[{op.operands[0], bias, trained(f, op.operands[1]), bias && trained(f, op.operands[2]), is_exempt(op)}]
            .push_back(k);
    }
    std::map<std::size_t, std::vector<std::size_t>> merged;  // first product -> all
    std::set<std::size_t> gone;
    for (const auto& [key, group] : groups) {
        if (group.size() < 2) continue;
        std::vector<const Op*> siblings;
        for (std::size_t k : group) siblings.push_back(&f.ops[k]);
        if (!report.may("merge_siblings", place_of(siblings), name_of(f, siblings))) continue;
        merged[group[0]] = group;
        gone.insert(group.begin() + 1, group.end());
    }
    if (merged.empty()) return;
    std::vector<Op> ops = std::exchange(f.ops, {});
    for (std::size_t k = 0; k < ops.size(); ++k) {
        if (gone.contains(k)) continue;
        auto at = merged.find(k);
        if (at == merged.end()) {
            f.ops.push_back(ops[k]);
            continue;
        }
        std::vector<const Op*> siblings;
        std::string names;
        for (std::size_t s : at->second) {
            siblings.push_back(&ops[s]);
            names += (names.empty() ? "" : ", ") + leaf(ops[s].provenance.scope);
        }
        Op product = merged_product(f, siblings);
        const Value y = product.results[0];
        report.done("merge_siblings", product.provenance.scope, names);
        f.ops.push_back(std::move(product));
        std::int64_t begin = 0;
        for (const Op* sibling : siblings) {  // each product's own value, now a slice
            const std::int64_t width = f.type(sibling->results[0]).dims.back();
            Op slice;
            slice.name = "slice";
            slice.operands = {y};
            slice.results = sibling->results;
            slice.attributes = {
                {"axis", f.type(y).rank() - 1}, {"begin", begin}, {"end", begin + width}, {"step", std::int64_t{1}}};
            slice.provenance = sibling->provenance;
            f.ops.push_back(std::move(slice));
            begin += width;
        }
    }
}

}  // namespace

Module merge_siblings(Module module, Report& report) {
    const Places elsewhere = read_elsewhere(module);
    for (Function& f : module.functions) merge_in(f, elsewhere, report);
    return module;
}

}  // namespace thunderc
