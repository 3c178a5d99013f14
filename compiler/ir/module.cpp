// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace thunderc {
namespace {

constexpr std::array<std::pair<Placement::Arena, std::string_view>, 15> arena_names = {
    {{Placement::Arena::unplaced, "unplaced"},
     {Placement::Arena::parameters, "parameters"},
     {Placement::Arena::gradients, "gradients"},
     {Placement::Arena::optimizer, "optimizer"},
     {Placement::Arena::saved, "saved"},
     {Placement::Arena::scratch, "scratch"},
     {Placement::Arena::constants, "constants"},
     {Placement::Arena::batch, "batch"},
     {Placement::Arena::results, "results"},
     {Placement::Arena::scalars, "scalars"},
     {Placement::Arena::caller, "caller"},
     {Placement::Arena::narrow_copies, "narrow_copies"},
     {Placement::Arena::gathered, "gathered"},
     {Placement::Arena::unit_gradients, "unit_gradients"},
     {Placement::Arena::scaling, "scaling"}}};

std::string common_scope(const std::string& a, const std::string& b) {
    std::size_t end = 0;  // of the last whole segment that both have
    for (std::size_t k = 0;; ++k) {
        bool end_a = k == a.size() || a[k] == '.';
        bool end_b = k == b.size() || b[k] == '.';
        if (end_a && end_b) end = k;
        if (k == a.size() || k == b.size() || a[k] != b[k]) break;
    }
    return a.substr(0, end);
}

struct SplitName {  // text with one number cut out
    std::string before, after;
    std::int64_t number = 0;
};

// All ways of seeing a name as before + number + after.
std::vector<SplitName> splits(const std::string& name) {
    std::vector<SplitName> out;
    for (std::size_t k = 0; k < name.size();) {
        if (std::isdigit(static_cast<unsigned char>(name[k])) == 0) {
            ++k;
            continue;
        }
        std::size_t end = k;
        while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
        if (end - k <= 9) out.push_back({name.substr(0, k), name.substr(end), std::stoll(name.substr(k, end - k))});
        k = end;
    }
    return out;
}

}  // namespace

Provenance merge(const Provenance& a, const Provenance& b) {
    Provenance out;
    out.scope = a.nodes.empty() && a.scope.empty()   ? b.scope
                : b.nodes.empty() && b.scope.empty() ? a.scope
                                                     : common_scope(a.scope, b.scope);
    out.module_class = out.scope == a.scope ? a.module_class : out.scope == b.scope ? b.module_class : "";
    out.nodes = a.nodes;
    out.node_ops = a.node_ops;
    for (std::size_t k = 0; k < b.nodes.size(); ++k) {
        if (std::find(out.nodes.begin(), out.nodes.end(), b.nodes[k]) != out.nodes.end()) continue;
        out.nodes.push_back(b.nodes[k]);
        out.node_ops.push_back(b.node_ops[k]);
    }
    out.reads = a.reads;
    for (const std::string& name : b.reads)
        if (std::find(out.reads.begin(), out.reads.end(), name) == out.reads.end()) out.reads.push_back(name);
    return out;
}

std::string_view name_of(Placement::Arena arena) {
    return arena_names.at(static_cast<std::size_t>(arena)).second;
}

std::optional<Placement::Arena> parse_arena(std::string_view name) {
    for (const auto& [arena, text] : arena_names)
        if (text == name) return arena;
    return std::nullopt;
}

std::string_view name_of(ArgInfo::Init init) {
    constexpr std::string_view names[] = {"normal", "zeros", "ones", "uniform"};
    return names[static_cast<std::size_t>(init)];
}

std::string state_name(std::string_view prefix, std::string_view parameter) {
    return fmt::format("{}.{}", prefix, parameter);
}

bool is_state(const ArgInfo& info, std::string_view prefix) {
    if (info.kind != ArgInfo::Kind::state || info.names.empty()) return false;
    const std::string& name = info.names.front();
    return name.starts_with(prefix) && name.substr(prefix.size()).starts_with('.');
}

std::string parameter_of_state(const ArgInfo& info) {
    const std::string& name = info.names.front();
    return name.substr(name.find('.') + 1);
}

