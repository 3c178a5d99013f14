// SPDX-License-Identifier: Apache-2.0
// What is known of tensors by position along an axis: how it goes through ops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/analysis/value_ranges.h"
#include "compiler/analysis/views.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

std::int64_t product(const Dims& dims, std::int64_t count) {
    std::int64_t out = 1;
    for (std::int64_t d = 0; d < count; ++d) out *= dims[static_cast<std::size_t>(d)];
    return out;
}

std::int64_t size_of(const Type& type, std::int64_t axis) {
    return axis < 0 ? 1 : type.dims[static_cast<std::size_t>(axis)];
}

}  // namespace

ValueSet ValueColumns::between(std::int64_t begin, std::int64_t end) const {
    ValueSet out;
    if (begin >= end) return out;
    auto run = std::upper_bound(runs.begin(), runs.end(), begin,
                                [](std::int64_t position, const Run& other) { return position < other.end; });
    for (; run != runs.end(); ++run) {
        out.add(run->set);
        if (run->end >= end) break;
    }
    return out;
}

void ValueColumns::append(std::int64_t end, ValueSet set) {
    if (!runs.empty() && runs.back().set == set)
        runs.back().end = end;
    else
        runs.push_back({end, std::move(set)});
}

const ValueColumns* ValueRanges::columns_of(Value v) const {
    const auto at = columns_.find(v.index);
    return at == columns_.end() ? nullptr : &at->second;
}

const ValueColumns& ValueRanges::constant_columns(Value v, std::int64_t axis) {
    const auto [at, is_new] = constants_.try_emplace({v.index, axis}, ValueColumns{axis, {}});
    if (!is_new) return at->second;
    const ConstExpr& e = *definition(v)->attributes.constant("value");
    const std::int64_t n = size_of(e.type, axis);
    if (e.kind == ConstExpr::Kind::splat || e.type.elements() > largest_dense_constant || e.type.elements() == 0) {
        at->second.append(n, sets_[v.index]);
        return at->second;
    }
    const Tensor t = materialize(e);
    const std::int64_t inner = t.size() / product(e.type.dims, axis + 1);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    std::vector<ValueSet> sets(static_cast<std::size_t>(n), {{{infinity, -infinity}}, false, true});
    for (std::int64_t k = 0; k < t.size(); ++k) {
        ValueSet& set = sets[static_cast<std::size_t>(k / inner % n)];
        const double x = t.at(k);
        set.pieces[0] = {std::min(set.pieces[0].low, x), std::max(set.pieces[0].high, x)};
        set.whole = set.whole && x == std::floor(x);
        set.nan = set.nan || std::isnan(x);
    }
    for (std::int64_t p = 0; p < n; ++p) at->second.append(p + 1, std::move(sets[static_cast<std::size_t>(p)]));
    return at->second;
}

// The same runs are asked for each time that something is computed.
const ValueSet& ValueRanges::constant_between(Value v, const ValueColumns& columns, std::int64_t begin,
                                              std::int64_t end) {
    const auto [at, is_new] = unions_.try_emplace({v.index, columns.axis, begin, end});
    if (is_new) at->second = columns.between(begin, end);
    return at->second;
}

std::optional<ValueColumns> ValueRanges::columns_result(const Op& op) {
    const Type& type = function_->type(op.results[0]);
    if (!type.is_tensor() || op.operands.empty() || !op.operands[0]) return std::nullopt;
    if (op_def(op.name).acts_by_element()) return columns_by_element(op);
    if (op.name == "concat") return columns_of_parts(op);
    const ValueColumns* x = columns_of(op.operands[0]);
    if (x == nullptr) return std::nullopt;
    if (const LookupRule& rule = op_def(op.name).lookup) {
        const Lookup lookup =
            rule(op.attributes, function_->type(op.operands[0]).dims, function_->type(op.operands[1]).dims);
        if (lookup.kind != Lookup::Kind::rows) return std::nullopt;
        return columns_of_rows(op, *x, static_cast<std::int64_t>(lookup.axis));
    }
    return columns_of_view(op, *x);
}

