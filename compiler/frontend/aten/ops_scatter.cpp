// SPDX-License-Identifier: Apache-2.0
// Operators that write elements by index, and elements in order.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/indices.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/ranking.h"
#include "compiler/frontend/shared/scatter.h"

namespace thunderc::aten {
namespace {

// Places that are known, each as a number from 0 on.
std::optional<Tensor> places_known(Node& n, Value at, std::int64_t rows) {
    const Tensor* known = n.importer().known(at);
    if (known == nullptr) return std::nullopt;
    const bool inside =
        std::all_of(known->i.begin(), known->i.end(), [&](std::int64_t k) { return k >= 0 && k < rows; });
    return inside ? std::optional(*known) : std::nullopt;
}

std::string reduction_named(Node& n, const std::string& otherwise) {
    const std::string name = n.text("reduce", otherwise);
    if (name == "add" || name == "sum") return "add";
    if (name == "multiply" || name == "prod") return "mul";
    if (name == "amax") return "max";
    if (name == "amin") return "min";
    if (name != "none" && name != "mean") n.fail(fmt::format("{} has no reduction \"{}\"", n.call().target, name));
    return name;
}

// Indices name elements as those of gather do: their places are its results of the elements' own numbers.
Value places_of(Node& n, const Dims& data, Value index, std::int64_t axis) {
    Builder& b = n.b();
    const Dims to = b.type(index).dims;
    Value numbers = numbers_of_elements(b, data);
    for (std::size_t d = 0; d < data.size(); ++d)
        if (static_cast<std::int64_t>(d) != axis) numbers = b.slice(numbers, static_cast<std::int64_t>(d), 0, to[d]);
    index = wrapped_indices(n, index, data[static_cast<std::size_t>(axis)]);
    return b.reshape(b.op("gather_elements", {numbers, index}, {{"axis", axis}}), {element_count(to)});
}

// The first elements of each dimension, as many as there are indices.
Value as_far_as(Builder& b, Value v, const Dims& dims) {
    for (std::size_t d = 0; d < dims.size(); ++d) v = b.slice(v, static_cast<std::int64_t>(d), 0, dims[d]);
    return v;
}

void scatter_op(Node& n) {
    Builder& b = n.b();
    const Dims dims = n.type("self").dims;
    Type type = n.type("self");
    if (dims.empty()) type.dims = {1};  // a scalar is a row of one, and so is one index
    const std::string op = n.op();
    Value index = n.tensor("index");
    if (b.type(index).dims.empty()) index = b.reshape(index, {1});
    const Dims to = b.type(index).dims;
    if (to.size() != type.dims.size()) n.fail(fmt::format("{} takes indices of its data's rank", n.call().target));
    const std::int64_t axis = n.axis("dim", type.rank()), rows = type.elements(), count = element_count(to);
    const auto with_a_dimension = [&](Value v) { return b.type(v).dims.empty() ? b.reshape(v, {1}) : v; };
    const auto elements_of_source = [&] {
        const Value source = with_a_dimension(n.tensor("src", type.dtype));
        if (b.type(source).dims.size() != to.size())
            n.fail(fmt::format("{} takes a source of its data's rank", n.call().target), {}, {},
                   to_string(b.type(source)));
        return as_far_as(b, source, to);
    };
    Value updates = n.has("src") && n.is_tensor("src")
                        ? elements_of_source()
                        : b.broadcast_to(n.operand(n.has("value") ? "value" : "src", type.dtype), to);
    const Value places = places_of(n, type.dims, index, axis);
    std::string reduction = reduction_named(n, op == "scatter_add" ? "add" : "none");
    Value data = with_a_dimension(n.tensor("self"));
    const bool includes = n.boolean("include_self", true);
    const bool mean = reduction == "mean";
    if (mean) reduction = "add";
    const auto hits = [&] {
        const Value one = b.splat(Type::tensor(DType::f32, {count, 1}), 1);
        return b.reshape(b.op("scatter_add", {places, one}, {{"axis", std::int64_t{0}}, {"entries", rows}}), type.dims);
    };
    if (!includes && reduction != "none") {
        // What is written to begins as what a sum, a product, a maximum begins with; the rest stays.
        const double begin = reduction == "add"   ? 0
                             : reduction == "mul" ? 1
                             : reduction == "max" ? -row_of(type.dtype).largest
                                                  : row_of(type.dtype).largest;
        if (!is_float(type.dtype))
            n.fail(fmt::format("{} of integers without the element itself is not supported", n.call().target));
        data = b.op("select", {b.op("gt", {hits(), b.scalar(DType::f32, 0)}), b.scalar(type.dtype, begin), data});
    }
    const RowWrites w{b.reshape(data, {rows, 1}), places, b.reshape(updates, {count, 1}), rows, 1, count, reduction};
    Value v = b.reshape(written(b, w, places_known(n, places, rows)), type.dims);
    if (mean) {
        const Value times = b.add(hits(), includes ? 1 : 0);
        v = b.div(v, b.cast(b.op("max", {times, b.scalar(DType::f32, 1)}), type.dtype));
    }
    n.give(b.reshape(v, dims));
}

// x[i, j] = values, or += with `accumulate`. Where a mask says which elements, all of them get one number.
void index_put_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const std::vector<std::optional<Value>> given = n.optional_tensors("indices");
    const bool accumulate = n.boolean("accumulate", false);
    const Value values = n.tensor("values", type.dtype);
    if (given.size() == 1 && given[0] && b.type(*given[0]).dtype == DType::boolean) {
        const Dims mask = b.type(*given[0]).dims;
        if (b.type(values).elements() != 1)
            n.fail("elements that a mask chooses get a number each, so that their number depends on the data",
                   "write it with torch.where in the model");
        Dims wide = mask;
        wide.resize(type.dims.size(), 1);
        const Value number = b.reshape(values, {}), chosen = b.reshape(*given[0], wide);
        return n.give(
            b.op("select", {chosen, accumulate ? b.add(n.tensor("self"), number) : number, n.tensor("self")}));
    }
    const Indexed at = indexed(n, type.dims, given);
    const Value data = b.transpose(n.tensor("self"), at.permutation);
    Dims table;
    for (const std::int64_t axis : at.axes) table.push_back(type.dims[static_cast<std::size_t>(axis)]);
    const std::int64_t rows = element_count(table), width = element_count(at.rest), count = element_count(at.shape);
    // Updates have the order of what indexing gives.
    const Dims order = at.result_permutation();
    Dims both = at.shape, result(order.size()), back(order.size());
    both.insert(both.end(), at.rest.begin(), at.rest.end());
    for (std::size_t d = 0; d < order.size(); ++d) {
        result[d] = both[static_cast<std::size_t>(order[d])];
        back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
    }
    const Value updates = b.transpose(b.broadcast_to(values, result), back);
    const Value places = b.reshape(
        b.op("gather_nd", {numbers_of_elements(b, table), at.rows(b)}, {{"batch_dims", std::int64_t{0}}}), {count});
    const RowWrites w{b.reshape(data, {rows, width}), places, b.reshape(updates, {count, width}), rows, width, count,
                      accumulate ? "add" : "none"};
    Dims turned = table, inverse(at.permutation.size());
    turned.insert(turned.end(), at.rest.begin(), at.rest.end());
    for (std::size_t d = 0; d < inverse.size(); ++d)
        inverse[static_cast<std::size_t>(at.permutation[d])] = static_cast<std::int64_t>(d);
    n.give(b.transpose(b.reshape(written(b, w, places_known(n, places, rows)), turned), inverse));
}

// Rows along a dimension: added, copied or filled.
void index_rows_op(Node& n) {
    Builder& b = n.b();
    const Dims dims = n.type("self").dims;
    Type type = n.type("self");
    if (dims.empty()) type.dims = {1};  // a scalar is a row of one
    const std::string op = n.op();
    const std::int64_t axis = n.axis("dim", type.rank()), rows = type.dims[static_cast<std::size_t>(axis)];
    const Value index = b.reshape(wrapped_indices(n, n.tensor("index"), rows), {n.type("index").elements()});
    const std::int64_t count = b.type(index).dims[0], width = rows == 0 ? 0 : type.elements() / rows;
    Dims front = {axis}, inverse(type.dims.size());
    for (std::int64_t d = 0; d < type.rank(); ++d)
        if (d != axis) front.push_back(d);
    for (std::size_t d = 0; d < front.size(); ++d)
        inverse[static_cast<std::size_t>(front[d])] = static_cast<std::int64_t>(d);
    const Value data = b.transpose(b.reshape(n.tensor("self"), type.dims), front);
    Value updates;
    if (op == "index_fill") {
        updates = b.broadcast_to(n.operand("value", type.dtype), {count, width});
    } else {
        const Value source = n.tensor("source", type.dtype);
        const bool scalar = b.type(source).dims.empty();
        updates = b.reshape(scalar ? source : b.transpose(source, front), {count, width});
        if (const double alpha = n.number("alpha", 1); alpha != 1) updates = b.mul(updates, alpha);
    }
    const RowWrites w{b.reshape(data, {rows, width}),    index, updates, rows, width, count,
                      op == "index_add" ? "add" : "none"};
    const Value all = b.reshape(written(b, w, places_known(n, index, rows)), b.type(data).dims);
    n.give(b.reshape(b.transpose(all, inverse), dims));
}

// self, with src in the place of a part of it.
void part_scatter_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const std::int64_t axis = n.dimension("dim", type.rank(), 0);
    const std::int64_t size = type.dims[static_cast<std::size_t>(axis)];
    std::int64_t begin = 0, end = 0, step = 1;
    if (n.op() == "select_scatter") {
        begin = n.integer("index");
        if (begin < 0) begin += size;
        if (begin < 0 || begin >= size) n.fail(fmt::format("{} at {} of {}", n.call().target, begin, size));
        end = begin + 1;
    } else {
        const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
        begin = bound(n.integer("start", 0));
        end = std::max(begin, bound(n.integer("end", INT64_MAX)));
        step = n.integer("step", 1);
        if (step < 1) n.fail(fmt::format("{} in steps of {}", n.call().target, step));
    }
    n.give(part_written(b, n.tensor("self"), n.tensor("src", type.dtype), axis, begin, end, step));
}

