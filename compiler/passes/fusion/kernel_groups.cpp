// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/kernel_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/kernels/costs.h"
#include "compiler/kernels/evaluation.h"
#include "compiler/kernels/ties.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/precision/widen_kernel.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

bool has_dense_part(const ConstExpr& expr) {
    if (expr.kind == ConstExpr::Kind::dense) return !splat_value(expr);
    return std::any_of(expr.operands.begin(), expr.operands.end(),
                       [](const ConstPtr& operand) { return has_dense_part(*operand); });
}

// What kernels are made of.
bool is_work(const Op& op, const Function& function) {
    const OpDef& def = op_def(op.name);
    if (op.results.size() != 1 || !function.type(op.results[0]).is_tensor()) return false;
    for (Value v : op.operands) {
        if (!v || !function.type(v).is_tensor()) return false;
    }
    if (function.type(op.results[0]).elements() == 0) return false;
    // What is moved to places that indices name has a call of its own.
    const bool moves = def.moves && !def.view && !def.lookup;
    return def.level == OpLevel::primitive && (def.elementwise || !reduction_of(def).empty() || moves);
}

}  // namespace

bool is_free(const Op& op) {
    if (is_constant_op(op)) return !has_dense_part(*op.attributes.constant("value"));
    return is_view(op);
}

void forget_origin(Op& op) {
    for (const char* attribute : {part_of, operand_roles, result_role}) op.attributes.erase(attribute);
    op.attributes.erase(recomputed_attribute);
}

KernelGroups::KernelGroups(const Function& function, KernelFacts& facts)
    : f_(function),
      uses_(function),
      facts_(facts),
      seen_(function.values.size(), 0),
      number_(function.values.size(), 0),
      kinds_(function.ops.size()) {
    find_compared();
    classify();
    check_each();
}

// A body's results may be what its backward pass compares.
void KernelGroups::find_compared() {
    compared_.assign(f_.values.size(), false);
    const auto mark = [&](Value v) {
        for (;;) {
            compared_[v.index] = true;
            const int k = definition(v);
            if (k < 0 || !(is_view(op(k)) || op(k).name == "cast")) return;
            v = op(k).operands[0];
        }
    };
    for (const Op& one : f_.ops)
        if (finds_ties(f_, uses_, one))
            for (Value v : one.operands) mark(v);
    if (f_.argument_info.empty())
        for (Value v : f_.results) mark(v);
}

void KernelGroups::merge_all() {
    collect_readers();
    merge_producers();
    merge_siblings();
}

// ---- what is a kernel's work, what is a view, what belongs to others ----

void KernelGroups::classify() {
    group_of_.assign(f_.ops.size(), none);
    apart_.assign(f_.ops.size(), false);
    widens_.assign(f_.ops.size(), false);
    for (std::size_t k = 0; k < f_.ops.size(); ++k)
        widens_[k] = is_widening(f_, f_.ops[k]) && read_by_kernels_alone(f_.ops[k].results[0]);
    for (std::size_t k = 0; k < f_.ops.size(); ++k) {
        const bool work = is_work(f_.ops[k], f_) && !is_free(f_.ops[k]) && !widens_[k];
        if (work || must_copy(static_cast<int>(k))) {
            begin_group(static_cast<int>(k));
        }
    }
}

// Through views as well: nobody needs the value in memory.
bool KernelGroups::read_by_kernels_alone(Value v) const {
    if (uses_.is_result[v.index]) return false;
    return std::all_of(uses_.users[v.index].begin(), uses_.users[v.index].end(), [&](std::int32_t user) {
        const Op& reader = op(user);
        return is_work(reader, f_) || (is_view(reader) && read_by_kernels_alone(reader.results[0]));
    });
}

void KernelGroups::begin_group(int k) {
    group_of_[static_cast<std::size_t>(k)] = static_cast<int>(groups_.size());
    groups_.emplace_back();
    groups_.back().ops = {k};
}