// Runs are those of the operands that are followed; a constant has what it has in them.
std::optional<ValueColumns> ValueRanges::columns_by_element(const Op& op) {
    const std::int64_t rank = function_->type(op.results[0]).rank();
    ValueColumns out{-1, {}};
    std::vector<std::int64_t> ends;
    const auto own_axis = [&](Value v) { return out.axis - (rank - function_->type(v).rank()); };
    for (Value v : op.operands) {
        const ValueColumns* x = v ? columns_of(v) : nullptr;
        if (x == nullptr) continue;
        const std::int64_t axis = x->axis + rank - function_->type(v).rank();
        if (out.axis >= 0 && axis != out.axis) return std::nullopt;
        out.axis = axis;
        for (const ValueColumns::Run& run : x->runs) ends.push_back(run.end);
    }
    if (out.axis < 0) return std::nullopt;
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    struct Varying {
        Value value;
        const ValueColumns* columns;
        bool constant;
        ValueSet before;
    };
    std::vector<Varying> varying;
    for (Value v : op.operands) {
        if (!v) continue;
        const std::int64_t axis = own_axis(v);
        const Op* from = definition(v);
        if (const ValueColumns* x = columns_of(v))
            varying.push_back({v, x, false, sets_[v.index]});
        else if (from != nullptr && is_constant_op(*from) && size_of(function_->type(v), axis) > 1)
            varying.push_back({v, &constant_columns(v, axis), true, sets_[v.index]});
    }
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
        for (const Varying& x : varying)
            sets_[x.value.index] =
                x.constant ? constant_between(x.value, *x.columns, begin, end) : x.columns->between(begin, end);
        out.append(end, result(op));
        begin = end;
    }
    for (Varying& x : varying) sets_[x.value.index] = std::move(x.before);
    return out;
}

std::optional<ValueColumns> ValueRanges::columns_of_view(const Op& op, const ValueColumns& x) const {
    const std::optional<ViewIndex> view = view_index(*function_, op);
    if (!view) return std::nullopt;
    const Type &from = function_->type(op.operands[0]), &to = function_->type(op.results[0]);
    const std::int64_t n = size_of(from, x.axis);
    ValueColumns out = x;
    if (view->kind == ViewIndex::Kind::regrouped) {
        for (out.axis = 0; out.axis < to.rank(); ++out.axis)
            if (size_of(to, out.axis) == n && product(to.dims, out.axis) == product(from.dims, x.axis)) return out;
        return std::nullopt;
    }
    const auto& [axis, begin, step] = view->axes[static_cast<std::size_t>(x.axis)];
    out.axis = static_cast<std::int64_t>(axis);
    const std::int64_t count = size_of(to, out.axis);
    if (step == 0 || (begin == 0 && step == 1 && count == n)) return out;
    out.runs.clear();
    if (step == 1) {
        const std::int64_t end = begin + count;
        std::int64_t first = begin;
        for (const ValueColumns::Run& run : x.runs) {
            if (run.end <= first) continue;
            out.append(std::min(run.end, end) - begin, run.set);
            first = run.end;
            if (first >= end) break;
        }
        return out;
    }
    for (std::int64_t p = 0; p < count; ++p) out.append(p + 1, x.between(begin + p * step, begin + p * step + 1));
    return out;
}

// Of known ones alone.
std::optional<ValueColumns> ValueRanges::columns_of_rows(const Op& op, const ValueColumns& x, std::int64_t axis) const {
    const Type &from = function_->type(op.operands[0]), &to = function_->type(op.results[0]);
    const std::int64_t index_rank = function_->type(op.operands[1]).rank();
    ValueColumns out = x;
    if (axis != x.axis) {
        if (axis < x.axis) out.axis += index_rank - 1;
        return out;
    }
    const Op* known = definition(op.operands[1]);
    if (known == nullptr || !is_constant_op(*known)) return std::nullopt;
    const Tensor index = materialize(*known->attributes.constant("value"));
    const std::int64_t n = size_of(from, axis);
    out.runs.clear();
    const auto row = [&](std::int64_t k) {
        const std::int64_t p = index.i[static_cast<std::size_t>(k)];
        return x.between(p < 0 ? p + n : p, (p < 0 ? p + n : p) + 1);
    };
    if (index_rank == 1) {
        for (std::int64_t k = 0; k < index.size(); ++k) out.append(k + 1, row(k));
        return out;
    }
    ValueSet all;
    for (std::int64_t k = 0; k < index.size(); ++k) all.add(row(k));
    out.axis = 0;
    out.append(to.rank() == 0 ? 1 : to.dims[0], std::move(all));
    return out;
}

std::optional<ValueColumns> ValueRanges::columns_of_parts(const Op& op) const {
    const Type& to = function_->type(op.results[0]);
    const std::int64_t axis = *normalize_axis(op.attributes.integer("axis"), to.rank());
    ValueColumns out{axis, {}};
    std::int64_t begin = 0;
    for (Value v : op.operands) {
        const ValueColumns* x = columns_of(v);
        const std::int64_t n = size_of(function_->type(v), axis);
        if (x != nullptr && x->axis != axis) return std::nullopt;
        if (n == 0) continue;
        if (x == nullptr)
            out.append(begin + n, sets_[v.index]);
        else
            for (const ValueColumns::Run& run : x->runs) out.append(begin + run.end, run.set);
        begin += n;
    }
    return out;
}

}  // namespace thunderc
