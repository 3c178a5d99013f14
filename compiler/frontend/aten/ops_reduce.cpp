// SPDX-License-Identifier: Apache-2.0
// Reductions and running sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"

namespace thunderc::aten {
namespace {

// The dimensions to reduce over, in order: of none all.
Dims axes_of(Node& n, std::int64_t rank) {
    Dims axes;
    const char* name = n.has("dim") ? "dim" : "dims";
    for (const std::int64_t d : n.integers(name).value_or(Dims{})) axes.push_back(n.axis(d, rank));
    if (axes.empty()) {
        axes.resize(static_cast<std::size_t>(rank));
        std::iota(axes.begin(), axes.end(), 0);
    }
    std::sort(axes.begin(), axes.end());
    return rank == 0 ? Dims{} : axes;
}

Value reduced(Builder& b, std::string_view op, Value v, const Dims& axes, bool keep) {
    return axes.empty() ? v : b.op(op, {v}, {{"axes", axes}, {"keep_dims", keep}});
}

double count_of(const Dims& dims, const Dims& axes) {
    double count = 1;
    for (const std::int64_t axis : axes) count *= static_cast<double>(dims[static_cast<std::size_t>(axis)]);
    return count;
}

void sum_op(Node& n) {
    const std::string op = n.op();
    const Value x = n.tensor("self", op == "mean" ? dtype_or(n, n.type("self").dtype) : accumulated(n, "self"));
    const std::string_view ours = op == "sum" ? "reduce_sum" : op == "mean" ? "reduce_mean" : "reduce_prod";
    n.give(reduced(n.b(), ours, x, axes_of(n, n.type("self").rank()), n.boolean("keepdim", false)));
}

// amax shares its gradient among equal elements, max of a dimension gives it to the first.
void extremum_of_all(Node& n) {
    Builder& b = n.b();
    const bool logical = n.type("self").dtype == DType::boolean;
    const Value x = logical ? n.tensor("self", DType::i32) : n.tensor("self");
    const bool most = n.op() == "amax" || n.op() == "max";
    const Value v = reduced(b, most ? "reduce_max" : "reduce_min", x, axes_of(n, n.type("self").rank()),
                            n.boolean("keepdim", false));
    n.give(logical ? b.cast(v, DType::boolean) : v);
}

// The first of the largest elements, along a dimension; of the smallest ones it is that of what runs the other way.
Value index_of_extremum(Builder& b, Value x, std::int64_t axis, bool largest, bool keep) {
    const DType dtype = b.type(x).dtype;
    if (dtype == DType::boolean) x = b.cast(x, DType::i32);
    if (!largest) x = is_float(dtype) ? b.neg(x) : b.sub(b.scalar(b.type(x).dtype, -1), x);
    return b.op("argmax", {x}, {{"axis", axis}, {"keep_dims", keep}});
}

void extremum_of_dimension(Node& n) {
    Builder& b = n.b();
    const DType dtype = n.type("self").dtype;
    const Value x = dtype == DType::boolean ? n.tensor("self", DType::i32) : n.tensor("self");
    const std::int64_t axis = n.axis("dim", n.type("self").rank());
    const bool keep = n.boolean("keepdim", false), largest = n.op() == "max";
    if (n.type("self").rank() == 0) {
        n.give(n.tensor("self"), 0);
        return n.give(b.splat(Type::tensor(DType::i64, {}), 0), 1);
    }
    if (n.wants(0))
        n.give(b.cast(b.op(largest ? "reduce_max" : "reduce_min", {x},
                           {{"axes", Dims{axis}}, {"keep_dims", keep}, {"first", true}}),
                      dtype),
               0);
    if (n.wants(1)) n.give(index_of_extremum(b, x, axis, largest, keep), 1);
}

void arg_extremum(Node& n) {
    Builder& b = n.b();
    Value x = n.tensor("self");
    const bool all = !n.has("dim");
    if (all) x = b.reshape(x, {b.type(x).elements()});
    if (b.type(x).rank() == 0) return n.give(b.splat(Type::tensor(DType::i64, {}), 0));
    const std::int64_t axis = all ? 0 : n.axis("dim", b.type(x).rank());
    const bool keep = n.boolean("keepdim", false);
    const Value v = index_of_extremum(b, x, axis, n.op() == "argmax", keep && !all);
    n.give(all && keep ? b.reshape(v, Dims(n.type("self").dims.size(), 1)) : v);
}

void any_or_all(Node& n) {
    Builder& b = n.b();
    const Value truth = b.cast(n.tensor("self"), DType::boolean);
    // Of a list without dimensions there is nothing to reduce: of these alone among reductions.
    if (n.is_list("dim") && n.integers("dim")->empty()) return n.give(truth);
    const Value x = b.cast(truth, DType::i32);
    const Value v = reduced(b, n.op() == "any" ? "reduce_max" : "reduce_min", x, axes_of(n, n.type("self").rank()),
                            n.boolean("keepdim", false));
    n.give(b.cast(v, DType::boolean));
}

// What is taken off the number of elements: 1 of a sample.
double correction_of(Node& n) {
    if (n.has("correction")) return n.number("correction");
    return n.boolean("unbiased", true) ? 1 : 0;
}

void deviation(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const bool with_mean = op.ends_with("_mean"), root = op.starts_with("std");
    const Value x = n.tensor("self");
    const Type type = n.type("self");
    const Dims axes = axes_of(n, type.rank());
    const bool keep = n.boolean("keepdim", false);
    const Value mean = reduced(b, "reduce_mean", x, axes, true);
    const Value apart = b.sub(x, mean);
    const double count = count_of(type.dims, axes), less = count - correction_of(n);
    const Value squares = reduced(b, "reduce_sum", b.mul(apart, apart), axes, keep);
    const Value variance = b.mul(squares, less > 0 ? 1 / less : std::numeric_limits<double>::infinity());
    n.give(root ? b.op("sqrt", {variance}, {{"flat_at_zero", true}}) : variance, 0);
    if (with_mean) n.give(keep || axes.empty() ? mean : b.reshape(mean, b.type(squares).dims), 1);
}

void log_of_sum(Node& n) {
    Builder& b = n.b();
    const Value x = n.tensor("self", fractional(n.type("self").dtype));
    const Dims axes = axes_of(n, n.type("self").rank());
    if (axes.empty()) return n.give(x);
    const Value v = b.op("log_sum_exp", {x}, {{"axes", axes}});
    Dims dims;
    const bool keep = n.boolean("keepdim", false);
    for (std::int64_t k = 0; k < n.type("self").rank(); ++k) {
        const bool reduces = std::find(axes.begin(), axes.end(), k) != axes.end();
        if (!reduces) dims.push_back(n.type("self").dims[static_cast<std::size_t>(k)]);
        if (reduces && keep) dims.push_back(1);
    }
    n.give(b.reshape(v, dims));
}

// The p-th root of the sum of |x|^p. Its gradient is 0 where it is 0, as torch's.
void norm_op(Node& n) {
    Builder& b = n.b();
    const DType dtype = dtype_or(n, fractional(n.type("self").dtype));
    const Value x = n.tensor("self", dtype);
    const double p = n.number(n.has("ord") ? "ord" : "p", 2);
    const Dims axes = axes_of(n, n.type("self").rank());
    const bool keep = n.boolean("keepdim", false);
    const Value zero = b.scalar(dtype, 0);
    Value v;
    if (p == 2) {
        v = b.op("sqrt", {reduced(b, "reduce_sum", b.mul(x, x), axes, keep)}, {{"flat_at_zero", true}});
    } else if (p == 1) {
        v = reduced(b, "reduce_sum", b.op("abs", {x}), axes, keep);
    } else if (std::isinf(p)) {
        v = reduced(b, p > 0 ? "reduce_max" : "reduce_min", b.op("abs", {x}), axes, keep);
    } else if (p == 0) {
        v = reduced(b, "reduce_sum", b.cast(b.op("ne", {x, zero}), dtype), axes, keep);
    } else {
        const auto power = [&](Value of, double exponent) {
            if (exponent < 0) return b.op("pow", {of, b.scalar(dtype, exponent)});  // infinite at 0
            const Value none = b.op("eq", {of, zero});
            const Value base = b.op("select", {none, b.scalar(dtype, 1), of});
            return b.op("select", {none, zero, b.op("pow", {base, b.scalar(dtype, exponent)})});
        };
        v = power(reduced(b, "reduce_sum", power(b.op("abs", {x}), p), axes, keep), 1 / p);
    }
    n.give(v);
}

// Norms of matrices: "fro" of their elements; the largest or smallest sum of sizes in a column (1, -1) or a row (inf).
void matrix_norm_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const DType dtype = dtype_or(n, fractional(type.dtype));
    const Value x = n.tensor("self", dtype);
    const std::string name = n.text("ord", n.call().target.ends_with(".str_ord") ? "fro" : "");
    const double p = name.empty() ? n.number("ord", 2) : 0;
    const Dims given = n.integers("dim").value_or(Dims{-2, -1});
    if (given.size() != 2 || type.rank() < 2) n.fail(fmt::format("{} of two dimensions", n.call().target));
    const std::int64_t rows = n.dimension(given[0], type.rank()), columns = n.dimension(given[1], type.rank());
    const bool keep = n.boolean("keepdim", false);
    Dims both = {std::min(rows, columns), std::max(rows, columns)};
    if (name == "fro")
        return n.give(b.op("sqrt", {reduced(b, "reduce_sum", b.mul(x, x), both, keep)}, {{"flat_at_zero", true}}));
    const bool by_column = std::abs(p) == 1;
    if (!name.empty() || !(by_column || std::isinf(p)))
        n.fail(fmt::format("a norm of matrices by their singular values ({}) is not supported",
                           name.empty() ? fmt::format("{}", p) : name),
               "choose \"fro\", 1 or inf");
    const Value sums = reduced(b, "reduce_sum", b.op("abs", {x}), {by_column ? rows : columns}, true);
    n.give(reduced(b, p > 0 ? "reduce_max" : "reduce_min", sums, both, keep));
}

// Of vectors, or of matrices: where two dimensions are named, or the tensor has two and none is, and the norm has a
// name or a number.
void any_norm(Node& n) {
    const std::optional<Dims> dims = n.integers("dim");
    const std::size_t reduced_dims = dims ? dims->size() : n.type("self").dims.size();
    n.has("ord") && reduced_dims == 2 ? matrix_norm_op(n) : norm_op(n);
}

void running_sum(Node& n) {
    const Value x = n.tensor("self", accumulated(n, "self"));
    const std::int64_t rank = n.type("self").rank(), axis = n.axis("dim", rank);
    if (rank == 0) return n.give(x);
    n.give(n.b().op("cumsum", {x}, {{"axis", axis}, {"exclusive", false}, {"reverse", false}}));
}

// Shifted copies of doubling distance are multiplied, as `cumsum` adds them: exact for zeros, and differentiable there.
void running_product(Node& n) {
    Builder& b = n.b();
    Value v = n.tensor("self", accumulated(n, "self"));
    const Type type = b.type(v);
    if (type.dims.empty()) return n.give(v);
    const std::int64_t axis = n.axis("dim", type.rank()), size = type.dims[static_cast<std::size_t>(axis)];
    for (std::int64_t by = 1; by < size; by *= 2) {
        Dims before(type.dims.size(), 0);
        const Dims none = before;
        before[static_cast<std::size_t>(axis)] = by;
        const Value kept = b.slice(v, axis, 0, size - by);
        v = b.mul(v, b.op("pad", {kept}, {{"low", before}, {"high", none}, {"value", 1.0}}));
    }
    n.give(v);
}

// x y / (max(|x|, eps) max(|y|, eps)), along a dimension.
void cosine_of_angle(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(promoted(n, {"x1", "x2"}));
    const Dims both = broadcast(n.type("x1").dims, n.type("x2").dims).value_or(n.type("x1").dims);
    const Value x = b.broadcast_to(n.tensor("x1", dtype), both), y = b.broadcast_to(n.tensor("x2", dtype), both);
    const std::int64_t axis = n.dimension("dim", static_cast<std::int64_t>(both.size()), 1);
    const Value eps = b.scalar(dtype, n.number("eps", 1e-8));
    const auto length = [&](Value of) {
        const Value size = b.op("sqrt", {b.reduce_sum(b.mul(of, of), {axis}, true)}, {{"flat_at_zero", true}});
        return b.op("clip", {size, eps});
    };
    n.give(b.reduce_sum(b.mul(b.div(x, length(x)), b.div(y, length(y))), {axis}));
}

// Differences of neighbours, n times, with what is put before and behind them.
void difference(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "prepend", "append"});
    const std::int64_t rank = n.type("self").rank(), axis = n.dimension("dim", rank, -1);
    std::vector<Value> all;
    if (n.has("prepend")) all.push_back(n.tensor("prepend", dtype));
    all.push_back(n.tensor("self", dtype));
    if (n.has("append")) all.push_back(n.tensor("append", dtype));
    Value v = all.size() == 1 ? all[0] : b.op("concat", all, {{"axis", axis}});
    constexpr std::int64_t most = 4096;  // each takes three ops
    if (n.integer("n", 1) > most) n.fail(fmt::format("{} {} times", n.call().target, n.integer("n")));
    if (n.integer("n", 1) == 0) return n.give(n.tensor("self"));  // as it came
    const std::int64_t there = b.type(v).dims.empty() ? 0 : b.type(v).dims[static_cast<std::size_t>(axis)];
    for (std::int64_t k = 0; k < std::min(n.integer("n", 1), there); ++k) {
        const std::int64_t size = b.type(v).dims[static_cast<std::size_t>(axis)];
        const Value later = b.slice(v, axis, 1, size), sooner = b.slice(v, axis, 0, size - 1);
        v = dtype == DType::boolean ? b.op("xor", {later, sooner}) : b.sub(later, sooner);
    }
    n.give(v);
}

