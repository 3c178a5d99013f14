// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/value_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

using Piece = ValueSet::Piece;

constexpr std::size_t most_pieces = 4;
constexpr double exact_integer = 0x1p53;  // of a double
constexpr double exact_float = 0x1p24;    // of an f32
constexpr double infinity = std::numeric_limits<double>::infinity();

std::pair<double, double> limits(DType dtype) {
    switch (dtype) {
        case DType::boolean: return {0, 1};
        case DType::i32: return {-0x1p31, 0x1p31 - 1};
        case DType::i64: return {-0x1p63, 0x1p63};
        default: return {-infinity, infinity};
    }
}

bool beyond(const ValueSet& set, double most) {
    return set.nan || std::any_of(set.pieces.begin(), set.pieces.end(),
                                  [most](const Piece& p) { return p.low < -most || p.high > most; });
}

// In order, overlapping ones joined, and the nearest ones where there are too many.
void normalise(ValueSet& set) {
    std::vector<Piece>& all = set.pieces;
    std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.low < b.low; });
    std::vector<Piece> out;
    for (const Piece& p : all) {
        const double reach = out.empty() ? 0 : out.back().high + (set.whole ? 1 : 0);
        if (!out.empty() && p.low <= reach)
            out.back().high = std::max(out.back().high, p.high);
        else
            out.push_back(p);
    }
    while (out.size() > most_pieces) {
        std::size_t nearest = 1;
        for (std::size_t k = 2; k < out.size(); ++k)
            if (out[k].low - out[k - 1].high < out[nearest].low - out[nearest - 1].high) nearest = k;
        out[nearest - 1].high = out[nearest].high;
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(nearest));
    }
    all = std::move(out);
}

// What arithmetic in the type makes of exact results: integers wrap around, f32 rounds.
ValueSet rounded(ValueSet set, DType dtype) {
    const auto [low, high] = limits(dtype);
    if (!is_float(dtype)) {
        const bool fits = !beyond(set, exact_integer) && set.inside(low, high);
        if (!fits) return ValueSet::any(dtype);
        set.whole = true;
        normalise(set);
        return set;
    }
    if (set.nan || (dtype != DType::f32 && dtype != DType::f64)) return ValueSet::any(dtype);
    const bool exact = set.whole && !beyond(set, exact_float);
    for (Piece& p : set.pieces) {
        if (exact) continue;
        p.low = static_cast<double>(std::nextafter(static_cast<float>(p.low), -INFINITY));
        p.high = static_cast<double>(std::nextafter(static_cast<float>(p.high), INFINITY));
        if (!std::isfinite(p.low) || !std::isfinite(p.high)) return ValueSet::any(dtype);
    }
    set.whole = exact;
    normalise(set);
    return set;
}

// Every piece of a with every piece of b.
template <typename Combine>
ValueSet pairwise(const ValueSet& a, const ValueSet& b, Combine combine) {
    ValueSet out{{}, a.nan || b.nan, a.whole && b.whole};
    for (const Piece& p : a.pieces)
        for (const Piece& q : b.pieces) out.pieces.push_back(combine(p, q));
    normalise(out);
    return out;
}

template <typename Each>
ValueSet each(const ValueSet& a, Each change) {
    ValueSet out{{}, a.nan, a.whole};
    for (const Piece& p : a.pieces) out.pieces.push_back(change(p));
    normalise(out);
    return out;
}

Piece hull(const ValueSet& set) {
    return set.pieces.empty() ? Piece{} : Piece{set.pieces.front().low, set.pieces.back().high};
}

