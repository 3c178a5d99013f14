// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "compiler/analysis/views.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/plan/plan_parts.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/lazy_check.h"

namespace thunderc::planning {

// ---- copies: where a value has to be in a place of its own and its op cannot write it there ----

bool FunctionPlanner::is_argument(Value v) const {
    return std::find(f_.arguments.begin(), f_.arguments.end(), v) != f_.arguments.end();
}

// The loops (or calls) of this function's callers are not known here; a body may give a carried argument back only
// as a collected value (then the caller lets the chain of slots be that family).
bool FunctionPlanner::chained(std::size_t result) const {
    if (entry_) return false;
    for (std::size_t k = 0; k < f_.arguments.size(); ++k)
        if (f_.arguments[k] == f_.results[result]) return carried_ > k && result >= carried_;
    return false;
}

Value FunctionPlanner::copy_at_end(Value v) {
    Op op;
    op.name = "copy";
    op.operands = {v};
    Value result = f_.add_value(f_.type(v), f_.info(v).name);
    op.results = {result};
    f_.ops.push_back(std::move(op));
    return result;
}

void FunctionPlanner::add_copies() {
    for (const Function& caller : module_.functions)
        for (const Op& op : caller.ops)
            if (is_loop_over(op, f_.name) && !loop_reversed(op)) carried_ = loop_carried(op);
    // What a call writes as one tensor cannot go to places of the function's results and to others as well.
    std::set<Value> torn;
    const auto is_result = [&](Value v) {
        return std::find(f_.results.begin(), f_.results.end(), v) != f_.results.end();
    };
    for (const Op& op : f_.ops)
        for (const std::vector<Value>& group : adjacent_results(op))
            if (!std::all_of(group.begin(), group.end(), is_result)) torn.insert(group.begin(), group.end());
    std::set<Value> given;
    const Uses uses(f_);
    for (std::size_t r = 0; r < f_.results.size(); ++r) {
        Value v = f_.results[r];
        // Copies that were made come behind all others.
        const std::int32_t at = uses.definition[v.index];
        const Op* def = at < 0 ? nullptr : &f_.ops[static_cast<std::size_t>(at)];
        const bool view = def != nullptr && (is_view(*def) || is_constant_op(*def) || is_member_op(*def));
        const bool again = !given.insert(v).second;
        if (chained(r) && !again) continue;
        if (def == nullptr || again || torn.contains(v) || (view && !take_place_of_viewed(v)))
            f_.results[r] = copy_at_end(v);
    }
}

// A result that is a dense view of a whole value: that value is written to the result's place, and nothing is
// copied.
bool FunctionPlanner::take_place_of_viewed(Value v) {
    Value owner = v;
    for (bool found = true; found;) {
        found = false;
        for (const Op& op : f_.ops) {
            if (op.results.front() != owner || !is_view(op)) continue;
            const Type& from = f_.type(op.operands[0]);
            const std::optional<ViewLayout> layout = view_layout(f_, op, dense_layout(from.dims));
            if (!layout || layout->offset != 0 || from.elements() != f_.type(owner).elements() ||
                !is_dense(*layout, f_.type(owner).dims))
                return false;
            owner = op.operands[0];
            found = true;
            break;
        }
    }
    if (is_argument(owner) || taken_.contains(owner)) return false;
    for (Value r : f_.results)
        if (r == owner) return false;
    for (const Op& op : f_.ops)
        if (std::find(op.results.begin(), op.results.end(), owner) != op.results.end() &&
            (is_constant_op(op) || is_member_op(op) || is_loop(op)))
            return false;
    taken_[owner] = v;
    return true;
}

// ---- arguments and results ----

void FunctionPlanner::place_arguments() {
    for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
        Value v = f_.arguments[k];
        at(v) = entry_ ? entry_argument(f_.type(v), f_.argument_info[k]) : Placement{Arena::caller, 0, 0, {}, {}};
    }
}