// How many elements lie in each of equal parts of a range; its end belongs to the last.
void histogram(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const std::int64_t bins = n.integer("bins", 100);
    const double least = n.number("min", 0), most = n.number("max", 0);
    if (!(least < most))
        n.fail("histc of a range that its data has", "say from where to where: torch.histc(x, bins, min, max)");
    if (bins < 1) n.fail(fmt::format("histc of {} bins", bins));
    const Value x = b.reshape(n.tensor("self", DType::f32), {type.elements(), 1});
    const auto number = [&](double v) { return b.scalar(DType::f32, v); };
    const Value part = b.mul(b.add(x, -least), static_cast<double>(bins) / (most - least));
    const Value last = number(static_cast<double>(bins - 1));
    const Value bin = b.op("select", {b.op("eq", {x, number(most)}), last, b.op("floor", {part})});
    const Value inside = b.op("and", {b.op("ge", {x, number(least)}), b.op("le", {x, number(most)})});
    const Value each = b.constant(ConstExpr::affine(Type::tensor(DType::f32, {1, bins}), 0, {0, 1}));
    const Value counted = b.cast(b.op("and", {b.op("eq", {bin, each}), inside}), DType::f32);
    n.give(b.cast(b.reduce_sum(counted, {0}), type.dtype));
}

