// SPDX-License-Identifier: Apache-2.0
#include "compiler/interpreter/constant_fold.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "compiler/interpreter/constant_value.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/user_ops.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Kind = ConstExpr::Kind;

// Below this, writing elements out reads better than an expression: shapes, axes, slice bounds.
constexpr std::int64_t always_dense = 64;

Type with_dims(const Type& type, Dims dims) {
    return Type::tensor(type.dtype, std::move(dims));
}

// Affine coefficients of a splat or affine expression.
struct Affine {
    double base = 0;
    std::vector<double> step;
};

std::optional<Affine> as_affine(const ConstExpr& e) {
    if (e.kind == Kind::splat) return Affine{e.value, std::vector<double>(e.type.dims.size(), 0)};
    if (e.kind == Kind::affine) return Affine{e.base, e.step};
    return std::nullopt;
}

// The smallest and the largest element.
std::pair<double, double> range(const Affine& a, const Dims& dims) {
    double low = a.base, high = a.base;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        double reach = a.step[d] * static_cast<double>(dims[d] - 1);
        (reach < 0 ? low : high) += reach;
    }
    return {low, high};
}

bool all_integers(const Affine& a) {
    auto whole = [](double v) { return v == std::floor(v) && std::abs(v) < 9e15; };
    return whole(a.base) && std::all_of(a.step.begin(), a.step.end(), whole);
}

// Whether every element is exact in the type, so that affine arithmetic needs no rounding.
bool exact_in(const Affine& a, const Type& type) {
    if (!all_integers(a)) return false;
    auto [low, high] = range(a, type.dims);
    double largest = std::max(std::abs(low), std::abs(high));
    if (type.dtype == DType::boolean) return false;
    // Computed in double. Integers end before 2^digits.
    const double digits = std::min(row_of(type.dtype).digits, row_of(DType::f64).digits), end = std::exp2(digits);
    return is_integer(type.dtype) && digits < row_of(DType::f64).digits ? largest < end : largest <= end;
}

// The steps of the same elements in another shape, as a view has strides; nullopt where a copy would be needed.
std::optional<std::vector<double>> reshape_steps(const Dims& from, const std::vector<double>& step, const Dims& to) {
    std::vector<double> out(to.size(), 0);
    Dims old_dims;
    std::vector<double> old_step;
    for (std::size_t d = 0; d < from.size(); ++d) {  // dimensions of one element have no step
        if (from[d] == 1) continue;
        old_dims.push_back(from[d]);
        old_step.push_back(step[d]);
    }
    std::size_t oi = 0, ni = 0;
    while (ni < to.size() && oi < old_dims.size()) {
        std::size_t oj = oi + 1, nj = ni + 1;
        std::int64_t old_size = old_dims[oi], new_size = to[ni];
        while (old_size != new_size) {
            if (new_size < old_size) {
                if (nj == to.size()) return std::nullopt;
                new_size *= to[nj++];
            } else {
                if (oj == old_dims.size()) return std::nullopt;
                old_size *= old_dims[oj++];
            }
        }
        for (std::size_t k = oi; k + 1 < oj; ++k)
            if (old_step[k] != old_step[k + 1] * static_cast<double>(old_dims[k + 1])) return std::nullopt;
        out[nj - 1] = old_step[oj - 1];
        for (std::size_t k = nj - 1; k > ni; --k) out[k - 1] = out[k] * static_cast<double>(to[k]);
        oi = oj;
        ni = nj;
    }
    return out;
}

Tensor seen_through(const ViewIndex& view, const Tensor& t, const Dims& dims) {
    const Dims strides = dense_strides(t.type.dims);
    Dims from_strides(dims.size(), 0);
    std::int64_t from = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) {
        from_strides[view.axes[d].axis] = view.axes[d].step * strides[d];
        from += view.axes[d].begin * strides[d];
    }
    Tensor out(with_dims(t.type, dims));
    Dims index(dims.size(), 0);
    for (std::int64_t k = 0; k < out.size(); ++k) {
        if (out.floating())
            out.f[static_cast<std::size_t>(k)] = t.f[static_cast<std::size_t>(from)];
        else
            out.i[static_cast<std::size_t>(k)] = t.i[static_cast<std::size_t>(from)];
        for (std::size_t d = dims.size(); d-- > 0;) {
            from += from_strides[d];
            if (++index[d] < dims[d]) break;
            from -= from_strides[d] * dims[d];
            index[d] = 0;
        }
    }
    return out;
}

