// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/plan/plan_parts.h"
#include "compiler/support/lazy_check.h"

namespace thunderc::planning {

std::vector<std::vector<Value>> FunctionPlanner::adjacent_results(const Op& op) {
    std::vector<std::vector<Value>> out;
    if (!op.attributes.boolean("adjacent_weights", false)) return out;
    for (std::vector<Value>& group : adjacent_values(op))
        if (std::all_of(group.begin(), group.end(), [&](Value v) {
                return std::find(op.results.begin(), op.results.end(), v) != op.results.end();
            }))
            out.push_back(std::move(group));
    return out;
}

void FunctionPlanner::place_scratch() {
    std::vector<Piece> pieces;
    std::map<Value, std::size_t> piece_of;          // by owner
    std::map<Value, std::int64_t> within;           // by owner: bytes from the beginning of its piece
    std::map<std::size_t, std::size_t> body_piece;  // by op index: what a body needs
    const std::size_t n = f_.ops.size();
    std::vector<std::size_t> first(f_.values.size(), n), last(f_.values.size(), 0);
    auto touch = [&](Value v, std::size_t k) {
        Value o = owner(v);
        first[o.index] = std::min(first[o.index], k);
        last[o.index] = std::max(last[o.index], k);
    };
    for (std::size_t k = 0; k < n; ++k) {
        for (Value v : f_.ops[k].operands)
            if (v) touch(v, k);
        for (Value v : f_.ops[k].results) touch(v, k);
    }
    for (Value v : f_.results) touch(v, n == 0 ? 0 : n - 1);

    std::map<Value, std::pair<std::size_t, std::int64_t>> slot;  // carried values: piece and byte offset in it
    for (const CarriedScratch& c : carried_scratch_) {
        auto piece = static_cast<std::size_t>(pieces.size());
        pieces.push_back({c.stride * 2, first[c.in.index], last[c.out.index], -1});
        slot[c.in] = {piece, 0};
        slot[c.out] = {piece, c.n % 2 * c.stride};
    }
    for (std::size_t k = 0; k < n; ++k) {
        const Op& op = f_.ops[k];
        // Results that a call writes as one tensor are one piece.
        for (const std::vector<Value>& group : adjacent_results(op)) {
            if (std::any_of(group.begin(), group.end(), [&](Value v) { return placed(v) || slot.contains(v); }))
                continue;
            Piece piece = {0, n, 0, -1};
            for (Value v : group) {
                piece_of[v] = pieces.size();
                within[v] = piece.bytes;
                piece.bytes += bytes_of(f_.type(v));
                piece.first = std::min(piece.first, first[v.index]);
                piece.last = std::max(piece.last, last[v.index]);
            }
            piece.bytes = aligned(piece.bytes);
            pieces.push_back(piece);
        }
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            Value v = op.results[r];
            if (placed(v) || slot.contains(v) || piece_of.contains(v) || f_.type(v).kind == Type::Kind::token) continue;
            check(!f_.type(v).is_family() || is_family_op(op),
                  [&] { return fmt::format("@{}: a family from {} has no place", f_.name, op.name); });
            // What a later sum adds to is written where the sum will be, before this op.
            const bool begins_here = first[v.index] == k;
            Value shared;
            if (begins_here) shared = in_place(op, r, k, last, piece_of);
            if (shared) {
                Piece& piece = pieces[piece_of.at(shared)];
                piece.last = std::max(piece.last, last[v.index]);
                piece_of[v] = piece_of.at(shared);
                within[v] = within[shared];
                continue;
            }
            const Type& type = f_.type(v);
            const std::int64_t bytes = aligned(bytes_of(type)) * (type.is_family() ? type.count : 1);
            piece_of[v] = pieces.size();
            pieces.push_back({bytes, first[v.index], last[v.index], -1});
        }
        if (const Function* body = called(op); body != nullptr && body->scratch_bytes > 0) {
            body_piece[k] = pieces.size();
            pieces.push_back({body->scratch_bytes, k, k, -1});
        }
    }
    const std::int64_t total = assign_offsets(pieces);
    for (const auto& [v, piece] : piece_of) {
        const Type& type = f_.type(v);
        at(v) = {
            Arena::scratch, pieces[piece].offset + within[v], type.is_family() ? aligned(bytes_of(type)) : 0, {}, {}};
    }
    for (const auto& [v, where] : slot) at(v) = {Arena::scratch, pieces[where.first].offset + where.second, 0, {}, {}};
    for (const auto& [k, piece] : body_piece) f_.ops[k].attributes.set("scratch", pieces[piece].offset);
    for (std::size_t k = 0; k < carried_scratch_.size(); ++k) set_carry_base(carried_scratch_[k], pieces[k].offset);
    finish_views();
    if (entry_)
        shared_.scratch_bytes = std::max(shared_.scratch_bytes, total);
    else
        f_.scratch_bytes = total;
}

const Function* FunctionPlanner::called(const Op& op) const {
    if (is_function_call(op)) return module_.find(called_function(op));
    return is_loop(op) ? module_.find(loop_body(op)) : nullptr;
}

// The owner of an operand that dies here and that result r may be written over; none: an empty value.
Value FunctionPlanner::in_place(const Op& op, std::size_t r, std::size_t k, const std::vector<std::size_t>& last,
                                const std::map<Value, std::size_t>& piece_of) {
    for (const auto& [result, operand] : in_place_of(op)) {
        if (result != r) continue;
        Value v = owner(op.operands[operand]);
        auto piece = piece_of.find(v);
        if (piece == piece_of.end() || last[v.index] != k || f_.type(v).bytes() != f_.type(op.results[r]).bytes())
            continue;
        // Another operand in the same memory would be overwritten before it is read.
        bool alone = true;
        for (std::size_t other = 0; other < op.operands.size(); ++other)
            alone = alone && (other == operand || !op.operands[other] || owner(op.operands[other]) != v);
        if (alone) return v;
    }
    return Value{};
}

void FunctionPlanner::finish_views() {
    for (Op& op : f_.ops)
        for (Value v : op.results) {
            Placement& p = at(v);
            if (!p.view_of) continue;
            const Placement& base = at(p.view_of);
            p.arena = base.arena;
            p.offset += base.offset;
            if (base.slots > 0) p.layer_stride = base.layer_stride, p.slots = base.slots;
        }
}

void FunctionPlanner::set_carry_base(const CarriedScratch& c, std::int64_t base) {
    for (Op& op : f_.ops) {
        if (!is_loop(op) || c.k >= op.results.size() || op.results[c.k] != c.out) continue;
        std::vector<std::int64_t> bases = op.attributes.integers("carry_base");
        bases[c.k] = base;
        op.attributes.set("carry_base", bases);
    }
}

}  // namespace thunderc::planning
