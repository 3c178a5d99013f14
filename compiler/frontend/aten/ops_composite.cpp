// SPDX-License-Identifier: Apache-2.0
// Operators that PyTorch makes of others, and that exports and traces keep whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/indices.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/products.h"

namespace thunderc::aten {
namespace {

// ---- stacks ---------------------------------------------------------------------------------------------------------

// Of fewer dimensions than an operator stacks: [n] is a row of "vstack", a column of "column_stack", [1,n,1] of
// "dstack".
Dims stacked_shape(const std::string& op, Dims dims) {
    if (op == "hstack") return dims.empty() ? Dims{1} : dims;
    if (dims.empty()) dims = {1};
    if (op == "column_stack") return dims.size() == 1 ? Dims{dims[0], 1} : dims;
    if (dims.size() == 1) dims.insert(dims.begin(), 1);
    if (op == "dstack" && dims.size() == 2) dims.push_back(1);
    return dims;
}

void stack_along(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const std::vector<Value> all = n.tensors("tensors");
    if (all.empty()) n.fail(fmt::format("{} of no tensors", n.call().target));
    const DType dtype = promoted(n, all);
    std::vector<Value> parts;
    for (const Value v : all) parts.push_back(b.reshape(b.cast(v, dtype), stacked_shape(op, b.type(v).dims)));
    const bool of_vectors = b.type(parts[0]).rank() == 1;
    const std::int64_t axis = op == "vstack" || of_vectors ? 0 : op == "dstack" ? 2 : 1;
    n.give(parts.size() == 1 ? parts[0] : b.op("concat", parts, {{"axis", axis}}));
}

// ---- diagonals ------------------------------------------------------------------------------------------------------

// The last dimension becomes the k-th diagonal of matrices in two more.
Value with_diagonal(Node& n, Value v, std::int64_t k) {
    Builder& b = n.b();
    constexpr std::int64_t most = std::int64_t{1} << 31U;
    if (k < -most || k > most) n.fail(fmt::format("{} of the diagonal {}", n.call().target, k));
    Dims dims = b.type(v).dims;
    const std::int64_t size = dims.back() + std::abs(k);
    dims.push_back(1);
    v = b.reshape(v, dims);
    Dims low(dims.size(), 0), high = low;
    (k < 0 ? low : high)[dims.size() - 2] = std::abs(k);
    if (k != 0) v = b.op("pad", {v}, {{"low", low}, {"high", high}, {"value", 0.0}});
    const Type index = Type::tensor(DType::i64, {size, size});
    const ConstPtr on = ConstExpr::elementwise(
        Type::tensor(DType::boolean, {size, size}), "eq",
        {ConstExpr::affine(index, static_cast<double>(k), {1, 0}), ConstExpr::affine(index, 0, {0, 1})});
    return b.op("select", {b.constant(on), v, b.scalar(b.type(v).dtype, 0)});
}

void embedded_diagonal(Node& n) {
    const Value v = n.tensor("self");
    const std::int64_t rank = n.type("self").rank() + 1;
    if (rank < 2) n.fail(fmt::format("{} of a scalar", n.call().target));
    const std::int64_t rows = n.axis(n.integer("dim1", -2), rank), columns = n.axis(n.integer("dim2", -1), rank);
    if (rows == columns) n.fail(fmt::format("{} names a dimension twice", n.call().target));
    Dims permutation(static_cast<std::size_t>(rank), -1);
    permutation[static_cast<std::size_t>(rows)] = rank - 2;
    permutation[static_cast<std::size_t>(columns)] = rank - 1;
    std::int64_t next = 0;
    for (std::int64_t& d : permutation)
        if (d < 0) d = next++;
    n.give(n.b().transpose(with_diagonal(n, v, n.integer("offset", 0)), permutation));
}

void diagonal_or_matrix(Node& n) {
    const Dims dims = n.shape("self", 1, 2);
    const std::int64_t k = n.integer("diagonal", 0);
    n.give(dims.size() == 1 ? with_diagonal(n, n.tensor("self"), k) : diagonal_of(n.b(), n.tensor("self"), k));
}

void trace_op(Node& n) {
    n.shape("self", 2);
    n.give(n.b().reduce_sum(n.b().cast(diagonal_of(n.b(), n.tensor("self"), 0), accumulated(n, "self")), {0}));
}

// ---- products -------------------------------------------------------------------------------------------------------

// Dimensions of the one with those of the other, in pairs.
Value contracted(Node& n, Value x, Value y, const Dims& of_x, const Dims& of_y) {
    Builder& b = n.b();
    const Dims dx = b.type(x).dims, dy = b.type(y).dims;
    if (of_x.size() != of_y.size()) n.fail(fmt::format("{} of other numbers of dimensions", n.call().target));
    Dims order_x, order_y = of_y, result;
    std::int64_t inner = 1, rows = 1, columns = 1;
    for (std::size_t k = 0; k < of_x.size(); ++k) {
        const std::int64_t extent = dx[static_cast<std::size_t>(of_x[k])];
        if (extent != dy[static_cast<std::size_t>(of_y[k])]) n.fail(fmt::format("{} of other sizes", n.call().target));
        inner *= extent;
    }
    const auto names = [](const Dims& of, std::size_t d) {
        return std::find(of.begin(), of.end(), static_cast<std::int64_t>(d)) != of.end();
    };
    for (std::size_t d = 0; d < dx.size(); ++d)
        if (!names(of_x, d)) {
            order_x.push_back(static_cast<std::int64_t>(d));
            result.push_back(dx[d]);
            rows *= dx[d];
        }
    order_x.insert(order_x.end(), of_x.begin(), of_x.end());
    for (std::size_t d = 0; d < dy.size(); ++d)
        if (!names(of_y, d)) {
            order_y.push_back(static_cast<std::int64_t>(d));
            result.push_back(dy[d]);
            columns *= dy[d];
        }
    if (order_x.size() != dx.size() || order_y.size() != dy.size())
        n.fail(fmt::format("{} names a dimension twice", n.call().target));
    const Value product = numpy_matmul(b, b.reshape(b.transpose(x, order_x), {rows, inner}),
                                       b.reshape(b.transpose(y, order_y), {inner, columns}));
    return b.reshape(product, result);
}

void tensor_product(Node& n) {
    const Value x = n.fractions("self"), y = n.fractions("other");
    const auto axes = [&](std::string_view name, Value of) {
        Dims out = n.integers(name).value_or(Dims{});
        for (std::int64_t& d : out) d = n.dimension(d, n.b().type(of).rank());
        return out;
    };
    n.give(contracted(n, x, y, axes("dims_self", x), axes("dims_other", y)));
}

// Over the last dimension of both.
void inner_product(Node& n) {
    const Value x = n.fractions("self"), y = n.fractions("other");
    const std::int64_t of_x = n.b().type(x).rank(), of_y = n.b().type(y).rank();
    if (of_x == 0 || of_y == 0) return n.give(n.b().mul(x, y));
    n.give(contracted(n, x, y, {of_x - 1}, {of_y - 1}));
}

void vector_products(Node& n) {
    Builder& b = n.b();
    const Value product = b.mul(n.fractions("x"), n.fractions("y"));
    n.give(b.reduce_sum(product, {n.dimension("dim", b.type(product).rank(), -1)}));
}

// (a2 b3 - a3 b2, …) along a dimension of three; where none is given, the first of three.
void cross_product(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "other"});
    const std::optional<Dims> dims = broadcast(n.type("self").dims, n.type("other").dims);
    if (!dims) n.fail(fmt::format("the operands of {} do not broadcast to one another", n.call().target));
    const Value x = b.broadcast_to(n.tensor("self", dtype), *dims), y = b.broadcast_to(n.tensor("other", dtype), *dims);
    const auto rank = static_cast<std::int64_t>(dims->size());
    const auto first = std::find(dims->begin(), dims->end(), 3) - dims->begin();
    const std::int64_t axis = n.op() == "cross" && !n.has("dim") ? first : n.dimension("dim", rank, -1);
    if (axis >= rank || (*dims)[static_cast<std::size_t>(axis)] != 3)
        n.fail(fmt::format("{} along no dimension of three", n.call().target), {}, {}, to_string(*dims));
    const auto turned = [&](Value v, std::int64_t by) {
        return b.op("concat", {b.slice(v, axis, by, 3), b.slice(v, axis, 0, by)}, {{"axis", axis}});
    };
    n.give(b.sub(b.mul(turned(x, 1), turned(y, 2)), b.mul(turned(x, 2), turned(y, 1))));
}