Kind kind_of(const OpDef& elementwise) {
    return elementwise.moves && elementwise.moves->chosen ? Kind::select : Kind::elementwise;
}

// An elementwise op of splats, by the op's reference, which is exact for integers; nullptr where it is an integer that
// no splat can hold, too often to be written out.
ConstPtr splat_result(const std::string& name, const std::vector<ConstPtr>& operands, const Type& type) {
    ConstExpr one;
    one.kind = kind_of(op_def(name));
    one.type = with_dims(type, {});
    one.op_name = name;
    for (const ConstPtr& e : operands) one.operands.push_back(ConstExpr::splat(with_dims(e->type, {}), e->value));
    Tensor value = materialize(one);
    round_to_dtype(value);
    if (value.floating() || is_exact(value.i[0])) return ConstExpr::splat(type, value.at(0));
    if (element_count(type.dims) > largest_dense_constant) return nullptr;
    return ConstExpr::dense(broadcast_tensor(value, type.dims));
}

// The same node with each operand seen through `view`.
template <typename View>
ConstPtr rebuild(const ConstExpr& e, const Dims& dims, View view) {
    std::vector<ConstPtr> operands;
    for (const ConstPtr& operand : e.operands) {
        operands.push_back(view(operand));
        if (!operands.back()) return nullptr;
    }
    if (e.kind == Kind::select) return ConstExpr::select(operands[0], operands[1], operands[2]);
    return ConstExpr::elementwise(with_dims(e.type, dims), e.op_name, std::move(operands));
}

ConstPtr view_constant(const ConstPtr& expr, const ViewIndex& view, const Dims& dims) {
    if (view.kind == ViewIndex::Kind::regrouped) return reshape_constant(expr, dims);
    if (expr->kind == Kind::splat) return ConstExpr::splat(with_dims(expr->type, dims), expr->value);
    if (expr->kind == Kind::affine) {
        std::vector<double> steps(dims.size(), 0);
        double base = expr->base;
        for (std::size_t d = 0; d < expr->step.size(); ++d) {
            const auto& [axis, begin, step] = view.axes[d];
            base += expr->step[d] * static_cast<double>(begin);
            steps[axis] = expr->step[d] * static_cast<double>(step);
        }
        return ConstExpr::affine(with_dims(expr->type, dims), base, std::move(steps));
    }
    if (expr->kind == Kind::dense) {
        const std::int64_t count = element_count(dims);
        if (count > largest_dense_constant && count != expr->data->size()) return nullptr;
        return ConstExpr::dense(seen_through(view, *expr->data, dims));
    }
    return rebuild(*expr, dims, [&](const ConstPtr& e) { return view_constant(e, view, dims); });
}

// Sums and products with a splat keep affine expressions affine, as far as the type has them exactly.
ConstPtr affine_result(const OpDef& def, const std::vector<ConstPtr>& operands, const Type& type) {
    std::vector<Affine> a;
    for (const ConstPtr& e : operands) {
        std::optional<Affine> affine = as_affine(*e);
        if (!affine || !exact_in(*affine, e->type)) return nullptr;
        a.push_back(std::move(*affine));
    }
    Affine out;
    out.step.assign(type.dims.size(), 0);
    auto add = [&](const Affine& of, double k) {
        out.base += k * of.base;
        for (std::size_t d = 0; d < of.step.size(); ++d) out.step[d] += k * of.step[d];
    };
    if (!def.combination.empty()) {
        for (std::size_t k = 0; k < a.size(); ++k) add(a[k], def.combination[k]);
    } else if (def.combines == Reduction::product) {
        const std::size_t splat = operands[1]->kind == Kind::splat ? 1 : 0;
        if (operands[splat]->kind != Kind::splat) return nullptr;
        add(a[1 - splat], a[splat].base);
    } else {
        return nullptr;
    }
    if (!exact_in(out, type)) return nullptr;
    return ConstExpr::affine(type, out.base, std::move(out.step));
}

