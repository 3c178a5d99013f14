// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/value_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

using Piece = ValueSet::Piece;

constexpr double infinity = std::numeric_limits<double>::infinity();

ValueSet of_elements(const Tensor& t) {
    ValueSet out;
    out.whole = true;
    double low = infinity, high = -infinity;
    for (std::int64_t k = 0; k < t.size(); ++k) {
        const double v = t.at(k);
        if (std::isnan(v)) {
            out.nan = true;
            continue;
        }
        out.whole = out.whole && v == std::floor(v);
        low = std::min(low, v);
        high = std::max(high, v);
    }
    if (low <= high) out.pieces.push_back({low, high});
    return out;
}

ValueSet by_rule(const OpDef& def, const RangeInput& in) {
    if (in.type.dtype == DType::boolean || !def.range) return ValueSet::any(in.type.dtype);
    return def.range(in);
}

// Small ones are looked at element by element; what is kept lazy is followed as ops are.
ValueSet of_constant(const ConstExpr& e) {
    if (e.type.elements() == 0) return {};
    if (e.kind == ConstExpr::Kind::splat) return ValueSet::number(e.value);
    if (e.kind == ConstExpr::Kind::affine) {
        Piece p{e.base, e.base};
        bool whole = e.base == std::floor(e.base);
        for (std::size_t d = 0; d < e.step.size(); ++d) {
            const double reach = e.step[d] * static_cast<double>(e.type.dims[d] - 1);
            (reach < 0 ? p.low : p.high) += reach;
            whole = whole && e.step[d] == std::floor(e.step[d]);
        }
        return {{p}, false, whole};
    }
    if (e.kind == ConstExpr::Kind::dense || e.type.elements() <= largest_dense_constant)
        return of_elements(materialize(e));
    if (e.kind == ConstExpr::Kind::select) {
        ValueSet out = of_constant(*e.operands[1]);
        out.add(of_constant(*e.operands[2]));
        return out;
    }
    std::vector<ValueSet> sets;
    std::vector<const ValueSet*> operands;
    std::vector<Type> types;
    for (const ConstPtr& operand : e.operands) {
        sets.push_back(of_constant(*operand));
        types.push_back(operand->type);
    }
    for (const ValueSet& set : sets) operands.push_back(&set);
    const Attributes none;
    return by_rule(op_def(e.op_name), {operands, types, e.type, none});
}

// The operands that say what an op's results can be.
std::vector<std::size_t> followed_operands(const Op& op, const Function& f) {
    const OpDef& def = op_def(op.name);
    if (def.moves && !def.moves->chosen && !def.moves->operands.empty()) return def.moves->operands;
    // What is compared tells what is chosen, where that is whole numbers.
    if (def.range_of_types || (def.comparison && is_float(f.type(op.operands[0]).dtype))) return {};
    std::vector<std::size_t> all(op.operands.size());
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = k;
    return all;
}

}  // namespace

ValueRanges::ValueRanges(const Function& function, std::span<const Value> wanted)
    : function_(&function), definition_(function.values.size(), nullptr), sets_(function.values.size()) {
    for (const Op& op : function.ops)
        for (Value v : op.results) definition_[v.index] = &op;
    std::vector<bool> needed(function.values.size(), false);
    for (Value v : wanted) needed[v.index] = true;
    for (std::size_t k = function.ops.size(); k-- > 0;) {
        const Op& op = function.ops[k];
        if (std::none_of(op.results.begin(), op.results.end(), [&](Value v) { return needed[v.index]; })) continue;
        if (is_constant_op(op)) {
            sets_[op.results[0].index] = of_constant(*op.attributes.constant("value"));
            continue;
        }
        ops_.push_back(&op);
        for (std::size_t i : followed_operands(op, function))
            if (op.operands[i]) needed[op.operands[i].index] = true;
    }
    std::reverse(ops_.begin(), ops_.end());
    for (std::size_t k = 0; k < function.arguments.size(); ++k)
        if (needed[function.arguments[k].index]) arguments_.push_back(k);
}

void ValueRanges::compute(std::span<const ValueSet> arguments, const std::map<std::size_t, ValueColumns>& columns) {
    columns_.clear();
    for (std::size_t k : arguments_) {
        const Value v = function_->arguments[k];
        sets_[v.index] = arguments[k];
        if (const auto at = columns.find(k); at != columns.end()) columns_[v.index] = at->second;
    }
    for (const Op* op : ops_) {
        std::optional<ValueColumns> by_position = columns_.empty() ? std::nullopt : columns_result(*op);
        const ValueSet set = by_position ? by_position->all() : result(*op);
        if (by_position && by_position->runs.size() > 1) columns_[op->results[0].index] = std::move(*by_position);
        for (std::size_t r = 0; r < op->results.size(); ++r)
            sets_[op->results[r].index] = r == 0 ? set : ValueSet::any(function_->type(op->results[r]).dtype);
    }
}

const Op* ValueRanges::definition(Value v) const {
    return v ? definition_[v.index] : nullptr;
}

// Through casts that change no number.
Value ValueRanges::behind_casts(Value v) const {
    for (const Op* op = definition(v); op != nullptr && op->name == "cast"; op = definition(v)) {
        const DType from = function_->type(op->operands[0]).dtype, to = function_->type(v).dtype;
        const bool same = is_integer(from) && (to == DType::i64 || to == from);
        if (!same) break;
        v = op->operands[0];
    }
    return v;
}