// Of arithmetic: exact operands only, or the result may be anything.
ValueSet arithmetic(std::string_view op, const ValueSet& a, const ValueSet& b, DType dtype) {
    if (beyond(a, exact_integer) || beyond(b, exact_integer)) return ValueSet::any(dtype);
    if (op == "add")
        return rounded(pairwise(a, b, [](Piece p, Piece q) { return Piece{p.low + q.low, p.high + q.high}; }), dtype);
    if (op == "sub")
        return rounded(pairwise(a, b, [](Piece p, Piece q) { return Piece{p.low - q.high, p.high - q.low}; }), dtype);
    auto corners = [](Piece p, Piece q, auto f) {
        const std::array<double, 4> all = {f(p.low, q.low), f(p.low, q.high), f(p.high, q.low), f(p.high, q.high)};
        return Piece{*std::min_element(all.begin(), all.end()), *std::max_element(all.begin(), all.end())};
    };
    if (op == "mul")
        return rounded(
            pairwise(a, b, [&](Piece p, Piece q) { return corners(p, q, [](double x, double y) { return x * y; }); }),
            dtype);
    // div, towards zero for integers. A divisor that may be 0 may give anything.
    const bool positive = !b.pieces.empty() && b.pieces.front().low > 0;
    if (op != "div" || !positive) return ValueSet::any(dtype);
    const bool integers = !is_float(dtype);
    ValueSet out = pairwise(a, b, [&](Piece p, Piece q) {
        return corners(p, q, [&](double x, double y) { return integers ? std::trunc(x / y) : x / y; });
    });
    out.whole = integers;
    return rounded(std::move(out), dtype);
}

// The remainder has the sign of the divisor.
ValueSet remainder(const ValueSet& a, const ValueSet& b, DType dtype) {
    if (is_float(dtype) || b.pieces.empty() || b.pieces.front().low < 1) return ValueSet::any(dtype);
    if (a.inside(0, b.pieces.front().low - 1)) return a;
    return ValueSet::between(0, b.pieces.back().high - 1);
}

ValueSet cast(const ValueSet& a, DType from, DType to) {
    if (to == DType::boolean) return ValueSet::any(to);
    if (!is_float(to)) {
        const ValueSet cut = is_float(from) ? each(a,
                                                   [](Piece p) {
                                                       return Piece{std::trunc(p.low), std::trunc(p.high)};
                                                   })
                                            : a;
        const auto [low, high] = limits(to);
        const bool fits = cut.inside(low, high) && !(is_float(from) && beyond(cut, exact_integer));
        ValueSet out = fits ? cut : ValueSet::any(to);
        out.whole = true;
        return out;
    }
    const bool short_type = to != DType::f32 && to != DType::f64;
    if (short_type && a.whole && !beyond(a, 256)) return a;  // eight bits of mantissa are enough
    return rounded(a, to);
}

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

ValueSet elementwise(const std::string& op, std::span<const ValueSet> x, const Type& type, DType from) {
    const DType dtype = type.dtype;
    if (dtype == DType::boolean) return ValueSet::any(dtype);
    auto monotone = [&](double (*f)(double)) {
        ValueSet out = each(x[0], [f](Piece p) { return Piece{f(p.low), f(p.high)}; });
        out.whole = true;
        return out;
    };
    if (op == "cast") return cast(x[0], from, dtype);
    if (op == "neg") return arithmetic("sub", ValueSet::between(0, 0), x[0], dtype);
    if (op == "floor") return monotone([](double v) { return std::floor(v); });
    if (op == "ceil") return monotone([](double v) { return std::ceil(v); });
    if (op == "round") return monotone([](double v) { return std::nearbyint(v); });
    if (op == "relu") return each(x[0], [](Piece p) { return Piece{std::max(p.low, 0.0), std::max(p.high, 0.0)}; });
    if (op == "abs" && !beyond(x[0], exact_integer))
        return each(x[0], [](Piece p) {
            const double most = std::max(std::abs(p.low), std::abs(p.high));
            return Piece{p.low <= 0 && p.high >= 0 ? 0 : std::min(std::abs(p.low), std::abs(p.high)), most};
        });
    if (op == "sign" && !is_float(dtype)) return ValueSet::between(-1, 1);
    if (op == "max")
        return pairwise(x[0], x[1], [](Piece p, Piece q) {
            return Piece{std::max(p.low, q.low), std::max(p.high, q.high)};
        });
    if (op == "min")
        return pairwise(x[0], x[1], [](Piece p, Piece q) {
            return Piece{std::min(p.low, q.low), std::min(p.high, q.high)};
        });
    if (op == "mod") return remainder(x[0], x[1], dtype);
    if (op == "add" || op == "sub" || op == "mul" || op == "div") return arithmetic(op, x[0], x[1], dtype);
    return ValueSet::any(dtype);
}

