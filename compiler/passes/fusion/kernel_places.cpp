// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/kernel_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "compiler/analysis/result_names.h"

namespace thunderc {
namespace {

bool is_within(const std::string& scope, const std::string& outer) {
    return scope == outer || scope.starts_with(outer + ".");
}

// Modules that no other of them is around, in the order of their ops.
std::vector<std::string> outermost(const std::vector<std::string>& scopes) {
    std::vector<std::string> out;
    for (const std::string& scope : scopes) {
        const auto around = [&](const std::string& other) { return other != scope && is_within(scope, other); };
        if (std::none_of(scopes.begin(), scopes.end(), around) && std::find(out.begin(), out.end(), scope) == out.end())
            out.push_back(scope);
    }
    return out;
}

}  // namespace

std::string scope_leaf(const std::string& scope) {
    const std::string named = without_index(scope);
    return snake_words(named.substr(named.rfind('.') + 1));
}

KernelPlaces::KernelPlaces(const KernelGroups& groups) : g_(groups), f_(groups.function()) {
    argument_.resize(f_.values.size());
    for (std::size_t k = 0; k < f_.arguments.size(); ++k) argument_[f_.arguments[k].index] = k;
    modules_.reserve(f_.ops.size());
    for (const Op& op : f_.ops) modules_.push_back(without_index(op.provenance.scope));
    find_directions();
    for (int group = 0; group < static_cast<int>(g_.groups().size()); ++group)
        directions_.push_back(direction_of(group));
    count_ops();
}

void KernelPlaces::count_ops() {
    for (int k = 0; k < static_cast<int>(f_.ops.size()); ++k) {
        const int group = g_.of(k);
        if (group == KernelGroups::none) continue;
        const std::string& module = modules_[static_cast<std::size_t>(k)];
        for (std::size_t end = 0; end < module.size(); ++end) {
            end = std::min(module.find('.', end), module.size());
            ++ops_within_[{module.substr(0, end), directions_[static_cast<std::size_t>(group)]}];
        }
    }
}

void KernelPlaces::find_directions() {
    if (f_.argument_info.empty()) {
        // As differentiation calls the functions of a layer.
        if (f_.name.ends_with("_forward")) all_ = Direction::forward;
        if (f_.name.ends_with("_backward")) all_ = Direction::backward;
        return;
    }
    depends_.assign(f_.values.size(), false);
    bool any = false;
    for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
        const ArgInfo& info = f_.argument_info[k];
        const bool given = info.source == "cotangent" ||
                           (info.kind == ArgInfo::Kind::scalar && info.names == std::vector<std::string>{"dloss"});
        depends_[f_.arguments[k].index] = given;
        any = any || given;
    }
    if (!any) return;
    all_ = Direction::both;
    for (const Op& op : f_.ops)
        if (std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return v && depends_[v.index]; }))
            for (Value v : op.results) depends_[v.index] = true;
}

KernelPlaces::Direction KernelPlaces::direction_of(Value v) const {
    if (all_ != Direction::both) return all_;
    return depends_[v.index] ? Direction::backward : Direction::forward;
}

// By what it gives: what it computes on the way may be of the other one.
KernelPlaces::Direction KernelPlaces::direction_of(int group) const {
    Direction out = Direction::none;
    for (int k : g_.members(group)) {
        const Value v = f_.ops[static_cast<std::size_t>(k)].results[0];
        if (!g_.escapes(v, group)) continue;
        const Direction one = direction_of(v);
        out = out == Direction::none || out == one ? one : Direction::both;
    }
    return out;
}

// It adds to the sum of the loss what it computes itself.
bool KernelPlaces::gives_the_loss(int group) const {
    for (int k : g_.members(group)) {
        const Op& op = f_.ops[static_cast<std::size_t>(k)];
        const auto at = std::find(f_.results.begin(), f_.results.end(), op.results[0]);
        if (at == f_.results.end()) continue;
        const auto r = static_cast<std::size_t>(at - f_.results.begin());
        if (r < f_.result_names.size() && f_.result_names[r] == "loss_sum" && g_.members(group).size() > 1) return true;
    }
    return false;
}

std::vector<std::string> KernelPlaces::modules_of_parameters(int group) const {
    std::vector<std::string> out;
    std::set<Value> read;
    std::set<std::size_t> arguments;  // of those
    std::vector<Value> todo;
    for (int k : g_.members(group))
        for (Value v : f_.ops[static_cast<std::size_t>(k)].operands) todo.push_back(v);
    while (!todo.empty()) {
        const Value v = todo.back();
        todo.pop_back();
        if (!v || !read.insert(v).second) continue;
        if (const std::optional<std::size_t> argument = argument_[v.index]) arguments.insert(*argument);
        const std::int32_t k = g_.uses().definition[v.index];
        if (k >= 0 && g_.is_transparent(k))
            for (Value operand : f_.ops[static_cast<std::size_t>(k)].operands) todo.push_back(operand);
    }
    for (std::size_t k : arguments) {
        if (k >= f_.argument_info.size()) break;
        const ArgInfo& info = f_.argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter || info.names.empty()) continue;
        const std::string& name = info.names.front();
        const std::string module =
            without_index(name.substr(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.')));
        if (module.empty()) return {};  // of the model itself, or of nobody knows what
        out.push_back(module);
    }
    return out;
}

std::string KernelPlaces::of(int group) const {
    const Direction direction = directions_[static_cast<std::size_t>(group)];
    if (direction == Direction::none) return {};
    const std::string_view suffix = direction == Direction::forward    ? "forward"
                                    : direction == Direction::backward ? "backward"
                                                                       : "forward_backward";
    std::vector<std::string> scopes;
    std::set<std::string> operators;
    const std::vector<int>& members = g_.members(group);
    for (int k : members) {
        const Provenance& from = f_.ops[static_cast<std::size_t>(k)].provenance;
        operators.insert(from.node_ops.begin(), from.node_ops.end());
        if (const std::string& module = modules_[static_cast<std::size_t>(k)]; !module.empty())
            scopes.push_back(module);
    }
    // Ops of the model around its modules are on the way from one to another. Where the export says nothing of modules,
    // parameters are in those that they are called after.
    const bool known = 2 * scopes.size() >= members.size();
    if (!known && gives_the_loss(group)) return fmt::format("loss_{}", suffix);
    if (!known) scopes = modules_of_parameters(group);
    if (scopes.empty()) return {};
    if (operators.size() < 2) return {};
    const std::vector<std::string> modules = outermost(scopes);
    if (modules.size() > 2) return {};
    std::size_t here = 0, everywhere = 0;
    for (const std::string& module : modules) {
        if (const auto at = ops_within_.find({module, direction}); at != ops_within_.end()) everywhere += at->second;
        here += static_cast<std::size_t>(std::count_if(members.begin(), members.end(), [&](int k) {
            return is_within(modules_[static_cast<std::size_t>(k)], module);
        }));
    }
    if (known && 2 * here < everywhere) return {};
    std::vector<std::string> leaves;
    for (const std::string& module : modules) {
        leaves.push_back(scope_leaf(module));
        if (leaves.back().empty()) return {};
    }
    if (leaves.size() == 2 && leaves[0] == leaves[1]) leaves.pop_back();
    if (gives_the_loss(group)) leaves.emplace_back("loss");
    return fmt::format("{}_{}", fmt::join(leaves, "_and_"), suffix);
}

}  // namespace thunderc
