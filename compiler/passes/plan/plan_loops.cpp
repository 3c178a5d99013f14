// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/passes/plan/plan_parts.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/support/error.h"

namespace thunderc::planning {

// ---- sums: calls that add to what is there ----

// Results that a call adds up in the memory of an operand: the operand is no field of the call.
std::vector<std::pair<std::size_t, std::size_t>> FunctionPlanner::added_in_place(const Op& op, const Function& f) {
    const OpDef& def = op_def(op.name);
    std::vector<std::pair<std::size_t, std::size_t>> out;
    if (is_collective(op, Collective::all_reduce))  // each tensor where it is
        for (std::size_t r = 0; r < op.results.size(); ++r) out.emplace_back(r, r);
    if (is_collective(op, Collective::reduce_scatter)) out.emplace_back(0, 1);
    if (!def.call) return out;
    const std::vector<std::pair<std::size_t, std::size_t>> pairs = in_place_of(op);
    if (pairs.empty()) return out;
    const RuntimeCall call = def.call(op, f);
    if (call.function.empty()) return out;
    for (const auto& [result, operand] : pairs) {
        const std::size_t o = operand;
        if (std::none_of(call.fields.begin(), call.fields.end(), [o](const CallField& field) {
                return field.kind == CallField::Kind::operand && field.index == o;
            }))
            out.emplace_back(result, operand);
    }
    return out;
}

// From the last sum to the first: what is added to has to lie where the sum will be.
void FunctionPlanner::place_sums() {
    for (std::size_t k = f_.ops.size(); k-- > 0;) {
        const std::vector<std::pair<std::size_t, std::size_t>> pairs = added_in_place(f_.ops[k], f_);
        std::size_t adds = k;  // behind the copies that are put before it
        for (const auto& [r, o] : pairs) {
            const Value sum = f_.ops[adds].results[r], before = f_.ops[adds].operands[o];
            const Op* def = definition(before);
            const bool own = def != nullptr && !placed(before) && !is_view(*def) && !is_constant_op(*def) &&
                             !is_member_op(*def) && !is_carried(*def, before) && uses_->single_user(before);
            // Of arguments and results of a body the caller knows that they are one tensor.
            const bool there = placed(before) && at(owner(before)) == at(owner(sum));
            if (there) continue;
            if (own) {
                lie_in(before, sum);
                continue;
            }
            Op copy;
            copy.name = "copy";
            copy.operands = {before};
            copy.provenance = f_.ops[adds].provenance;
            const Value moved = f_.add_value(f_.type(before), f_.info(before).name);
            copy.results = {moved};
            f_.ops[adds].operands[o] = moved;
            f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(adds), std::move(copy));
            ++adds;
            uses_.emplace(f_);
            lie_in(moved, sum);
        }
    }
}

// Whether a loop hands it from layer to layer, in slots of its own; what it collects lies anywhere.
bool FunctionPlanner::is_carried(const Op& op, Value v) {
    if (!is_loop(op)) return false;
    const auto end = op.results.begin() + static_cast<std::ptrdiff_t>(loop_carried(op));
    return std::find(op.results.begin(), end, v) != end;
}

void FunctionPlanner::lie_in(Value v, Value place) {
    const bool piece = placed(place) && at(place).view_of;
    at(v) = placed(place) ? at(place) : Placement{Arena::scratch, 0, 0, {}, {}};
    at(v).view_of = owner(place);
    at(v).offset = piece ? at(place).offset : 0;  // in its owner
}

// ---- units of a sharded model ----

void FunctionPlanner::place_units() {
    for (std::size_t k = 0; k < f_.ops.size(); ++k) {
        if (is_pack(f_.ops[k])) {
            const std::size_t before = f_.ops.size();
            place_packed(k);
            k += f_.ops.size() - before;  // behind the copies
        } else if (is_unpack(f_.ops[k])) {
            const Op& op = f_.ops[k];
            const auto size = static_cast<std::int64_t>(size_of(f_.type(op.results[0]).dtype));
            Placement p = at(op.operands[0]);
            p.offset += op.attributes.integer("offset") * size;
            if (f_.type(op.results[0]).is_family()) p.layer_stride = op.attributes.integer("stride") * size;
            at(op.results[0]) = p;
        }
    }
}