// Of those that are numbers.
void sum_of_numbers(Node& n) {
    Builder& b = n.b();
    const Value x = n.tensor("self", accumulated(n, "self"));
    const DType dtype = b.type(x).dtype;
    const bool mean = n.op() == "nanmean", keep = n.boolean("keepdim", false);
    const Dims axes = axes_of(n, n.type("self").rank());
    if (!is_float(dtype)) return n.give(reduced(b, "reduce_sum", x, axes, keep));
    const Value none = b.op("is_nan", {x});
    const Value sum = reduced(b, "reduce_sum", b.op("select", {none, b.scalar(dtype, 0), x}), axes, keep);
    if (!mean) return n.give(sum);
    const Value counts = b.cast(b.op("not", {none}), dtype);
    n.give(b.div(sum, reduced(b, "reduce_sum", counts, axes, keep)));
}

void least_and_most(Node& n) {
    Builder& b = n.b();
    const DType dtype = n.type("self").dtype;
    const Value x = dtype == DType::boolean ? n.tensor("self", DType::i32) : n.tensor("self");
    const Dims axes = axes_of(n, n.type("self").rank());
    const bool keep = n.boolean("keepdim", false);
    if (n.wants(0)) n.give(b.cast(reduced(b, "reduce_min", x, axes, keep), dtype), 0);
    if (n.wants(1)) n.give(b.cast(reduced(b, "reduce_max", x, axes, keep), dtype), 1);
}