// Each op is a kernel by itself, if need be with some of its views in memory.
void KernelGroups::check_each() {
    bytes_apart_.assign(f_.ops.size(), 0);
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {  // groups are added on the way
        if (!at(g).ops.empty() && !begin_with_one(g)) keep_views_apart(g);
    }
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
        const std::vector<int>& ops = at(g).ops;
        if (ops.empty() || at(g).cost) continue;
        throw InternalError(
            fmt::format("the op {} is no kernel: {}", op(ops.front()).name, fact_of(ops, g, outline(ops, g)).why));
    }
}

// False: it is no kernel.
bool KernelGroups::begin_with_one(int g) {
    Group& group = at(g);
    const int k = group.ops.front();
    const KernelOutline kernel = outline(group.ops, g);
    const KernelFact& fact = fact_of(group.ops, g, kernel);
    group.operands = kernel.operands;
    if (!fact.why.empty()) return false;
    group.cost = group.most = fact.cost;
    group.plain = fact.plain;
    group.values = fact.values;
    group.composite = composite_of(k);
    bytes_apart_[static_cast<std::size_t>(k)] = fact.bytes;
    return true;
}

void KernelGroups::describe_all() {
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
        if (at(g).ops.empty()) continue;
        const KernelOutline kernel = outline(at(g).ops, g);
        const KernelFact& fact = fact_of(at(g).ops, g, kernel);
        check(fact.why.empty(), [&] { return "a kernel has no description: " + fact.why; });
        at(g).operands = kernel.operands;
        at(g).bytes = fact.bytes;
        at(g).read = fact.read;
    }
}

const KernelFact& KernelGroups::fact_of(const std::vector<int>& ops, int group, const KernelOutline& kernel) {
    if (const KernelFact* known = facts_.find(kernel)) return *known;
    KernelFact fact;
    const Extracted extracted = extract(ops, group);
    const Function& function = extracted.function;
    Mask compared;
    for (Value v : extracted.results) compared.push_back(compared_[v.index]);
    fact.why = loses_ties(function, compared);
    const auto description = fact.why.empty() ? try_describe_kernel(function, &fact.why) : std::nullopt;
    if (description) {
        fact.why.clear();
        fact.cost = cost_of(*description);
        fact.bytes = bytes_moved(*description);
        fact.plain = ops.size() == 1 && is_plain(ops.front(), *description);
        fact.read.assign(extracted.operands.size(), false);
        for (const KernelNest& nest : description->nests) {
            fact.values += nest.nodes.size();
            for (const KernelNode& node : nest.nodes)
                if (node.kind == KernelNode::Kind::load) fact.read[node.operand] = true;
        }
    }
    return facts_.add(kernel, std::move(fact));
}

bool KernelGroups::is_plain(int k, const KernelDescription& kernel) const {
    if (!op_def(op(k).name).elementwise || kernel.nests.size() != 1) return false;
    Dims dims = f_.type(op(k).results[0]).dims;
    std::erase(dims, 1);
    return kernel.nests.front().extents == dims;
}

double KernelGroups::cost(int group) {
    if (!at(group).cost) at(group).cost = fact_of(at(group).ops, group, outline(at(group).ops, group)).cost;
    return *at(group).cost;
}

// For a kernel that reads a reshape which is not affine in its index space: the reshape stays outside of the
// kernel, where it is the same memory seen with other dimensions. What it reads has to be dense for that.
void KernelGroups::keep_views_apart(int g) {
    std::set<int> views;
    std::vector<int> todo = groups_[static_cast<std::size_t>(g)].ops;
    while (!todo.empty()) {
        const int k = todo.back();
        todo.pop_back();
        if (op(k).name == "reshape") views.insert(k);
        for (Value v : op(k).operands) {
            if (v && is_transparent(definition(v)) && !is_constant_op(op(definition(v)))) todo.push_back(definition(v));
        }
    }
    for (int k : views) {  // in order: what a later one reads has its layout by then
        const Value from = op(k).operands[0];
        const auto layout = layout_of(from);
        const bool widened =
            definition(from) >= 0 && is_transparent(definition(from)) && !is_view(op(definition(from)));
        if (!layout || !is_dense(*layout, f_.type(from).dims) || widened) {
            const int view = definition(from);
            begin_group(view);
        }
        apart_[static_cast<std::size_t>(k)] = true;
        const int own = group_of_[static_cast<std::size_t>(k)];
        if (own != none) groups_[static_cast<std::size_t>(own)].ops.clear();  // no copy is needed any more
        group_of_[static_cast<std::size_t>(k)] = none;
    }
    if (!at(g).ops.empty()) begin_with_one(g);
}

