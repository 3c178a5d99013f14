#include "compiler/passes/fusion/kernel_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernels/costs.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/precision/widen_kernel.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// A kernel of more would read badly, and describing it anew with each op that joins takes time that grows with the
// square of its length. Models make kernels of some 40.
constexpr std::size_t most_ops = 128;

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
    return (def.level == OpLevel::primitive && def.elementwise.has_value()) || op.name == "reduce_sum" ||
           op.name == "reduce_max" || op.name == "concat" || op.name == "pad";
}

// What a kernel costs, in bytes of memory traffic: what it moves, what it computes (half a byte's time for an operation
// of a vectorised loop), and its start on all threads.
double cost_of(const KernelDescription& kernel) {
    constexpr double bytes_per_operation = 0.5, bytes_per_start = 8192;
    double bytes = static_cast<double>(bytes_moved(kernel));
    for (const KernelNest& nest : kernel.nests) {
        for (const KernelNode& node : nest.nodes) {
            if (node.kind != KernelNode::Kind::load || nest.extents.empty()) continue;
            const Type& type = kernel.inputs[node.operand].type;
            const Affine position = linear_index(node.index, type.dims);
            // Elements that are far apart along the innermost loop bring a cache line each.
            if (!position.step.empty() && std::abs(position.step.back()) >= 16 && nest.extents.back() > 1) {
                bytes += static_cast<double>(type.bytes());
            }
        }
    }
    return bytes + bytes_per_operation * work(kernel) + bytes_per_start * static_cast<double>(kernel.nests.size());
}

}  // namespace

bool is_free(const Op& op) {
    if (op.name == "constant") return !has_dense_part(*op.attributes.constant("value"));
    return is_view(op);
}

void forget_origin(Op& op) {
    for (const char* attribute : {part_of, operand_roles, result_role}) op.attributes.erase(attribute);
    op.attributes.erase(recomputed_attribute);
}

KernelGroups::KernelGroups(const Function& function) : f_(function), uses_(function) {
    classify();
    describe_all();
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
void KernelGroups::describe_all() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {  // groups are added on the way
        if (groups_[g].ops.empty()) continue;
        describe(groups_[g]);
        if (!groups_[g].description) keep_views_apart(static_cast<int>(g));
    }
    bytes_apart_.assign(f_.ops.size(), 0);
    for (const Group& group : groups_) {
        if (group.ops.empty()) continue;
        check(group.description.has_value(),
              fmt::format("the op {} is no kernel: {}", op(group.ops.front()).name, group.why));
        bytes_apart_[static_cast<std::size_t>(group.ops.front())] = bytes_moved(*group.description);
    }
}