ValueSet ValueRanges::result(const Op& op) const {
    const Type& type = function_->type(op.results[0]);
    if (!type.is_tensor()) return ValueSet::any(type.dtype);
    if (type.elements() == 0) return {};
    const OpDef& def = op_def(op.name);
    if (def.moves) return def.moves->chosen ? chosen(op, *def.moves) : moved(op, *def.moves);
    const bool of_nothing = !op.operands.empty() && op.operands[0] && function_->type(op.operands[0]).elements() == 0;
    if (of_nothing) return ValueSet::any(type.dtype);  // the maximum of no element
    if (def.reduction == Reduction::maximum || def.reduction == Reduction::minimum) return sets_[op.operands[0].index];
    std::vector<const ValueSet*> operands;
    std::vector<Type> types;
    for (Value v : op.operands) {
        operands.push_back(v ? &sets_[v.index] : nullptr);
        types.push_back(v ? function_->type(v) : Type{});
    }
    const bool same = op.operands.size() > 1 && op.operands[0] == op.operands[1];
    return by_rule(def, {operands, types, type, op.attributes, same});
}

ValueSet ValueRanges::moved(const Op& op, const Moves& moves) const {
    ValueSet out;
    const auto add = [&](Value v) { out.add(sets_[v.index]); };
    if (moves.operands.empty())
        std::for_each(op.operands.begin(), op.operands.end(), add);
    else
        for (std::size_t k : moves.operands) add(op.operands[k]);
    const DType dtype = function_->type(op.results[0]).dtype;
    if (moves.fill) out.add(converted(ValueSet::number(moves.fill(op.attributes)), DType::f64, dtype));
    return out;
}

// What is chosen where its own comparison holds: where(labels == -100, 0, labels) is never -100; or where one of what
// it is computed from holds: where(position < 12, 12 * row + position, 0).
ValueSet ValueRanges::chosen(const Op& op, const Moves& moves) const {
    ValueSet out;
    for (std::size_t k : moves.operands) {
        constexpr int most_ops = 5;  // between the comparison and what is chosen, one behind the other
        out.add(where(op.operands[k], op.operands[0], k == moves.operands[0], most_ops));
    }
    return out;
}

ValueSet ValueRanges::where(Value v, Value condition, bool holds, int depth) const {
    ValueSet set = sets_[v.index];
    restrict(set, v, condition, holds);
    const Op* op = definition(v);
    const Type& type = function_->type(v);
    if (depth == 0 || op == nullptr || op->results.size() != 1 || !is_integer(type.dtype)) return set;
    const OpDef& def = op_def(op->name);
    if (!def.acts_by_element() || !def.range || def.range_of_types || def.moves) return set;
    std::vector<ValueSet> sets;
    std::vector<const ValueSet*> operands;
    std::vector<Type> types;
    for (Value operand : op->operands) {
        if (!operand) return set;
        types.push_back(function_->type(operand));
        // The condition goes element by element with what is of the same shape.
        sets.push_back(types.back().dims == type.dims ? where(operand, condition, holds, depth - 1)
                                                      : sets_[operand.index]);
    }
    for (const ValueSet& one : sets) operands.push_back(&one);
    const bool same = op->operands.size() > 1 && op->operands[0] == op->operands[1];
    const ValueSet computed = by_rule(def, {operands, types, type, op->attributes, same});
    const Piece hull = set.hull();
    return !set.nan && computed.inside(hull.low, hull.high) ? computed : set;
}

void ValueRanges::restrict(ValueSet& set, Value chosen, Value condition, bool holds) const {
    const Op* op = definition(condition);
    if (op == nullptr) return;
    const OpDef& def = op_def(op->name);
    if (def.logic == Logic::negation) return restrict(set, chosen, op->operands[0], !holds);
    if (def.logic == (holds ? Logic::conjunction : Logic::disjunction)) {
        for (Value part : op->operands) restrict(set, chosen, part, holds);
        return;
    }
    const Value own = behind_casts(chosen);
    // The condition and what is chosen have to go element by element.
    if (!def.comparison || function_->type(condition).dims != function_->type(chosen).dims ||
        !is_integer(function_->type(own).dtype))
        return;
    for (std::size_t side = 0; side < 2; ++side) {
        if (behind_casts(op->operands[side]) != own) continue;
        const ValueSet& other = sets_[op->operands[1 - side].index];
        if (other.pieces.empty() || other.nan) return;
        const Piece limit = other.hull();
        Comparison is = side == 1 ? mirrored(*def.comparison) : *def.comparison;
        if (!holds) is = negated(is);
        switch (is) {
            case Comparison::lt: set.remove(limit.high, infinity); break;
            case Comparison::le: set.remove(limit.high + 1, infinity); break;
            case Comparison::gt: set.remove(-infinity, limit.low); break;
            case Comparison::ge: set.remove(-infinity, limit.low - 1); break;
            case Comparison::ne:
                if (limit.low == limit.high) set.remove(limit.low, limit.low);
                break;
            case Comparison::eq:
                set.remove(-infinity, limit.low - 1);
                set.remove(limit.high + 1, infinity);
                break;
        }
        return;
    }
}

}  // namespace thunderc
