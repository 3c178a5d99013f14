// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/restore_names.h"

#include <algorithm>
#include <string_view>

#include "compiler/analysis/parameter_names.h"

namespace thunderc {

RestoredNames::RestoredNames(const Function& main, bool exporters_scopes, bool keeps_names)
    : main_(&main), exporters_scopes_(exporters_scopes), keeps_names_(keeps_names) {
    for (const ArgInfo& info : main.argument_info)
        any_named_ = any_named_ || (info.kind != ArgInfo::Kind::input && is_dotted(info.names.front()));
    std::map<Value, std::string> biases;
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind != ArgInfo::Kind::input && type(k).rank() == 1 && is_dotted(name(k)) &&
            leaf(name(k)).find("bias") != std::string::npos)
            biases.emplace(main.arguments[k], name(k));
    for (const Op& op : main.ops) {
        if (op.name != "add") continue;
        for (std::size_t o : {0, 1})
            if (const auto bias = biases.find(op.operands[o]); bias != biases.end())
                biases_.try_emplace(op.operands[1 - o], Bias{bias->second, op.provenance.scope});
    }
}

std::string RestoredNames::beside_bias(const Site& site) const {
    if (site.role != Role::product || site.scope.empty()) return "";
    const auto at = biases_.find(site.consumer->results.front());
    if (at == biases_.end() || at->second.scope != site.scope) return "";
    std::string out = leaf(at->second.name);
    out.replace(out.find("bias"), std::string_view("bias").size(), "weight");
    out = parent(at->second.name) + "." + out;
    const bool is_another = std::any_of(main_->argument_info.begin(), main_->argument_info.end(),
                                        [&](const ArgInfo& info) { return info.names.front() == out; });
    return is_another ? "" : out;
}

bool RestoredNames::is_models_own(std::size_t k) const {
    return keeps_names_ && given_name(name(k));
}

std::string RestoredNames::target(std::size_t k, const Site& site, bool first) const {
    const std::string& own_name = name(k);
    // A module that is called under several paths reads what is named after one of them: there the path speaks.
    const std::string said = traced(k, site);
    if (!said.empty() && (within(parent(said), site.scope) || within(site.scope, parent(said)))) return said;
    if (is_dotted(own_name)) {
        const std::string own = parent(own_name);
        // A path that is made up takes no name away.
        if (first && !exporters_scopes_) return own_name;
        if (site.scope.empty() || within(own, site.scope) || within(site.scope, own)) return own_name;
        return site.scope + "." + (parameter_name(own_name) ? leaf(own_name) : leaf_of(k, site));
    }
    if (is_models_own(k)) return own_name;
    if (std::string beside = beside_bias(site); exporters_scopes_ && !beside.empty()) return beside;
    if (exporters_scopes_) return site.scope.empty() ? own_name : site.scope + "." + leaf_of(k, site);
    if (first && !exporters_name(own_name)) return own_name;
    // Where no module could be made out, the op says what it is a part of.
    std::string scope = site.scope;
    if (site.module_class.empty()) {
        // A whole table read by constant ids is read without a lookup in the end.
        const bool by_ids = site.role != Role::table || std::find(main_->arguments.begin(), main_->arguments.end(),
                                                                  site.consumer->operands[1]) != main_->arguments.end();
        scope += (scope.empty() ? "" : ".") + (by_ids ? site.consumer->name : "position_embedding");
    }
    return scope + "." + leaf_of(k, site);
}

std::string RestoredNames::traced(std::size_t k, const Site& site) const {
    if (folded(k, site)) return "";
    const std::vector<std::string>& reads = site.reads;
    if (site.role != Role::other) {
        // Of a layer's two parameters the one of this role; both can be the same initializer, of zeros.
        const std::string base = base_of(k, site);
        // "in_proj_weight", "weight_ih_l0"
        const auto fits = [&](const std::string& read) { return leaf(read).find(base) != std::string::npos; };
        if (std::count_if(reads.begin(), reads.end(), fits) == 1)
            return *std::find_if(reads.begin(), reads.end(), fits);
    }
    if (std::find(reads.begin(), reads.end(), name(k)) != reads.end()) return name(k);
    return reads.size() == 1 && !parameter_name(reads.front()) ? reads.front() : "";
}

std::string RestoredNames::base_of(std::size_t k, const Site& site) const {
    // A norm over several dimensions has a shift of as many; positions that are added are a table's rows.
    const bool bias = site.role == Role::shift && (type(k).rank() == 1 || mentions(site.consumer->name, "norm"));
    return bias ? "bias" : "weight";
}

std::string RestoredNames::leaf_of(std::size_t k, const Site& site) const {
    const std::string base = base_of(k, site);
    if (!folded(k, site)) return base;
    return folded_op(name(k)).empty() ? base + "_folded" : base + "_folded_" + folded_op(name(k));
}

bool RestoredNames::folded(std::size_t k, const Site& site) const {
    return !is_dotted(name(k)) && !is_models_own(k) && (site.role == Role::scale || site.role == Role::shift) &&
           main_->argument_info[k].kind == ArgInfo::Kind::value &&
           (exporters_scopes_ || (any_named_ && exporters_name(name(k))));
}

bool RestoredNames::was_transposed(std::size_t k, const std::vector<Site>& sites) const {
    if (is_dotted(name(k)) || is_models_own(k) || main_->argument_info[k].kind == ArgInfo::Kind::parameter ||
        type(k).rank() != 2)
        return false;
    if (!exporters_scopes_ && !exporters_name(name(k))) return false;
    return std::all_of(sites.begin(), sites.end(), [&](const Site& site) {
        // A Gemm that says nothing of transposing could have: its weight is (in, out) to begin with.
        const std::vector<std::string>& nodes = site.consumer->provenance.node_ops;
        if (!exporters_scopes_ && std::find(nodes.begin(), nodes.end(), "Gemm") != nodes.end()) return false;
        // At the root there is no module to tell by, but the traced call may name what it read.
        return site.role == Role::product && !site.rearranged && (!site.scope.empty() || !traced(k, site).empty()) &&
               !mentions(site.module_class, "conv1d") &&
               !(site.consumer->name == "matmul" && site.consumer->attributes.boolean("transpose_b", false));
    });
}

}  // namespace thunderc