std::string name_pattern(const std::vector<std::string>& names) {
    if (names.empty()) return "";
    if (names.size() == 1) return names[0];
    for (const SplitName& first : splits(names[0])) {
        std::int64_t step = 0;
        bool fits = true;
        for (std::size_t k = 1; k < names.size() && fits; ++k) {
            fits = false;
            for (const SplitName& other : splits(names[k])) {
                if (other.before != first.before || other.after != first.after) continue;
                if (k == 1) step = other.number - first.number;
                fits = step > 0 && other.number == first.number + static_cast<std::int64_t>(k) * step;
            }
        }
        if (!fits) continue;
        std::int64_t last = first.number + static_cast<std::int64_t>(names.size() - 1) * step;
        return step == 1 ? fmt::format("{}{{{}..{}}}{}", first.before, first.number, last, first.after)
                         : fmt::format("{}{{{}..{}:{}}}{}", first.before, first.number, last, step, first.after);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

ArgInfo::Ids ArgInfo::ids_at(const Type& type, std::int64_t element) const {
    if (columns.empty()) return {entries, ignore_index};
    const auto axis = static_cast<std::size_t>(column_axis);
    for (std::size_t d = type.dims.size(); d-- > axis + 1;) element /= type.dims[d];
    element %= type.dims[axis];
    return std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return element < c.end; })->ids;
}

std::int64_t ArgInfo::least_entries() const {
    std::int64_t least = entries;
    for (const Column& c : columns)
        if (c.ids.entries >= 0 && (least < 0 || c.ids.entries < least)) least = c.ids.entries;
    return least;
}

Value Function::add_value(Type type, std::string value_name) {
    values.push_back({std::move(type), std::move(value_name), {}});
    return {static_cast<std::uint32_t>(values.size() - 1)};
}

Value Function::add_argument(Type type, std::string value_name, ArgInfo info) {
    Value v = add_value(std::move(type), std::move(value_name));
    arguments.push_back(v);
    argument_info.resize(arguments.size());
    argument_info.back() = std::move(info);
    return v;
}

const Function* Module::find(std::string_view function_name) const {
    for (const Function& f : functions)
        if (f.name == function_name) return &f;
    return nullptr;
}

Function* Module::find(std::string_view function_name) {
    return const_cast<Function*>(std::as_const(*this).find(function_name));
}

std::string Module::unique_function_name(const std::string& wanted) const {
    std::string unique = wanted;
    for (int k = 1; find(unique) != nullptr; ++k) unique = fmt::format("{}_{}", wanted, k);
    return unique;
}

Uses::Uses(const Function& function)
    : definition(function.values.size(), -1), users(function.values.size()), is_result(function.values.size(), false) {
    for (std::size_t k = 0; k < function.ops.size(); ++k) {
        const Op& op = function.ops[k];
        auto index = static_cast<std::int32_t>(k);
        for (Value v : op.results) definition[v.index] = index;
        for (Value v : op.operands)
            if (v && (users[v.index].empty() || users[v.index].back() != index)) users[v.index].push_back(index);
    }
    for (Value v : function.results)
        if (v) is_result[v.index] = true;
}

void Uses::remove(const Op& op, std::int32_t index) {
    for (Value v : op.results)
        if (definition[v.index] == index) definition[v.index] = -1;
    for (Value v : op.operands)
        if (v) std::erase(users[v.index], index);
}

void Uses::add(const Op& op, std::int32_t index) {
    for (Value v : op.results) definition[v.index] = index;
    for (Value v : op.operands) {
        if (!v) continue;
        std::vector<std::int32_t>& of = users[v.index];
        const auto at = std::lower_bound(of.begin(), of.end(), index);
        if (at == of.end() || *at != index) of.insert(at, index);
    }
}

void Uses::make_room(std::int32_t index, std::int32_t count, std::size_t values) {
    definition.resize(values, -1);
    users.resize(values);
    is_result.resize(values, false);
    for (std::int32_t& k : definition)
        if (k >= index) k += count;
    for (std::vector<std::int32_t>& of : users)
        for (std::int32_t& k : of)
            if (k >= index) k += count;
}

std::int64_t Mesh::ranks(std::string_view group) const {
    return group == "world" ? world() : group == "shard" ? shards : group == "replica" ? replicas : 0;
}

}  // namespace thunderc