// A comparison of affine expressions whose answer is the same everywhere.
std::optional<bool> decided(Comparison is, const ConstExpr& left, const ConstExpr& right) {
    std::optional<Affine> a = as_affine(left), b = as_affine(right);
    if (!a || !b || !std::isfinite(a->base) || !std::isfinite(b->base)) return std::nullopt;
    Affine difference{a->base - b->base, {}};
    for (std::size_t d = 0; d < a->step.size(); ++d) difference.step.push_back(a->step[d] - b->step[d]);
    auto [low, high] = range(difference, left.type.dims);
    auto answer = [](bool always, bool never) -> std::optional<bool> {
        return always ? std::optional(true) : never ? std::optional(false) : std::nullopt;
    };
    switch (is) {
        case Comparison::lt: return answer(high < 0, low >= 0);
        case Comparison::le: return answer(high <= 0, low > 0);
        case Comparison::gt: return answer(low > 0, high <= 0);
        case Comparison::ge: return answer(low >= 0, high < 0);
        case Comparison::eq: return answer(low == 0 && high == 0, low > 0 || high < 0);
        case Comparison::ne: return answer(low > 0 || high < 0, low == 0 && high == 0);
    }
    throw InternalError("a comparison of no kind");
}

ConstPtr boolean_splat(const Type& type, bool value) {
    return ConstExpr::splat(type, value ? 1 : 0);
}

bool is_splat(const ConstPtr& e, double value) {
    return e->kind == Kind::splat && e->value == value;
}

bool splat_branches(const ConstExpr& e) {
    return e.kind == Kind::select && e.operands[1]->kind == Kind::splat && e.operands[2]->kind == Kind::splat;
}

ConstPtr simplified_select(const ConstPtr& condition, const ConstPtr& then, const ConstPtr& otherwise) {
    if (condition->kind == Kind::splat) return condition->value != 0 ? then : otherwise;
    if (equal(*then, *otherwise)) return then;
    if (then->type.dtype == DType::boolean && is_splat(then, 1) && is_splat(otherwise, 0)) return condition;
    if (then->type.dtype == DType::boolean && is_splat(then, 0) && is_splat(otherwise, 1))
        return elementwise_constant("not", {condition}, then->type);
    if (then->type.dtype == DType::boolean && is_splat(otherwise, 0) && then->kind != Kind::dense)
        return elementwise_constant("and", {condition, then}, then->type);
    return ConstExpr::select(condition, then, otherwise);
}

// What holds whatever the number of elements is; operands have the result's dims.
ConstPtr simplified_elementwise(const std::string& name, const std::vector<ConstPtr>& e, const Type& type) {
    if (std::all_of(e.begin(), e.end(), [](const ConstPtr& o) { return o->kind == Kind::splat; }))
        return splat_result(name, e, type);
    const OpDef& def = op_def(name);
    if (kind_of(def) == Kind::select) return simplified_select(e[0], e[1], e[2]);
    const bool converts = def.combination == Combination{1};
    if (converts && e[0]->type == type) return e[0];
    if (def.logic && e.size() == 2) {  // each absorbs what the other leaves
        const double neutral = *def.neutral;
        for (std::size_t k = 0; k < 2; ++k) {
            if (is_splat(e[k], neutral)) return e[1 - k];
            if (is_splat(e[k], 1 - neutral)) return boolean_splat(type, neutral == 0);
        }
        if (equal(*e[0], *e[1])) return e[0];
    }
    if (def.logic == Logic::negation && e[0]->kind == Kind::elementwise && e[0]->op_name == name)
        return e[0]->operands[0];
    if (def.comparison)
        if (std::optional<bool> answer = decided(*def.comparison, *e[0], *e[1])) return boolean_splat(type, *answer);
    if (ConstPtr affine = affine_result(def, e, type)) return affine;
    if (converts && e[0]->type.dtype == DType::boolean && e[0]->kind != Kind::dense)
        return simplified_select(e[0], ConstExpr::splat(type, 1), ConstExpr::splat(type, 0));
    // f(select(c, a, b), k) is select(c, f(a, k), f(b, k)) for splats a, b, k.
    std::size_t selects = 0, splats = 0, at = 0;
    for (std::size_t k = 0; k < e.size(); ++k) {
        if (splat_branches(*e[k])) {
            ++selects;
            at = k;
        } else if (e[k]->kind == Kind::splat) {
            ++splats;
        }
    }
    if (selects == 1 && selects + splats == e.size()) {
        std::vector<ConstPtr> operands = e;
        auto branch = [&](std::size_t side) {
            operands[at] = e[at]->operands[side];
            return splat_result(name, operands, type);
        };
        ConstPtr then = branch(1), otherwise = branch(2);
        if (then && otherwise) return simplified_select(e[at]->operands[0], then, otherwise);
    }
    return nullptr;
}

}  // namespace

