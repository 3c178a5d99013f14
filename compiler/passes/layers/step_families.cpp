// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/step_families.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

const Op* definition(const Function& f, const Uses& uses, Value v) {
    const std::int32_t k = uses.definition[v.index];
    return k < 0 ? nullptr : &f.ops[static_cast<std::size_t>(k)];
}

// Dimension `from` of `rank` becomes dimension `to`; the others keep their order.
Dims moved_axis(std::size_t rank, std::size_t from, std::size_t to) {
    Dims permutation(rank);
    std::iota(permutation.begin(), permutation.end(), 0);
    permutation.erase(permutation.begin() + static_cast<std::ptrdiff_t>(from));
    permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
    return permutation;
}

using LastMembers = std::map<Value, FamilyMember>;

// The family of which a value is a member, perhaps seen with other dimensions.
std::optional<FamilyMember> member_of(const Function& f, const Uses& uses, const LastMembers& carried, Value v) {
    const Op* op = definition(f, uses, v);
    for (; op != nullptr && op->name == "reshape"; op = definition(f, uses, v)) v = op->operands[0];
    if (const auto at = carried.find(v); at != carried.end()) return at->second;
    if (op == nullptr || !is_member_op(*op)) return std::nullopt;
    return FamilyMember{op->operands[0], op->attributes.integer("index")};
}

// The family whose members, all of them and in order, the op puts side by side; none where it does not.
Value family_of_concat(const Function& f, const Uses& uses, const LastMembers& carried, const Op& op) {
    if (op.name != "concat" || op.operands.size() < 2) return {};
    Value family;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const std::optional<FamilyMember> member = member_of(f, uses, carried, op.operands[k]);
        if (!member || f.type(op.operands[k]) != f.type(op.operands[0])) return {};
        if (k == 0) family = member->family;
        if (*member != FamilyMember{family, static_cast<std::int64_t>(k)}) return {};
    }
    const Op* loop = definition(f, uses, family);
    const bool whole = f.type(family).count == static_cast<std::int64_t>(op.operands.size());
    return whole && loop != nullptr && is_loop(*loop) ? family : Value{};
}

}  // namespace

std::optional<Steps> steps_of(const Function& f, const Uses& uses, const std::vector<Value>& values) {
    Steps out;
    std::vector<SliceRange> ranges;
    for (Value v : values) {
        const Op* op = definition(f, uses, v);
        while (op != nullptr && op->name == "reshape") op = definition(f, uses, op->operands[0]);
        const std::optional<SliceRange> range = op == nullptr ? std::nullopt : slice_range(f, *op);
        if (!range || range->step != 1) return std::nullopt;
        if (ranges.empty()) out.whole = op->operands[0];
        if (op->operands[0] != out.whole) return std::nullopt;
        ranges.push_back(*range);
    }
    if (ranges.size() < 2) return std::nullopt;
    out.dims = f.type(values[0]).dims;
    out.width = ranges[0].end - ranges[0].begin;
    out.backwards = ranges[1].begin < ranges[0].begin;
    if (out.backwards) std::reverse(ranges.begin(), ranges.end());
    for (std::size_t k = 0; k < ranges.size(); ++k) {
        const std::int64_t begin = ranges[0].begin + static_cast<std::int64_t>(k) * out.width;
        if (ranges[k] != SliceRange{ranges[0].axis, begin, begin + out.width, 1}) return std::nullopt;
    }
    out.range = {ranges[0].axis, ranges[0].begin, ranges.back().end, 1};
    return out;
}

Value family_of_steps(Builder& b, const Steps& steps) {
    const auto axis = static_cast<std::int64_t>(steps.range.axis);
    Value v = steps.whole;
    if (steps.range.end - steps.range.begin != b.type(v).dims[steps.range.axis])
        v = b.slice(v, axis, steps.range.begin, steps.range.end);
    const std::int64_t count = (steps.range.end - steps.range.begin) / steps.width;
    Dims dims = b.type(v).dims;
    if (axis != 0) {
        dims[steps.range.axis] = steps.width;
        dims.insert(dims.begin() + axis, count);
        v = b.transpose(b.reshape(v, dims), moved_axis(dims.size(), steps.range.axis, 0));
    }
    dims = steps.dims;
    dims.insert(dims.begin(), count);
    v = b.reshape(v, dims);
    return b.op("unstack", {v}, {}, b.function().info(steps.whole).name);
}

void stack_members(Function& f, const LastMembers& carried) {
    const Uses uses(f);
    std::vector<Value> families;
    for (const Op& op : f.ops) families.push_back(family_of_concat(f, uses, carried, op));
    if (std::none_of(families.begin(), families.end(), [](Value v) { return static_cast<bool>(v); })) return;
    Rewriter rewriter(f);
    Builder& b = rewriter.builder();
    for (std::size_t k = 0; k < families.size(); ++k) {
        const Op& op = rewriter.old_ops()[k];
        const Value family = families[k];
        if (!family) {
            rewriter.keep(op);
            continue;
        }
        b.set_provenance(op.provenance);
        const std::size_t axis =
            static_cast<std::size_t>(*normalize_axis(op.attributes.integer("axis"), f.type(op.results[0]).rank()));
        Dims dims = f.type(op.operands[0]).dims;
        dims.insert(dims.begin(), f.type(family).count);
        Value v = b.reshape(b.op("stack", {rewriter.now(family)}, {}, f.info(family).name), dims);
        v = b.transpose(v, moved_axis(dims.size(), 0, axis));
        v = b.reshape(v, f.type(op.results[0]).dims);
        f.info(v).name = f.info(op.results[0]).name;
        rewriter.replace(op, std::vector<Value>{v});
    }
    rewriter.finish();
    remove_dead_code(f);
}

}  // namespace thunderc