// Gradients are written where the flat tensor has them; what cannot be written there is copied.
void FunctionPlanner::place_packed(std::size_t index) {
    const Value flat = f_.ops[index].results[0];
    const std::vector<std::int64_t> offsets = f_.ops[index].attributes.integers("offsets"),
                                    strides = f_.ops[index].attributes.integers("strides");
    for (std::size_t k = 0; k < offsets.size(); ++k) {
        Value v = f_.ops[index].operands[k];
        const Op* def = definition(v);
        const bool own = def != nullptr && !placed(v) && !is_view(*def) && !is_constant_op(*def) &&
                         !is_member_op(*def) && !is_unpack(*def);
        if (!own) {
            Op copy;
            copy.name = "copy";
            copy.operands = {v};
            copy.provenance = f_.ops[index].provenance;
            v = f_.add_value(f_.type(v), f_.info(v).name);
            copy.results = {v};
            f_.ops[index].operands[k] = v;
            f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(index), std::move(copy));
            ++index;
            uses_.emplace(f_);
        }
        const auto size = static_cast<std::int64_t>(size_of(f_.type(v).dtype));
        Placement p = at(flat);
        p.offset += offsets[k] * size;
        if (f_.type(v).is_family()) p.layer_stride = strides[k] * size;
        at(v) = p;
    }
}

// ---- loops ----

void FunctionPlanner::place_loops() {
    for (std::size_t k = 0; k < f_.ops.size(); ++k) {
        if (!is_loop(f_.ops[k])) continue;
        place_collected(k);
        k = place_carried(k);
    }
}

bool FunctionPlanner::is_stacked(Value family) const {
    const std::vector<std::int32_t>& users = uses_->users[family.index];
    return std::any_of(users.begin(), users.end(),
                       [&](std::int32_t k) { return is_stack(f_.ops[static_cast<std::size_t>(k)]); });
}

// Families that a loop collects and nobody else wants in a place of its own: one struct a layer in arena saved. What is
// read as one tensor lies side by side, where that leaves each layer's part at its alignment.
void FunctionPlanner::place_collected(std::size_t index) {
    const Op& op = f_.ops[index];
    const Function& body = callee(module_, op);
    const auto carried = loop_carried(op);
    const std::int64_t n = loop_count(op);
    std::int64_t layer = 0;
    std::vector<std::pair<Value, std::int64_t>> members;
    for (std::size_t r = carried; r < op.results.size(); ++r) {
        Value v = op.results[r];
        if (placed(v) || collected_carry(body, carried, r)) continue;
        if (const std::int64_t bytes = bytes_of(f_.type(v)); is_stacked(v) && bytes == aligned(bytes)) {
            at(v) = {Arena::saved, shared_.saved_bytes, bytes, {}, {}};
            shared_.saved_bytes += bytes * n;
            continue;
        }
        members.emplace_back(v, layer);
        layer = aligned(layer + bytes_of(f_.type(v)));
    }
    for (const auto& [v, offset] : members) at(v) = {Arena::saved, shared_.saved_bytes + offset, layer, {}, {}};
    shared_.saved_bytes += layer * n;
}

// Whether result r of the body is one of its carried arguments; then which.
std::optional<std::size_t> FunctionPlanner::collected_carry(const Function& body, std::size_t carried, std::size_t r) {
    for (std::size_t k = 0; k < carried; ++k)
        if (body.arguments[k] == body.results[r]) return k;
    return std::nullopt;
}