Placement FunctionPlanner::parameter_place(Arena arena, const Type& type, const std::string& name) const {
    auto found = shared_.parameters.by_name.find(name);
    check(found != shared_.parameters.by_name.end(),
          [&] { return fmt::format("there is no parameter {} to lie beside", name); });
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    const ParameterPlace& place = found->second;
    const bool own = arena == Arena::parameters || (arena == Arena::narrow_copies && place.base == 0);
    check(own || place.trained, [&] { return fmt::format("{} is frozen: nothing lies beside it", name); });
    const std::int64_t base = arena == Arena::parameters ? place.base : 0;
    return {arena, base + place.offset * size, place.layer_stride * size, {}, {}};
}

// "grad.x", "narrow_copy.x" and, of a state of the optimizer, "momentum.x" name what belongs to the parameter x.
Placement FunctionPlanner::entry_argument(const Type& type, const ArgInfo& info) {
    const std::string& name = info.names.front();
    switch (info.kind) {
        case ArgInfo::Kind::parameter:
        case ArgInfo::Kind::buffer: return parameter_place(Arena::parameters, type, name);
        case ArgInfo::Kind::state: return state_place(type, name);
        case ArgInfo::Kind::input: {
            auto [found, is_new] = shared_.batch.emplace(name, shared_.batch_bytes);
            if (is_new) shared_.batch_bytes = aligned(shared_.batch_bytes + bytes_of(type));
            return {Arena::batch, found->second, 0, {}, {}};
        }
        case ArgInfo::Kind::output: {
            const std::int64_t offset = shared_.result_bytes;
            shared_.result_bytes = aligned(offset + bytes_of(type));
            return {Arena::results, offset, 0, {}, {}};
        }
        case ArgInfo::Kind::scalar: {
            std::optional<std::int64_t> offset = step_scalar_offset(name);
            check(offset.has_value(), [&] { return fmt::format("there is no step scalar {}", name); });
            return {Arena::scalars, *offset, 0, {}, {}};
        }
        case ArgInfo::Kind::constant:
        case ArgInfo::Kind::value: break;
    }
    throw InternalError(fmt::format("@{}: the argument {} has no place", f_.name, name));
}

Placement FunctionPlanner::state_place(const Type& type, const std::string& name) const {
    const std::size_t dot = name.find('.');
    const std::string what = name.substr(0, dot), parameter = name.substr(dot + 1);
    if (what == gradient_state) return parameter_place(Arena::gradients, type, parameter);
    if (what == narrow_copy_state) return parameter_place(Arena::narrow_copies, type, parameter);
    if (what == scaling_state) {
        const ScalingPlaces::Place& place = shared_.scaling.by_name.at(name);
        return {Arena::scaling, place.offset, place.layer_stride, {}, {}};
    }
    const auto state = shared_.states.by_name.find(name);
    check(state != shared_.states.by_name.end(), [&] { return fmt::format("there is no state {}", name); });
    return {Arena::optimizer, state->second.offset, state->second.layer_stride, {}, {}};
}

// Results of entry functions are named like the argument's value that they replace, or like a step scalar; those of
// bodies are the caller's.
void FunctionPlanner::place_results() {
    std::map<std::string_view, Value> arguments;
    for (Value v : f_.arguments) arguments.try_emplace(f_.info(v).name, v);
    for (std::size_t r = 0; r < f_.results.size(); ++r) {
        Value v = f_.results[r];
        if (placed(v)) continue;
        if (!entry_) {
            at(v) = {Arena::caller, 0, 0, {}, {}};
            continue;
        }
        check(r < f_.result_names.size(), [&] { return fmt::format("@{}: result {} has no name", f_.name, r); });
        const auto replaced = arguments.find(f_.result_names[r]);
        at(v) = replaced != arguments.end() ? at(replaced->second) : scalar_place(f_.result_names[r]);
    }
    for (const auto& [owner, result] : taken_) {
        at(owner) = at(result);
        at(owner).view_of = result;
        at(owner).offset = 0;
    }
}

Placement FunctionPlanner::scalar_place(const std::string& name) {
    if (std::optional<std::int64_t> offset = step_scalar_offset(name)) return {Arena::scalars, *offset, 0, {}, {}};
    throw InternalError(fmt::format("@{}: the result {} has no place", f_.name, name));
}

