// SPDX-License-Identifier: Apache-2.0
// Operators that take elements by index.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/indices.h"

namespace thunderc::aten {
namespace {

void embedding_op(Node& n) {
    const Value table = n.tensor("weight");
    const std::int64_t rows = n.shape("weight", 2)[0], padding = n.integer("padding_idx", -1);
    if (n.boolean("sparse", false))
        n.importer().report().done("embedding", n.call().name, "its gradient is dense here");
    Attributes attributes{{"axis", std::int64_t{0}}};
    if (padding >= 0 && padding < rows) attributes.set("padding_idx", padding);
    Builder& b = n.b();
    const Value ids = wrapped_indices(n, n.tensor("indices"), rows);
    const Value found = b.op("gather", {table, ids}, std::move(attributes));
    if (!n.boolean("scale_grad_by_freq", false)) return n.give(found);
    // The gradient by how often a row is taken: what is left of it has none.
    const DType dtype = b.type(table).dtype;
    const Dims dims = b.type(ids).dims;
    const std::int64_t count = element_count(dims);
    const Value flat = b.reshape(ids, {count}), one = b.splat(Type::tensor(dtype, {count, 1}), 1);
    const Value times = b.op("scatter_add", {flat, one}, {{"axis", std::int64_t{0}}, {"entries", rows}});
    Dims column = dims;
    column.push_back(1);
    const Value own = b.reshape(b.op("gather", {times, flat}, {{"axis", std::int64_t{0}}}), column);
    const Value part = b.div(found, own);
    n.give(b.add(part, b.op("stop_gradient", {b.sub(found, part)})));
}

void index_select_op(Node& n) {
    const Type type = n.type("self");
    if (type.dims.empty()) return n.give(n.tensor("self"));  // its only element
    const std::int64_t axis = n.axis("dim", type.rank());
    const Value index = wrapped_indices(n, n.tensor("index"), type.dims[static_cast<std::size_t>(axis)]);
    n.give(n.b().op("gather", {n.tensor("self"), index}, {{"axis", axis}}));
}

// Both broadcast to one another, but for the dimension; without one both are one row.
void taken_along(Node& n, Value data, Value index) {
    Builder& b = n.b();
    if (!n.has("dim")) {
        data = b.reshape(data, {b.type(data).elements()});
        index = b.reshape(index, {b.type(index).elements()});
    }
    Dims from = b.type(data).dims, to = b.type(index).dims;
    const std::int64_t axis = n.axis("dim", static_cast<std::int64_t>(from.size()), 0);
    const auto at = static_cast<std::size_t>(axis);
    if (from.empty() || from.size() != to.size())
        n.fail(fmt::format("{} takes indices of its data's rank", n.call().target));
    const std::int64_t size = from[at], count = to[at];
    from[at] = to[at] = 1;
    const std::optional<Dims> both = broadcast(from, to);
    if (!both) n.fail(fmt::format("the indices of {} do not fit its data", n.call().target));
    Dims wide = *both;
    wide[at] = size;
    data = b.broadcast_to(data, wide);
    wide[at] = count;
    index = wrapped_indices(n, b.broadcast_to(index, wide), size);
    n.give(b.op("gather_elements", {data, index}, {{"axis", axis}}));
}

// Indices may be fewer than the data along any dimension: what is behind them is not looked at.
void gather_op(Node& n) {
    Builder& b = n.b();
    const Dims from = n.type("self").dims, to = n.type(n.has("index") ? "index" : "indices").dims;
    const std::int64_t axis = n.axis("dim", static_cast<std::int64_t>(from.size()), 0);
    Value data = n.tensor("self"), index = n.tensor(n.has("index") ? "index" : "indices");
    if (n.op() == "take_along_dim") return taken_along(n, data, index);
    if (from.empty()) return n.give(b.broadcast_to(data, to));
    if (to.size() != from.size()) n.fail(fmt::format("{} takes indices of its data's rank", n.call().target));
    for (std::size_t d = 0; d < from.size(); ++d)
        if (static_cast<std::int64_t>(d) != axis)
            data = b.slice(data, static_cast<std::int64_t>(d), 0, std::min(to[d], from[d]));
    index = wrapped_indices(n, index, from[static_cast<std::size_t>(axis)]);
    n.give(b.op("gather_elements", {data, index}, {{"axis", axis}}));
}

// x[i], x[:, i], x[i, j], x[:, i, :, j]: by tensors of indices that broadcast to one another.
void index_op(Node& n) {
    Builder& b = n.b();
    const std::vector<std::optional<Value>> given = n.optional_tensors("indices");
    const Indexed at = indexed(n, n.type("self").dims, given);
    if (at.axes.size() == 1) {
        const std::int64_t axis = at.axes.front();
        return n.give(b.op("gather", {n.tensor("self"), at.indices.front()}, {{"axis", axis}}));
    }
    const Value data = b.transpose(n.tensor("self"), at.permutation);
    Value v = b.op("gather_nd", {data, at.rows(b)}, {{"batch_dims", std::int64_t{0}}});
    n.give(b.transpose(v, at.result_permutation()));
}

void take_op(Node& n) {
    Builder& b = n.b();
    const std::int64_t count = n.type("self").elements();
    const Value flat = b.reshape(n.tensor("self"), {count});
    n.give(b.op("gather", {flat, wrapped_indices(n, n.tensor("index"), count)}, {{"axis", std::int64_t{0}}}));
}

// Elements of the operand's memory by strides, where its elements lie there in order.
void strided_op(Node& n) {
    Builder& b = n.b();
    const Dims size = n.integers("size").value_or(Dims{}), stride = n.integers("stride").value_or(Dims{});
    const std::int64_t count = n.type("self").elements(), offset = n.integer("storage_offset", 0);
    if (!n.is_dense().value_or(false))
        n.fail("as_strided of a tensor whose elements do not lie in order", "call contiguous() in front of it");
    if (size.size() != stride.size() || !countable(size)) n.fail("as_strided of a shape that no tensor has");
    if (offset < 0) n.fail("as_strided from in front of its tensor");
    std::int64_t last = offset;
    std::vector<double> steps;
    for (std::size_t d = 0; d < size.size(); ++d) {
        std::int64_t reach = 0;
        if (stride[d] < 0 || __builtin_mul_overflow(stride[d], std::max<std::int64_t>(size[d] - 1, 0), &reach) ||
            __builtin_add_overflow(last, reach, &last))
            n.fail("as_strided leads out of its tensor");
        steps.push_back(static_cast<double>(stride[d]));
    }
    if (element_count(size) > 0 && last >= count) n.fail("as_strided leads out of its tensor");
    const Type type = Type::tensor(DType::i64, size);
    const Value index = b.constant(ConstExpr::affine(type, static_cast<double>(offset), steps));
    n.give(b.op("gather", {b.reshape(n.tensor("self"), {count}), index}, {{"axis", std::int64_t{0}}}));
}

constexpr OpImporter index_importers[] = {
    {"embedding", embedding_op},
    {"index_select", index_select_op},
    {"gather", gather_op},
    {"take_along_dim", gather_op},
    {"index", index_op},
    {"_unsafe_index", index_op},
    {"take", take_op},
    {"as_strided", strided_op, view},
    {"as_strided_copy", strided_op},
};

}  // namespace

std::span<const OpImporter> index_ops() {
    return index_importers;
}

}  // namespace thunderc::aten