// A scalar in order, and where it stands.
void give_only_element(Node& n) {
    const Value first = n.b().scalar(DType::i64, 0);
    if (n.op() == "argsort") return n.give(first);
    n.give(n.tensor("self"), 0);
    if (n.results() > 1) n.give(first, 1);
}

void top_k_op(Node& n) {
    const Type type = n.type("self");
    if (type.dims.empty()) return give_only_element(n);
    const Ranked first =
        top_k(n.b(), n.tensor("self"), n.axis("dim", type.rank(), -1), n.integer("k"), n.boolean("largest", true));
    n.give(first.values, 0);
    n.give(first.numbers, 1);
}

void sort_op(Node& n) {
    const Type type = n.type("self");
    if (type.dims.empty()) return give_only_element(n);
    const std::int64_t axis = n.axis("dim", type.rank(), -1);
    const bool numbers = n.op() == "argsort";
    const Ranked all =
        top_k(n.b(), n.tensor("self"), axis, type.dims[static_cast<std::size_t>(axis)], n.boolean("descending", false));
    n.give(numbers ? all.numbers : all.values, 0);
    if (!numbers && n.results() > 1) n.give(all.numbers, 1);
}

// Rows and columns of a triangle, in order.
void triangle_indices(Node& n) {
    const std::int64_t rows = n.integer("row"), columns = n.integer("col");
    const bool lower = n.op() == "tril_indices";
    constexpr std::int64_t most = std::int64_t{1} << 24;
    if (rows < 0 || columns < 0 || rows > most || columns > most || rows * columns > most)
        n.fail(fmt::format("the indices of a triangle of {} rows and {} columns", rows, columns));
    const std::int64_t offset = std::clamp(n.integer("offset", 0), -rows, columns);
    std::vector<std::int64_t> at_row, at_column;
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
            if (lower ? c > r + offset : c < r + offset) continue;
            at_row.push_back(r);
            at_column.push_back(c);
        }
    Tensor out(Type::tensor(DType::i64, {2, static_cast<std::int64_t>(at_row.size())}));
    std::copy(at_row.begin(), at_row.end(), out.i.begin());
    std::copy(at_column.begin(), at_column.end(), out.i.begin() + static_cast<std::ptrdiff_t>(at_row.size()));
    n.give(n.b().cast(n.b().constant(ConstExpr::dense(std::move(out))), dtype_or(n, DType::i64)));
}