// The mean of each two elements next to one another, times the distance between them.
void trapezoids(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(n.type("y").dtype);
    const Value y = n.tensor("y", dtype);
    const std::int64_t rank = b.type(y).rank(), axis = n.axis("dim", rank, -1);
    if (rank == 0 || n.has("x")) n.fail(fmt::format("{} over given places is not supported", n.call().target));
    const std::int64_t size = b.type(y).dims[static_cast<std::size_t>(axis)];
    if (size < 2) n.fail(fmt::format("{} of {} elements", n.call().target, size));
    const Value both = b.add(b.slice(y, axis, 1, size), b.slice(y, axis, 0, size - 1));
    n.give(b.mul(b.reduce_sum(both, {axis}), n.number("dx", 1) / 2));
}

constexpr OpImporter reduce_importers[] = {
    {"sum", sum_op, own_memory, computed},
    {"mean", sum_op},
    {"prod", sum_op, own_memory, computed},
    {"amax", extremum_of_all},
    {"amin", extremum_of_all},
    {"max", extremum_of_all},
    {"min", extremum_of_all},
    {"max.dim", extremum_of_dimension},
    {"min.dim", extremum_of_dimension},
    {"argmax", arg_extremum},
    {"argmin", arg_extremum},
    {"any", any_or_all},
    {"all", any_or_all},
    {"var", deviation},
    {"std", deviation},
    {"var_mean", deviation},
    {"std_mean", deviation},
    {"logsumexp", log_of_sum},
    {"norm", norm_op},
    {"linalg_vector_norm", norm_op},
    {"nansum", sum_of_numbers},
    {"nanmean", sum_of_numbers},
    {"aminmax", least_and_most},
    {"trapezoid", trapezoids},
    {"trapz", trapezoids},
    {"linalg_matrix_norm", matrix_norm_op},
    {"linalg_norm", any_norm},
    {"cumsum", running_sum, own_memory, computed},
    {"cumprod", running_product, own_memory, computed},
    {"cosine_similarity", cosine_of_angle},
    {"diff", difference, own_memory, computed},
    {"histc", histogram},
};

}  // namespace

std::span<const OpImporter> reduce_ops() {
    return reduce_importers;
}

}  // namespace thunderc::aten