// ---- constants ----

// A constant for each layer: they lie one behind the other, so that the family is them.
void FunctionPlanner::place_constant_family(const Op& family) {
    std::set<Value> members;
    for (Value v : family.operands) {
        const Op* def = definition(v);
        if (def == nullptr || !is_constant_op(*def) || placed(v) || !members.insert(v).second) return;
    }
    const std::int64_t base = shared_.constant_bytes, stride = aligned(bytes_of(f_.type(family.results[0])));
    for (Value v : family.operands) {
        at(v) = {Arena::constants, shared_.constant_bytes, 0, {}, {}};
        shared_.constants.emplace_back(definition(v)->attributes.constant("value"), shared_.constant_bytes);
        shared_.constant_bytes += stride;
    }
    at(family.results[0]) = {Arena::constants, base, stride, {}, {}};
}

void FunctionPlanner::place_constants() {
    for (const Op& op : f_.ops)
        if (is_family_op(op)) place_constant_family(op);
    for (Op& op : f_.ops) {
        if (!is_constant_op(op) || placed(op.results[0])) continue;
        const ConstPtr expr = op.attributes.constant("value");
        std::int64_t offset = -1;
        for (const auto& [other, place] : shared_.constants)
            if (equal(*other, *expr)) offset = place;
        if (offset < 0) {
            offset = shared_.constant_bytes;
            shared_.constants.emplace_back(expr, offset);
            shared_.constant_bytes = aligned(offset + bytes_of(expr->type));
        }
        at(op.results[0]) = {Arena::constants, offset, 0, {}, {}};
    }
}

// ---- views: in the order of ops, so that a view of a view names the owner ----

Value FunctionPlanner::owner(Value v) {
    while (at(v).view_of) v = at(v).view_of;
    return v;
}

void FunctionPlanner::place_views() {
    for (const Op& op : f_.ops) {
        if (is_member_op(op)) {
            const Placement& family = at(op.operands[0]);
            check(family.arena != Arena::unplaced, "a member of a family without a place");
            Placement member = family;  // where the family is a view of a tensor, so is its member
            member.offset += op.attributes.integer("index") * family.layer_stride;
            member.layer_stride = 0;
            at(op.results[0]) = std::move(member);
            if (family.view_of) view_offset_[op.results[0]] = at(op.results[0]).offset;
            continue;
        }
        if (is_stack(op)) {  // else a copy of each member makes it
            const Placement& family = at(op.operands[0]);
            const Type& type = f_.type(op.operands[0]);
            if (!placed(op.results[0]) && family.arena != Arena::unplaced && !family.view_of &&
                (type.count == 1 || family.layer_stride == bytes_of(type)))
                at(op.results[0]) = {family.arena, family.offset, 0, {}, {}};
            continue;
        }
        if (is_unstack(op) && !placed(op.results[0])) {
            const Value from = op.operands[0], to = op.results[0];
            check(at(from).strides.empty(), "the parts of a tensor that is no memory of its own");
            Placement p;
            p.view_of = owner(from);
            p.offset = view_offset_[to] = view_offset_[from];
            p.layer_stride = bytes_of(f_.type(to));
            p.arena = Arena::scratch;  // completed when its owner is placed
            at(to) = p;
            continue;
        }
        if (!is_view(op) || placed(op.results[0])) continue;
        const Value from = op.operands[0], to = op.results[0];
        const Dims strides = at(from).strides.empty() ? dense_strides(f_.type(from).dims) : at(from).strides;
        const std::optional<ViewLayout> view = view_layout(f_, op, {strides, 0});
        if (!view) continue;  // only kernels read it, and they have views of their own
        Placement p;
        p.view_of = owner(from);
        p.strides = is_dense(*view, f_.type(to).dims) ? Dims{} : view->strides;
        p.offset = view->offset * static_cast<std::int64_t>(size_of(f_.type(to).dtype)) + view_offset_[from];
        view_offset_[to] = p.offset;
        p.arena = Arena::scratch;  // completed when its owner is placed
        at(to) = p;
    }
}

}  // namespace thunderc::planning