// ---- elements -------------------------------------------------------------------------------------------------------

// The other one where one is no number.
void extremum_of_numbers(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "other"});
    const Value x = n.operand("self", dtype), y = n.operand("other", dtype);
    Value v = b.op(n.op() == "fmax" ? "max" : "min", {x, y});
    if (is_float(dtype)) v = b.op("select", {b.op("is_nan", {x}), y, b.op("select", {b.op("is_nan", {y}), x, v})});
    n.give(v);
}

void is_infinity(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    if (!is_float(type.dtype)) return n.give(b.splat(Type::tensor(DType::boolean, type.dims), 0));
    const double infinity = std::numeric_limits<double>::infinity();
    n.give(b.op("eq", {n.tensor("self"), b.scalar(type.dtype, n.op() == "isposinf" ? infinity : -infinity)}));
}

void angle_unit(Node& n) {
    const Value x = n.tensor("self", fractional(n.type("self").dtype));
    n.give(n.b().mul(x, n.op() == "deg2rad" ? std::numbers::pi / 180 : 180 / std::numbers::pi));
}

void count_of_nonzeros(Node& n) {
    Builder& b = n.b();
    const std::int64_t rank = n.type("self").rank();
    Dims axes;
    for (const std::int64_t d : n.integers("dim").value_or(Dims{})) axes.push_back(n.dimension(d, rank));
    std::sort(axes.begin(), axes.end());
    if (axes.empty()) {
        axes.resize(static_cast<std::size_t>(rank));
        std::iota(axes.begin(), axes.end(), 0);
    }
    const Value ones = b.cast(b.cast(n.tensor("self"), DType::boolean), DType::i64);
    n.give(axes.empty() ? ones : b.reduce_sum(ones, axes));
}