bool KernelGroups::is_transparent(int k) const {
    const auto index = static_cast<std::size_t>(k);
    return k >= 0 && group_of_[index] == none && !apart_[index] && (is_free(op(k)) || widens_[index]);
}

// The memory that a view reads, and how; none where it needs a copy somewhere on the way.
std::optional<ViewLayout> KernelGroups::layout_of(Value v) const {
    const int k = definition(v);
    if (k < 0 || !is_view(op(k)) || group_of_[static_cast<std::size_t>(k)] != none)
        return dense_layout(f_.type(v).dims);
    auto operand = layout_of(op(k).operands[0]);
    if (!operand) return std::nullopt;
    return view_layout(f_, op(k), *operand);
}

// Whether a view has to become memory of its own: somebody else than a kernel reads it, and cannot follow its
// strides.
bool KernelGroups::must_copy(int k) const {
    if (!is_view(op(k)) || !f_.type(op(k).results[0]).is_tensor() || f_.type(op(k).results[0]).elements() == 0)
        return false;
    const Value v = op(k).results[0];
    const auto layout = layout_of(v);
    const Dims& dims = f_.type(v).dims;
    if (layout && is_dense(*layout, dims)) return false;
    if (uses_.is_result[v.index]) return true;
    for (int user : uses_.users[v.index]) {
        const Op& reader = op(user);
        if (is_free(reader) || is_work(reader, f_)) continue;
        const OpDef& def = op_def(reader.name);
        if (!layout || !def.call) return true;
        const RuntimeCall call = def.call(reader, f_);
        for (std::size_t o = 0; o < reader.operands.size(); ++o) {
            if (reader.operands[o] != v) continue;
            const bool strided = std::any_of(call.fields.begin(), call.fields.end(), [&](const CallField& field) {
                return field.kind == CallField::Kind::operand && field.index == o && !field.stride_field.empty() &&
                       row_stride(*layout, dims, field.row_dims).has_value();
            });
            if (!strided) return true;
        }
    }
    return false;
}

bool KernelGroups::escapes(Value v, int group) const {
    if (uses_.is_result[v.index]) return true;
    for (int user : uses_.users[v.index]) {
        const int of = group_of_[static_cast<std::size_t>(user)];
        if (of == group && of != none) continue;
        if (!is_transparent(user)) return true;
        for (Value result : op(user).results) {
            if (escapes(result, group)) return true;
        }
    }
    return false;
}

std::uint32_t KernelGroups::kind_of(int k) {
    std::optional<std::uint32_t>& kind = kinds_[static_cast<std::size_t>(k)];
    if (!kind) kind = facts_.kind_of(f_, op(k));
    return *kind;
}

KernelOutline KernelGroups::outline(const std::vector<int>& members, int group) {
    KernelOutline out;
    ++walk_;
    std::uint32_t numbers = 0;
    auto number = [&](Value v) {
        seen_[v.index] = walk_;
        number_[v.index] = numbers++;
    };
    auto note = [&](int k) {
        out.text.push_back(kind_of(k));
        for (Value operand : op(k).operands) out.text.push_back(number_[operand.index]);
        number(op(k).results[0]);
    };
    auto import = [&](auto& self, Value v) -> void {
        if (seen_[v.index] == walk_) return;
        const int k = definition(v);
        if (!is_transparent(k)) {
            out.operands.push_back(v);
            number(v);
            return;
        }
        for (Value operand : op(k).operands) self(self, operand);
        note(k);
    };
    for (int k : members) {
        for (Value operand : op(k).operands) import(import, operand);
        note(k);
    }
    out.text.push_back(Value::none_index);
    for (int k : members) {
        const Value v = op(k).results[0];
        if (!escapes(v, group)) continue;
        out.results.push_back(v);
        out.text.push_back(2 * number_[v.index] + (compared_[v.index] ? 1 : 0));
    }
    return out;
}

