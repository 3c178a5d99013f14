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
    const std::int64_t rows = n.type("weight").dims.front(), padding = n.integer("padding_idx", -1);
    if (n.boolean("sparse", false))
        n.importer().report().done("embedding", n.call().name, "its gradient is dense here");
    Attributes attributes{{"axis", std::int64_t{0}}};
    if (padding >= 0 && padding < rows) attributes.set("padding_idx", padding);
    n.give(n.b().op("gather", {table, wrapped_indices(n, n.tensor("indices"), rows)}, std::move(attributes)));
}

void index_select_op(Node& n) {
    const Type type = n.type("self");
    const std::int64_t axis = n.axis("dim", type.rank());
    const Value index = wrapped_indices(n, n.tensor("index"), type.dims[static_cast<std::size_t>(axis)]);
    n.give(n.b().op("gather", {n.tensor("self"), index}, {{"axis", axis}}));
}

// Indices may be fewer than the data along any dimension: what is behind them is not looked at.
void gather_op(Node& n) {
    Builder& b = n.b();
    const Dims from = n.type("self").dims, to = n.type(n.has("index") ? "index" : "indices").dims;
    const std::int64_t axis = n.axis("dim", static_cast<std::int64_t>(from.size()), 0);
    Value data = n.tensor("self"), index = n.tensor(n.has("index") ? "index" : "indices");
    if (from.empty()) return n.give(b.broadcast_to(data, to));
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

constexpr OpImporter index_importers[] = {
    {"embedding", embedding_op}, {"index_select", index_select_op},
    {"gather", gather_op},       {"take_along_dim", gather_op},
    {"index", index_op},         {"_unsafe_index", index_op},
    {"take", take_op},
};

}  // namespace

std::span<const OpImporter> index_ops() {
    return index_importers;
}

}  // namespace thunderc::aten