// Channels of each group become neighbours of those of the others.
void shuffled_channels(Node& n) {
    Builder& b = n.b();
    const Dims dims = n.shape("self", 3, most_dimensions);
    const std::int64_t groups = n.integer("groups");
    n.check_groups(groups, dims[1]);
    const std::int64_t inside = element_count(Dims(dims.begin() + 2, dims.end()));
    const Value apart = b.reshape(n.tensor("self"), {dims[0], groups, dims[1] / groups, inside});
    n.give(b.reshape(b.transpose(apart, {0, 2, 1, 3}), dims));
}

constexpr OpImporter composite_importers[] = {
    {"hstack", stack_along},
    {"vstack", stack_along},
    {"dstack", stack_along},
    {"column_stack", stack_along},
    {"diag_embed", embedded_diagonal},
    {"diag", diagonal_or_matrix},
    {"trace", trace_op, own_memory, computed},
    {"tensordot", tensor_product},
    {"inner", inner_product},
    {"linalg_vecdot", vector_products},
    {"cross", cross_product, own_memory, computed},
    {"linalg_cross", cross_product, own_memory, computed},
    {"fmax", extremum_of_numbers},
    {"fmin", extremum_of_numbers},
    {"isposinf", is_infinity},
    {"isneginf", is_infinity},
    {"deg2rad", angle_unit},
    {"rad2deg", angle_unit},
    {"count_nonzero", count_of_nonzeros},
    {"channel_shuffle", shuffled_channels},
};

}  // namespace

std::span<const OpImporter> composite_ops() {
    return composite_importers;
}

}  // namespace thunderc::aten
