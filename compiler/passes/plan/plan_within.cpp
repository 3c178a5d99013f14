// SPDX-License-Identifier: Apache-2.0
// What a call writes straight into what a kernel makes of it: the gradients of queries, keys and values into the
// gradient of their product, where a rotation then turns them in place, and nothing is concatenated.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/kernels/in_place.h"
#include "compiler/passes/plan/plan_parts.h"
#include "compiler/planned/planned_kernels.h"

namespace thunderc::planning {
namespace {

// Whether a call can write its result by that layout.
bool writes_rows(const Op& op, const Function& f, Value v, const ViewLayout& layout) {
    const OpDef& def = op_def(op.name);
    if (is_kernel_call(op) || !def.call) return false;
    for (const CallField& field : def.call(op, f).fields)
        if (field.kind == CallField::Kind::result && op.results[field.index] == v)
            return !field.stride_field.empty() && row_stride(layout, f.type(v).dims, field.row_dims).has_value();
    return false;
}

// Whether somebody writes the value who can write it anywhere.
bool writes_whole(const Op& op) {
    return is_kernel_call(op) || (op_def(op.name).call && !is_loop(op) && !is_function_call(op));
}

}  // namespace

// Whether op k alone reads the value, once, and it is nobody's to place.
bool FunctionPlanner::is_handed_to(Value v, std::size_t k) const {
    if (!v || f_.info(v).placement.arena != Arena::unplaced || is_argument(v) || f_.type(v).is_family() ||
        f_.type(v).kind == Type::Kind::token)
        return false;
    const Op* writer = definition(v);
    if (writer == nullptr || is_constant_op(*writer) || is_view(*writer)) return false;
    for (const std::vector<Value>& group : adjacent_results(*writer))
        if (std::find(group.begin(), group.end(), v) != group.end()) return false;
    const std::vector<std::int32_t>& readers = uses_->users[v.index];
    if (readers.size() != 1 || static_cast<std::size_t>(readers.front()) != k) return false;
    if (std::count(f_.ops[k].operands.begin(), f_.ops[k].operands.end(), v) != 1) return false;
    return !uses_->is_result[v.index] && !holders_.contains(v);
}

// Whether the value is scratch memory of its own, which may begin to be used earlier than it is made.
bool FunctionPlanner::is_own_scratch(Value v) const {
    if (f_.info(v).placement.arena != Arena::unplaced) return false;
    return std::none_of(carried_scratch_.begin(), carried_scratch_.end(),
                        [&](const CarriedScratch& c) { return c.in == v || c.out == v; });
}

// Whether it is kept for the backward pass, in a place that nobody else writes to in this function.
bool FunctionPlanner::is_kept(Value v) const {
    if (entry_) return false;
    const auto at = std::find(f_.results.begin(), f_.results.end(), v);
    return at != f_.results.end() && static_cast<std::size_t>(at - f_.results.begin()) >= carried_ &&
           std::count(f_.results.begin(), f_.results.end(), v) == 1 && !taken_.contains(v);
}

void FunctionPlanner::place_within() {
    for (const ValueInfo& info : f_.values)
        if (info.placement.view_of) holders_.insert(info.placement.view_of);
    for (std::size_t k = 0; k < f_.ops.size(); ++k) {
        const Op& op = f_.ops[k];
        if (!is_kernel_call(op)) continue;
        const bool candidate =
            std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return v && is_handed_to(v, k); });
        if (!candidate) continue;
        const KernelDescription description = describe_kernel(*module_.find(called_kernel(op)));
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            const Value out = op.results[r];
            if (f_.type(out).kind == Type::Kind::token || f_.type(out).is_family()) continue;
            if (is_own_scratch(out))
                place_pieces(op, k, r, description);
            else if (is_kept(out))
                place_before(op, k, r, description);
        }
    }
}

// Kernels of which nothing is left, when all places are known.
void FunctionPlanner::mark_standing() {
    for (Op& op : f_.ops) {
        if (!is_kernel_call(op)) continue;
        const auto within = operands_within_results(f_, op);
        if (std::none_of(within.begin(), within.end(), [](const auto& w) { return w.has_value(); })) continue;
        if (stands_already(describe_planned_kernel(*module_.find(called_kernel(op)), f_, op)))
            op.attributes.set("stands", true);
    }
}

// Operands that lie in result r, each in its own part: all of one call of which the kernel only hands one on.
void FunctionPlanner::place_pieces(const Op& op, std::size_t k, std::size_t r, const KernelDescription& kernel) {
    std::set<const Op*> writers;
    for (std::size_t o = 0; o < op.operands.size(); ++o)
        if (is_handed_to(op.operands[o], k) && hands_on(kernel, o, r)) writers.insert(definition(op.operands[o]));
    std::vector<StridedRows> taken;
    for (std::size_t o = 0; o < op.operands.size(); ++o) {
        const Value v = op.operands[o];
        if (!is_handed_to(v, k) || !writers.contains(definition(v))) continue;
        const std::optional<ViewLayout> layout = thunderc::place_within(kernel, o, r);
        if (!layout) continue;
        // All of the result, in its order, anybody can write; a part, or another order, who is told of strides.
        const bool whole = layout->offset == 0 && is_dense(*layout, f_.type(v).dims);
        if (whole ? !writes_whole(*definition(v)) : !writes_rows(*definition(v), f_, v, *layout)) continue;
        const StridedRows rows = strided_rows(*layout, f_.type(v).dims);
        if (std::any_of(taken.begin(), taken.end(), [&](const StridedRows& other) { return !apart(rows, other); }))
            continue;
        taken.push_back(rows);
        const auto size = static_cast<std::int64_t>(size_of(f_.type(v).dtype));
        view_offset_[v] = layout->offset * size;
        holders_.insert(op.results[r]);
        at(v) = {Arena::scratch, layout->offset * size, 0, {}, op.results[r]};  // completed when its owner is placed
        if (!is_dense(*layout, f_.type(v).dims)) at(v).strides = layout->strides;
    }
}

// One operand that result r is written over: it is written to the result's place.
void FunctionPlanner::place_before(const Op& op, std::size_t k, std::size_t r, const KernelDescription& kernel) {
    const std::vector<std::pair<std::size_t, std::size_t>> pairs = in_place_pairs(kernel);
    // A sum that goes on from an argument takes that one's place, which is not free before.
    for (const auto& [result, o] : pairs)
        if (result == r && op.operands[o] && is_argument(op.operands[o])) return;
    for (const auto& [result, o] : pairs) {
        const Value v = op.operands[o];
        if (result != r || !is_handed_to(v, k) || !writes_whole(*definition(v))) continue;
        at(v) = at(op.results[r]);
        at(v).view_of = op.results[r];
        at(v).offset = 0;
        holders_.insert(op.results[r]);
        return;
    }
}

}  // namespace thunderc::planning