// Where the loop is by then: copies may have come before it.
std::size_t FunctionPlanner::place_carried(std::size_t index) {
    const auto carried = loop_carried(f_.ops[index]);
    const std::int64_t n = loop_count(f_.ops[index]);
    const bool reverse = loop_reversed(f_.ops[index]);
    const Function& body = *module_.find(loop_body(f_.ops[index]));
    std::vector<std::string> arenas;
    std::vector<std::int64_t> bases, strides, periods;
    for (std::size_t k = 0; k < carried; ++k) {
        const std::int64_t bytes = aligned(bytes_of(f_.type(f_.ops[index].operands[k])));
        CarrySlots slots;
        slots.stride = bytes;
        std::optional<std::size_t> collected;
        for (std::size_t r = carried; !reverse && r < f_.ops[index].results.size(); ++r)
            if (collected_carry(body, carried, r) == k) collected = r;
        if (collected) {
            slots.arena = Arena::saved;
            slots.base = shared_.saved_bytes;
            shared_.saved_bytes += bytes * (n + 1);
            at(f_.ops[index].results[*collected]) = {Arena::saved, slots.base, bytes, {}, {}};
        } else {
            slots.arena = Arena::scratch;
            slots.period = 2;
            slots.base = -1;  // found with the rest of the scratch memory
        }
        first_slot(index, k, slots);
        arenas.emplace_back(name_of(slots.arena));
        bases.push_back(slots.base);
        strides.push_back(slots.stride);
        periods.push_back(slots.period);
    }
    if (carried == 0) return index;
    Attributes& a = f_.ops[index].attributes;
    a.set("carry_arena", arenas);
    a.set("carry_base", bases);
    a.set("carry_stride", strides);
    a.set("carry_period", periods);
    return index;
}

// Whether nothing but carried operand k of the loop reads v, or a view of it, at the loop or behind it.
bool FunctionPlanner::ends_at(Value v, std::size_t index, std::size_t k) const {
    if (uses_->is_result[v.index]) return false;
    for (std::int32_t user : uses_->users[v.index]) {
        const auto u = static_cast<std::size_t>(user);
        const Op& op = f_.ops[u];
        if (u > index) return false;
        if (is_view(op) && !ends_at(op.results[0], index, op.operands.size())) return false;
        if (u < index) continue;
        for (std::size_t o = 0; o < op.operands.size(); ++o)
            if (op.operands[o] == v && o != k) return false;
    }
    return true;
}

// The value that goes in is written to slot 0 by its op where that is possible, else copied there; the value that
// comes out lies in slot n.
void FunctionPlanner::first_slot(std::size_t& index, std::size_t k, const CarrySlots& slots) {
    const std::int64_t n = loop_count(f_.ops[index]);
    Value in = f_.ops[index].operands[k];
    Value out = f_.ops[index].results[k];
    const Op* def = definition(in);
    const bool own = def != nullptr && !is_view(*def) && !is_constant_op(*def) && !is_member_op(*def) && !placed(in);
    // With two slots by turns, slot 0 is overwritten by the second layer: whoever else reads the value later, or in
    // every layer, must not find that.
    const bool stays = slots.period == 0;
    if (!own || reserved_.contains(in) || (!stays && !ends_at(in, index, k))) {
        Op copy;
        copy.name = "copy";
        copy.operands = {in};
        Value moved = f_.add_value(f_.type(in), f_.info(in).name);
        copy.results = {moved};
        copy.provenance = f_.ops[index].provenance;
        f_.ops[index].operands[k] = moved;
        f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(index), std::move(copy));
        ++index;
        uses_.emplace(f_);
        in = moved;
    }
    if (placed(out)) {  // a result of this function: leave the loop's slots, then copy
        Value moved = f_.add_value(f_.type(out), f_.info(out).name);
        Op copy;
        copy.name = "copy";
        copy.operands = {moved};
        copy.results = {out};
        f_.ops[index].results[k] = moved;
        f_.ops.insert(f_.ops.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(copy));
        uses_.emplace(f_);
        out = moved;
    }
    if (slots.arena == Arena::scratch) {
        reserved_.insert(in);
        reserved_.insert(out);
        carried_scratch_.push_back({in, out, k, slots.stride, n});
    } else {
        at(in) = {Arena::saved, slots.at(0), 0, {}, {}};
        at(out) = {Arena::saved, slots.at(n), 0, {}, {}};
    }
}

}  // namespace thunderc::planning