// Small ones are looked at element by element; what is kept lazy is followed as ops are.
ValueSet of_constant(const ConstExpr& e) {
    if (e.type.elements() == 0) return {};
    if (e.kind == ConstExpr::Kind::splat) {
        if (std::isnan(e.value)) return {{}, true, false};
        return {{{e.value, e.value}}, false, e.value == std::floor(e.value)};
    }
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
    std::vector<ValueSet> operands;
    for (const ConstPtr& operand : e.operands) operands.push_back(of_constant(*operand));
    return elementwise(e.op_name, operands, e.type, e.operands.front()->type.dtype);
}

bool is_comparison(const std::string& name) {
    return name == "eq" || name == "ne" || name == "lt" || name == "le" || name == "gt" || name == "ge";
}

// How many of its operands say what an op's results can be.
std::size_t followed_operands(const Op& op, const Function& f) {
    if (op.name == "argmax" || op.name == "one_hot") return 0;
    if (op.name == "gather" || op.name == "gather_nd" || op.name == "gather_elements" || op.name == "embedding")
        return 1;
    if (is_comparison(op.name) && is_float(f.type(op.operands[0]).dtype)) return 0;
    return op.operands.size();
}

}  // namespace

ValueSet ValueSet::any(DType dtype) {
    const auto [low, high] = limits(dtype);
    return {{{low, high}}, is_float(dtype), !is_float(dtype)};
}

void ValueSet::add(const ValueSet& other) {
    pieces.insert(pieces.end(), other.pieces.begin(), other.pieces.end());
    nan = nan || other.nan;
    whole = whole && other.whole;
    normalise(*this);
}

void ValueSet::remove(double low, double high) {
    if (!whole) return;
    std::vector<Piece> out;
    for (const Piece& p : pieces) {
        if (p.high < low || p.low > high) {
            out.push_back(p);
            continue;
        }
        if (p.low < low) out.push_back({p.low, low - 1});
        if (p.high > high) out.push_back({high + 1, p.high});
    }
    pieces = std::move(out);
    normalise(*this);
}

bool ValueSet::inside(double low, double high) const {
    return !nan &&
           std::all_of(pieces.begin(), pieces.end(), [=](const Piece& p) { return p.low >= low && p.high <= high; });
}

std::string to_string(const ValueSet& set) {
    if (beyond(set, exact_integer)) return "any number";
    std::string out;
    for (const Piece& p : set.pieces)
        out += (out.empty() ? "" : ", ") +
               (p.low == p.high ? fmt::format("{}", p.low) : fmt::format("{} to {}", p.low, p.high));
    return out.empty() ? "none" : out;
}

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
        for (std::size_t i = 0; i < followed_operands(op, function); ++i)
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
    auto operand = [&](std::size_t k) -> const ValueSet& { return sets_[op.operands[k].index]; };
    const std::string& name = op.name;
    const bool of_nothing = name != "concat" && name != "pad" && !op.operands.empty() && op.operands[0] &&
                            function_->type(op.operands[0]).elements() == 0;
    if (of_nothing) return ValueSet::any(type.dtype);  // the maximum of no element
    if (name == "reshape" || name == "transpose" || name == "broadcast_to" || name == "slice" || name == "gather" ||
        name == "gather_nd" || name == "gather_elements" || name == "embedding" || name == "reduce_max" ||
        name == "reduce_min")
        return operand(0);
    if (name == "concat") {
        ValueSet out = operand(0);
        for (std::size_t k = 1; k < op.operands.size(); ++k) out.add(operand(k));
        return out;
    }
    if (name == "pad" || name == "trilu") {
        const double filled = name == "pad" ? op.attributes.number("value") : 0;
        ValueSet out = operand(0);
        out.add({{{filled, filled}}, std::isnan(filled), filled == std::floor(filled)});
        return out;
    }
    if (name == "select") return chosen(op);
    if (name == "clip") {  // min(max(x, low), high)
        ValueSet out = operand(0);
        for (std::size_t k = 1; k < op.operands.size(); ++k)
            if (op.operands[k])
                out = elementwise(k == 1 ? "max" : "min", std::array{out, operand(k)}, type, type.dtype);
        return out;
    }
    if (name == "argmax") {
        const Dims& dims = function_->type(op.operands[0]).dims;
        const auto axis = *normalize_axis(op.attributes.integer("axis"), static_cast<std::int64_t>(dims.size()));
        return ValueSet::between(0, static_cast<double>(dims[static_cast<std::size_t>(axis)] - 1));
    }
    if (name == "one_hot") {
        ValueSet out = ValueSet::between(op.attributes.number("on"), op.attributes.number("on"));
        out.add(ValueSet::between(op.attributes.number("off"), op.attributes.number("off")));
        return is_float(type.dtype) ? ValueSet::any(type.dtype) : out;
    }
    if (name == "reduce_sum" || name == "cumsum") {
        const Type& from = function_->type(op.operands[0]);
        const ValueSet& x = operand(0);
        if (x.pieces.empty() || !x.whole || beyond(x, exact_integer)) return ValueSet::any(type.dtype);
        const Piece p = hull(x);
        if (name == "reduce_sum") {
            const auto count = static_cast<double>(from.elements() / type.elements());
            return rounded({{{p.low * count, p.high * count}}, false, true}, type.dtype);
        }
        const auto axis = *normalize_axis(op.attributes.integer("axis"), type.rank());
        const auto count = static_cast<double>(type.dims[static_cast<std::size_t>(axis)]);
        ValueSet out = ValueSet::between(std::min(p.low, p.low * count), std::max(p.high, p.high * count));
        if (op.attributes.boolean("exclusive")) out.add(ValueSet::between(0, 0));
        return rounded(std::move(out), type.dtype);
    }
    // As ONNX's own decomposition of a loss makes its zeros.
    if (name == "sub" && op.operands[0] == op.operands[1] && is_integer(type.dtype)) return ValueSet::between(0, 0);
    if (op.operands.empty() || op.operands.size() > 3) return ValueSet::any(type.dtype);
    std::vector<ValueSet> operands;
    for (Value v : op.operands) operands.push_back(v ? sets_[v.index] : ValueSet{});
    return elementwise(name, operands, type, function_->type(op.operands[0]).dtype);
}