Extracted KernelGroups::extract(const std::vector<int>& members, int group) const {
    Extracted out;
    std::map<Value, Value> moved;
    Builder builder(out.function);
    std::function<Value(Value)> import = [&](Value v) {
        if (auto at = moved.find(v); at != moved.end()) return at->second;
        const int k = definition(v);
        Value here;
        if (is_transparent(k)) {
            std::vector<Value> operands;
            for (Value operand : op(k).operands) operands.push_back(import(operand));
            here = builder.clone(op(k), operands, f_).front();
        } else {
            here = out.function.add_argument(f_.type(v), f_.info(v).name);
            out.operands.push_back(v);
        }
        moved[v] = here;
        return here;
    };
    for (int k : members) {
        std::vector<Value> operands;
        for (Value operand : op(k).operands) operands.push_back(import(operand));
        moved[op(k).results[0]] = builder.clone(op(k), operands, f_).front();
    }
    for (int k : members) {
        const Value v = op(k).results[0];
        if (!escapes(v, group)) continue;
        out.function.results.push_back(moved[v]);
        out.results.push_back(v);
    }
    out.function = widen_kernel(std::move(out.function));
    out.function.argument_info.clear();
    return out;
}

void KernelGroups::say_where_from(Extracted& out, const std::vector<int>& members) const {
    std::vector<std::pair<std::string, int>> composites;
    bool first = true;
    for (int k : members) {
        const std::string whole = op(k).attributes.string(part_of, "");
        auto at = std::find_if(composites.begin(), composites.end(), [&](const auto& c) { return c.first == whole; });
        if (at == composites.end()) at = composites.insert(at, {whole, 0});
        if (!whole.empty()) ++at->second;
        out.provenance = first ? op(k).provenance : merge(out.provenance, op(k).provenance);
        first = false;
    }
    const auto most = std::max_element(composites.begin(), composites.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const bool mostly = most != composites.end() && 2 * most->second >= static_cast<int>(members.size());
    if (mostly && most->first != "accumulate_gradient") out.composite = most->first;
    if (!out.composite.empty()) {
        // The place is the composite's: what else is done on the way, a sum of the residual stream, stands further out.
        // Of that only sums are operators of the graph: the rest is how a gradient is laid out for the products that
        // read it, and comes from those.
        Provenance own, computed;
        for (int k : members) {
            const bool of_composite = op(k).attributes.string(part_of, "") == out.composite;
            const bool sum = op(k).name == "add" && op(k).provenance.node_ops == std::vector<std::string>{"Add"};
            if (of_composite) own = merge(own, op(k).provenance);
            if (of_composite || sum) computed = merge(computed, op(k).provenance);
        }
        out.provenance = std::move(computed);
        out.provenance.scope = own.scope;
        out.provenance.module_class = own.module_class;
    }
}

Extracted KernelGroups::extract(int group) const {
    const Group& of = groups_[static_cast<std::size_t>(group)];
    Extracted out = extract(of.ops, group);
    say_where_from(out, of.ops);
    for (std::size_t k = of.read.size(); k-- > 0;) {
        if (of.read[k]) continue;
        Op zeros;
        zeros.name = "constant";
        zeros.results = {out.function.arguments[k]};
        zeros.attributes.set("value", ConstExpr::splat(out.function.type(zeros.results[0]), 0));
        out.function.ops.insert(out.function.ops.begin(), std::move(zeros));
        out.function.arguments.erase(out.function.arguments.begin() + static_cast<std::ptrdiff_t>(k));
        out.operands.erase(out.operands.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return out;
}

std::vector<Value> KernelGroups::operands_read(int group) const {
    const Group& of = groups_[static_cast<std::size_t>(group)];
    std::vector<Value> out;
    for (std::size_t k = 0; k < of.operands.size(); ++k)
        if (of.read[k]) out.push_back(of.operands[k]);
    return out;
}

}  // namespace thunderc