// Elements of `source` one after the other, where the mask is true: the k-th of these takes the k-th.
void masked_scatter_op(Node& n) {
    Builder& b = n.b();
    const Dims dims = broadcast(n.type("self").dims, n.type("mask").dims).value_or(n.type("self").dims);
    const std::int64_t count = element_count(dims), given = n.type("source").elements();
    if (given == 0 || count == 0) return n.give(b.broadcast_to(n.tensor("self"), dims));
    const Value mask = b.reshape(b.broadcast_to(n.tensor("mask", DType::boolean), dims), {count});
    const Value number = b.op("cumsum", {b.cast(mask, DType::i64)},
                              {{"axis", std::int64_t{0}}, {"exclusive", true}, {"reverse", false}});
    const Value within =
        b.op("clip", {number, b.scalar(DType::i64, 0), b.scalar(DType::i64, static_cast<double>(given - 1))});
    const Value taken = b.op("gather", {b.reshape(n.tensor("source"), {given}), within}, {{"axis", std::int64_t{0}}});
    const Value self = b.reshape(b.broadcast_to(n.tensor("self"), dims), {count});
    n.give(b.reshape(b.op("select", {mask, b.cast(taken, n.type("self").dtype), self}), dims));
}

// What is not 0, of numbers that are known: how many there are is the result's shape.
void nonzero_op(Node& n) {
    const Tensor* known = n.known("self");
    if (known == nullptr)
        n.fail("nonzero of numbers that are not known, so that the number of elements depends on the data",
               "write it with torch.where in the model");
    const Dims dims = known->type.dims;
    std::vector<std::int64_t> places;
    for (std::int64_t k = 0; k < known->size(); ++k)
        if (known->at(k) != 0) places.push_back(k);
    Tensor out(
        Type::tensor(DType::i64, {static_cast<std::int64_t>(places.size()), static_cast<std::int64_t>(dims.size())}));
    for (std::size_t row = 0; row < places.size(); ++row) {
        std::int64_t rest = places[row];
        for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d]) out.i[row * dims.size() + d] = rest % dims[d];
    }
    n.give(n.b().constant(ConstExpr::dense(std::move(out))));
}

constexpr OpImporter scatter_importers[] = {
    {"scatter", scatter_op},
    {"scatter_add", scatter_op, own_memory, computed},
    {"scatter_reduce", scatter_op, own_memory, computed},
    {"index_put", index_put_op},
    {"_unsafe_index_put", index_put_op},
    {"index_add", index_rows_op, own_memory, computed},
    {"index_copy", index_rows_op},
    {"index_fill", index_rows_op},
    {"select_scatter", part_scatter_op},
    {"slice_scatter", part_scatter_op},
    {"topk", top_k_op},
    {"sort", sort_op},
    {"argsort", sort_op},
    {"masked_scatter", masked_scatter_op},
    {"nonzero", nonzero_op},
    {"tril_indices", triangle_indices},
    {"triu_indices", triangle_indices},
};

}  // namespace

std::span<const OpImporter> scatter_ops() {
    return scatter_importers;
}

}  // namespace thunderc::aten