std::optional<double> splat_value(const ConstExpr& e) {
    if (e.kind == Kind::splat) return e.value;
    if (e.kind == Kind::dense && e.data->size() == 1 && (e.data->floating() || is_exact(e.data->i[0])))
        return e.data->at(0);
    return std::nullopt;
}

ConstPtr broadcast_constant(const ConstPtr& expr, const Dims& dims) {
    const Dims& from = expr->type.dims;
    return from == dims ? expr : view_constant(expr, op_def("broadcast_to").view({}, from, dims), dims);
}

ConstPtr reshape_constant(const ConstPtr& expr, const Dims& dims) {
    if (expr->type.dims == dims) return expr;
    if (expr->kind == Kind::splat) return ConstExpr::splat(with_dims(expr->type, dims), expr->value);
    if (expr->kind == Kind::affine) {
        if (auto step = reshape_steps(expr->type.dims, expr->step, dims))
            return ConstExpr::affine(with_dims(expr->type, dims), expr->base, std::move(*step));
    } else if (expr->kind != Kind::dense) {
        if (ConstPtr e = rebuild(*expr, dims, [&](const ConstPtr& o) { return reshape_constant(o, dims); })) return e;
    }
    if (element_count(dims) > largest_dense_constant && expr->kind != Kind::dense) return nullptr;
    Tensor t = materialize(*expr);
    t.type.dims = dims;
    return ConstExpr::dense(std::move(t));
}

ConstPtr transpose_constant(const ConstPtr& expr, const Dims& permutation) {
    const Dims& from = expr->type.dims;
    Dims dims;
    for (std::int64_t p : permutation) dims.push_back(from[static_cast<std::size_t>(p)]);
    const Attributes attributes = {{"permutation", permutation}};
    return view_constant(expr, op_def("transpose").view(attributes, from, dims), dims);
}

namespace {

ConstPtr elementwise_of(const std::string& name, std::vector<ConstPtr> operands, const Type& type) {
    bool any_dense = false;
    for (ConstPtr& operand : operands) {
        operand = broadcast_constant(operand, type.dims);
        if (!operand) return nullptr;
        any_dense = any_dense || operand->kind == Kind::dense;
    }
    if (ConstPtr simple = simplified_elementwise(name, operands, type)) return simple;
    const std::int64_t count = element_count(type.dims);
    // Predicates and what they select stay expressions: they are masks, and are read from their form.
    const Kind kind = kind_of(op_def(name));
    const bool predicate = type.dtype == DType::boolean || kind == Kind::select;
    if (count > always_dense && !any_dense && (predicate || count > largest_dense_constant)) {
        if (kind == Kind::select) return ConstExpr::select(operands[0], operands[1], operands[2]);
        return ConstExpr::elementwise(type, name, std::move(operands));
    }
    if (count > largest_dense_constant) return nullptr;
    ConstExpr expr;
    expr.kind = kind;
    expr.type = type;
    expr.op_name = name;
    expr.operands = std::move(operands);
    Tensor values = materialize(expr);
    round_to_dtype(values);
    return ConstExpr::dense(std::move(values));
}

// A mask takes some ten nodes. Whoever reads an expression walks through all of its tree, so one that a graph doubles
// again and again has to stay ops.
constexpr std::size_t most_nodes = 1000;

}  // namespace