// What is chosen where its own comparison holds: where(labels == -100, 0, labels) is never -100.
ValueSet ValueRanges::chosen(const Op& select) const {
    ValueSet out;
    for (std::size_t k = 1; k < 3; ++k) {
        ValueSet set = sets_[select.operands[k].index];
        restrict(set, select.operands[k], select.operands[0], k == 1);
        k == 1 ? void(out = std::move(set)) : out.add(set);
    }
    return out;
}

void ValueRanges::restrict(ValueSet& set, Value chosen, Value condition, bool holds) const {
    const Op* op = definition(condition);
    if (op == nullptr) return;
    if (op->name == "not") return restrict(set, chosen, op->operands[0], !holds);
    if (op->name == (holds ? "and" : "or")) {
        for (Value part : op->operands) restrict(set, chosen, part, holds);
        return;
    }
    const Value own = behind_casts(chosen);
    // The condition and what is chosen have to go element by element.
    if (!is_comparison(op->name) || function_->type(condition).dims != function_->type(chosen).dims ||
        !is_integer(function_->type(own).dtype))
        return;
    for (std::size_t side = 0; side < 2; ++side) {
        if (behind_casts(op->operands[side]) != own) continue;
        const ValueSet& other = sets_[op->operands[1 - side].index];
        if (other.pieces.empty() || other.nan) return;
        const Piece limit = hull(other);
        std::string name = op->name;
        if (side == 1)
            name = name == "lt" ? "gt" : name == "gt" ? "lt" : name == "le" ? "ge" : name == "ge" ? "le" : name;
        if (!holds)
            name = name == "lt"   ? "ge"
                   : name == "ge" ? "lt"
                   : name == "le" ? "gt"
                   : name == "gt" ? "le"
                   : name == "eq" ? "ne"
                                  : "eq";
        if (name == "lt") set.remove(limit.high, infinity);
        if (name == "le") set.remove(limit.high + 1, infinity);
        if (name == "gt") set.remove(-infinity, limit.low);
        if (name == "ge") set.remove(-infinity, limit.low - 1);
        if (name == "ne" && limit.low == limit.high) set.remove(limit.low, limit.low);
        if (name == "eq") {
            set.remove(-infinity, limit.low - 1);
            set.remove(limit.high + 1, infinity);
        }
        return;
    }
}

}  // namespace thunderc