void KernelGroups::describe(Group& group) const {
    const int id = static_cast<int>(&group - groups_.data());
    const Extracted extracted = extract(group.ops, id);
    group.why.clear();
    group.description = try_describe_kernel(extracted.function, &group.why);
    group.operands = extracted.operands;
    group.cost = group.description ? cost_of(*group.description) : 0;
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
            if (v && is_transparent(definition(v)) && op(definition(v)).name != "constant")
                todo.push_back(definition(v));
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
    if (!groups_[static_cast<std::size_t>(g)].ops.empty()) describe(groups_[static_cast<std::size_t>(g)]);
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
        const MenuCall call = def.call(reader, f_);
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

Extracted KernelGroups::extract(const std::vector<int>& members, int group) const {
    Extracted out;
    std::map<Value, Value> moved;
    Builder builder(out.function);
    bool first = true;
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
    std::vector<std::pair<std::string, int>> composites;
    for (int k : members) {
        const std::string whole = op(k).attributes.string(part_of, "");
        auto at = std::find_if(composites.begin(), composites.end(), [&](const auto& c) { return c.first == whole; });
        if (at == composites.end()) at = composites.insert(at, {whole, 0});
        if (!whole.empty()) ++at->second;
        std::vector<Value> operands;
        for (Value operand : op(k).operands) operands.push_back(import(operand));
        moved[op(k).results[0]] = builder.clone(op(k), operands, f_).front();
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

Extracted KernelGroups::extract(int group) const {
    const Group& of = groups_[static_cast<std::size_t>(group)];
    Extracted out = extract(of.ops, group);
    std::vector<bool> read(out.operands.size(), false);
    for (const KernelNest& nest : of.description->nests) {
        for (const KernelNode& node : nest.nodes)
            if (node.kind == KernelNode::Kind::load) read[node.operand] = true;
    }
    for (std::size_t k = read.size(); k-- > 0;) {
        if (read[k]) continue;
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

// ---- merging ----

// The ops that read a result, through views that kernels take in.
void KernelGroups::collect_readers() {
    readers_.assign(f_.ops.size(), {});
    for (std::size_t k = 0; k < f_.ops.size(); ++k) {
        if (is_transparent(static_cast<int>(k))) continue;
        std::vector<int> todo{static_cast<int>(k)};
        while (!todo.empty()) {
            const int one = todo.back();
            todo.pop_back();
            for (Value v : op(one).results) {
                for (int user : uses_.users[v.index]) (is_transparent(user) ? todo : readers_[k]).push_back(user);
            }
        }
    }
}

// Whether something that depends on one of the groups is needed by one of them: they cannot be one then.
bool KernelGroups::interleaved(int a, int b) {
    ++walk_;
    seen_.resize(f_.ops.size(), 0);
    std::vector<int> todo;
    auto leave = [&](int k) {  // towards what reads op k, and where that is in a kernel, any result of the kernel
        for (int reader : readers_[static_cast<std::size_t>(k)]) {
            if (seen_[static_cast<std::size_t>(reader)] == walk_) continue;
            seen_[static_cast<std::size_t>(reader)] = walk_;
            todo.push_back(reader);
        }
    };
    for (int g : {a, b}) {
        for (int member : groups_[static_cast<std::size_t>(g)].ops) {
            for (int reader : readers_[static_cast<std::size_t>(member)]) {
                const int of = group_of_[static_cast<std::size_t>(reader)];
                if (of == a || of == b || seen_[static_cast<std::size_t>(reader)] == walk_) continue;
                seen_[static_cast<std::size_t>(reader)] = walk_;
                todo.push_back(reader);
            }
        }
    }
    while (!todo.empty()) {
        const int k = todo.back();
        todo.pop_back();
        const int g = group_of_[static_cast<std::size_t>(k)];
        if (g != none && (g == a || g == b)) return true;
        if (g == none) {
            leave(k);
        } else {
            for (int member : groups_[static_cast<std::size_t>(g)].ops) leave(member);
        }
    }
    return false;
}

bool KernelGroups::try_merge(int a, int b, double least_saving) {
    if (a == b) return false;
    Group& first = groups_[static_cast<std::size_t>(a)];
    Group& second = groups_[static_cast<std::size_t>(b)];
    // What did not fit does not fit the second time.
    auto& tried = tried_[{std::min(a, b), std::max(a, b)}];
    const std::pair<int, int> versions{groups_[static_cast<std::size_t>(std::min(a, b))].version,
                                       groups_[static_cast<std::size_t>(std::max(a, b))].version};
    if (tried.why.empty() || tried.versions != versions) {
        tried.versions = versions;
        if (first.ops.size() + second.ops.size() > most_ops) {
            tried.why = fmt::format("together they are more than {} ops", most_ops);
            return false;
        }
        tried.why = "another op stands between them";
        if (interleaved(a, b)) return false;
        Group merged;
        std::merge(first.ops.begin(), first.ops.end(), second.ops.begin(), second.ops.end(),
                   std::back_inserter(merged.ops));
        for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = a;
        const Extracted extracted = extract(merged.ops, a);
        merged.operands = extracted.operands;
        const bool few = extracted.operands.size() + extracted.results.size() <= most_kernel_tensors;
        merged.why = fmt::format("together they are of more than {} tensors", most_kernel_tensors);
        if (few) merged.description = try_describe_kernel(extracted.function, &merged.why);
        if (merged.description) {
            merged.cost = cost_of(*merged.description);
            if (merged.cost <= (first.cost + second.cost) * (1 - least_saving)) {
                merged.version = first.version + second.version + 1;
                first = std::move(merged);
                second = Group{};
                return true;
            }
            merged.why = "it would cost more in recomputation than it saves in memory traffic";
        }
        for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = b;
        tried.why = merged.why;
    }
    return false;
}

std::vector<int> KernelGroups::producers(int k) const {
    std::vector<int> ops;
    std::vector<Value> todo(op(k).operands.begin(), op(k).operands.end());
    while (!todo.empty()) {
        const Value v = todo.back();
        todo.pop_back();
        const int d = definition(v);
        if (d < 0) continue;
        if (is_transparent(d)) {
            todo.insert(todo.end(), op(d).operands.begin(), op(d).operands.end());
        } else if (group_of_[static_cast<std::size_t>(d)] != none) {
            ops.push_back(d);
        }
    }
    std::sort(ops.rbegin(), ops.rend());
    std::vector<int> groups;
    for (int d : ops) {
        const int g = group_of_[static_cast<std::size_t>(d)];
        if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
    return groups;
}

void KernelGroups::merge_producers() {
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (group_of_[k] == none) continue;
            // What is computed again belongs to who reads it, not to where its operands come from.
            const std::vector<int>& own = groups_[static_cast<std::size_t>(group_of_[k])].ops;
            if (std::all_of(own.begin(), own.end(),
                            [&](int one) { return op(one).attributes.has(recomputed_attribute); }))
                continue;
            for (int producer : producers(static_cast<int>(k))) {
                changed = try_merge(producer, group_of_[k], 0) || changed;
            }
        }
    }
}

// What all ops of a group were part of; "" where they were part of several things.
std::string KernelGroups::composite_of(int group) const {
    std::string whole;
    for (int k : groups_[static_cast<std::size_t>(group)].ops) {
        const std::string one = op(k).attributes.string(part_of, "");
        if (one.empty() && op(k).name == "cast") continue;  // between the types in which it is stored and computed
        if (one.empty() || (!whole.empty() && whole != one)) return {};
        whole = one;
    }
    return whole;
}

// Kernels that read the same tensor, and neither needs the other.
void KernelGroups::merge_siblings() {
    for (bool changed = true; changed;) {
        changed = false;
        std::map<Value, std::vector<int>> readers;
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            for (Value v : groups_[g].operands) {
                if (f_.type(v).elements() > 1) readers[v].push_back(static_cast<int>(g));
            }
        }
        for (const auto& [v, groups] : readers) {
            for (std::size_t i = 0; i < groups.size(); ++i) {
                for (std::size_t j = i + 1; j < groups.size(); ++j) {
                    if (groups_[static_cast<std::size_t>(groups[i])].ops.empty()) break;  // merged into another by now
                    if (groups_[static_cast<std::size_t>(groups[j])].ops.empty()) continue;
                    // Parts of the same composite belong together: queries and keys are rotated by one kernel.
                    const std::string whole = composite_of(groups[i]);
                    const bool same = !whole.empty() && whole == composite_of(groups[j]);
                    changed = try_merge(groups[i], groups[j], same ? 0 : 0.05) || changed;
                }
            }
        }
    }
}

std::string KernelGroups::where(int group) const {
    const std::vector<int>& ops = groups_[static_cast<std::size_t>(group)].ops;
    for (auto k = ops.rbegin(); k != ops.rend(); ++k) {
        if (!op(*k).provenance.scope.empty()) return op(*k).provenance.scope;
    }
    return f_.info(op(ops.back()).results[0]).name;
}

std::string KernelGroups::why_apart(int a, int b) const {
    const auto tried = tried_.find({std::min(a, b), std::max(a, b)});
    return tried == tried_.end() ? "another op stands between them" : tried->second.why;
}

std::int64_t KernelGroups::bytes_apart(int group) const {
    std::int64_t bytes = 0;
    for (int k : members(group)) bytes += bytes_apart_[static_cast<std::size_t>(k)];
    return bytes;
}

}  // namespace thunderc