namespace {

// Of what is no table: a predicate over row and column, and what it selects.
ConstPtr triangle_of(const Op& op, const ConstPtr& x) {
    const Type predicate = Type::tensor(DType::boolean, x->type.dims),
               distance = Type::tensor(DType::i64, predicate.dims);
    std::vector<double> step(x->type.rank(), 0);  // column - row
    step[step.size() - 2] = -1;
    step.back() = 1;
    const auto k = static_cast<double>(op.attributes.integer("k"));
    ConstPtr inside =
        elementwise_constant(op.attributes.boolean("upper") ? "ge" : "le",
                             {ConstExpr::affine(distance, 0, step), ConstExpr::splat(distance, k)}, predicate);
    return inside ? elementwise_constant("select", {inside, x, ConstExpr::splat(x->type, 0)}, x->type) : nullptr;
}

}  // namespace

ConstPtr elementwise_constant(const std::string& name, std::vector<ConstPtr> operands, const Type& type) {
    ConstPtr e = elementwise_of(name, std::move(operands), type);
    return e && e->nodes <= most_nodes ? e : nullptr;
}

std::vector<ConstPtr> fold_op(const Op& op, std::span<const ConstPtr> operands, std::span<const Type> results) {
    const OpDef& def = op_def(op.name);
    auto one = [](ConstPtr e) { return e ? std::vector<ConstPtr>{std::move(e)} : std::vector<ConstPtr>{}; };
    if (is_constant_op(op)) return {op.attributes.constant("value")};
    if (def.level == OpLevel::structural || def.draws || operands.empty()) return {};
    const bool complete = std::all_of(operands.begin(), operands.end(), [](const ConstPtr& e) { return e != nullptr; });

    if (def.view) {
        const Dims& dims = results[0].dims;
        return one(view_constant(operands[0], def.view(op.attributes, operands[0]->type.dims, dims), dims));
    }
    if (complete && results.size() == 1 && def.elementwise)
        return one(elementwise_constant(op.name, {operands.begin(), operands.end()}, results[0]));
    if (op.name == "clip") {
        ConstPtr e = operands[0];
        for (std::size_t k = 1; e && k < operands.size(); ++k)
            if (operands[k]) e = elementwise_constant(k == 1 ? "max" : "min", {e, operands[k]}, results[0]);
        return one(std::move(e));
    }
    if (op.name == "trilu" && operands[0]->kind != Kind::dense && results[0].elements() > always_dense)
        return one(triangle_of(op, operands[0]));
    if (op.name == "concat" && std::all_of(operands.begin(), operands.end(), [&](const ConstPtr& e) {
            return e->kind == Kind::splat && e->value == operands[0]->value;
        }))
        return {ConstExpr::splat(results[0], operands[0]->value)};

    if (!def.reference || is_user_op(op.name)) return {};  // a function that a user brings is called
    std::int64_t elements = 0;
    for (const ConstPtr& e : operands)
        if (e) elements += e->kind == Kind::dense ? 0 : e->type.elements();
    for (const Type& type : results) elements += type.elements();
    if (elements > largest_dense_constant) return {};
    std::vector<Tensor> tensors;
    for (const ConstPtr& e : operands) tensors.push_back(e ? materialize(*e) : Tensor());
    std::vector<Tensor> values = def.reference(op, tensors, results);
    std::vector<ConstPtr> out;
    for (std::size_t k = 0; k < values.size(); ++k) {
        Tensor& t = values[k];
        check(t.type == results[k], "the reference of " + op.name + " gives another type than its shape rule");
        wrap_integers(t);
        round_to_dtype(t);
        out.push_back(ConstExpr::dense(std::move(t)));
    }
    return out;
}

}  // namespace thunderc
