// SPDX-License-Identifier: Apache-2.0
// Sums, means and maxima over bags of rows of a table.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/indices.h"

namespace thunderc::aten {
namespace {

// Where each bag begins, as `offsets` says: known, or data.
struct Bags {
    std::int64_t count = 0;            // of bags
    std::int64_t items = 0;            // of indices in all of them
    std::vector<std::int64_t> begins;  // empty: data say it
    Value of;                          // the bag of each index
    bool even = false;                 // all are of one size

    std::int64_t end(std::int64_t k) const { return k + 1 < count ? begins[static_cast<std::size_t>(k) + 1] : items; }
};

Bags bags_of(Node& n, std::int64_t items) {
    Builder& b = n.b();
    Bags out;
    out.items = items;
    out.count = n.shape("offsets", 1)[0] - (n.boolean("include_last_offset", false) ? 1 : 0);
    if (out.count < 0 || !n.is_whole("offsets")) n.fail(fmt::format("{} has no offsets", n.call().target));
    if (const Tensor* offsets = n.known("offsets")) {
        out.begins.assign(offsets->i.begin(), offsets->i.begin() + static_cast<std::ptrdiff_t>(out.count));
        std::int64_t least = 0;
        for (const std::int64_t begin : out.begins) {
            if (begin < least || begin > items)
                n.fail(fmt::format("the offsets of {} are not in order", n.call().target));
            least = begin;
        }
        Tensor of(Type::tensor(DType::i64, {items}));
        for (std::int64_t k = 0, bag = -1; k < items; ++k) {
            while (bag + 1 < out.count && out.begins[static_cast<std::size_t>(bag + 1)] <= k) ++bag;
            of.i[static_cast<std::size_t>(k)] = std::max<std::int64_t>(bag, 0);
        }
        out.of = b.constant(ConstExpr::dense(std::move(of)));
        out.even = out.count > 0 && items % out.count == 0;
        for (std::int64_t k = 0; k < out.count; ++k)
            out.even = out.even && out.begins[static_cast<std::size_t>(k)] == k * (items / out.count);
        return out;
    }
    // As many bags as begin in front of an index or at it, but for the one that it is in.
    const Value begins = b.reshape(b.slice(n.tensor("offsets", DType::i64), 0, 0, out.count), {1, out.count});
    const Value at = b.constant(ConstExpr::affine(Type::tensor(DType::i64, {items, 1}), 0, {1, 0}));
    const Value begun = b.cast(b.op("le", {begins, at}), DType::i64);
    const Value number = b.add(b.reduce_sum(begun, {1}), b.scalar(DType::i64, -1));
    out.of = b.op("max", {number, b.scalar(DType::i64, 0)});
    return out;
}

// The largest of each bag, which has a known size; of none 0.
Value largest(Node& n, const Bags& bags, Value rows, std::int64_t width) {
    Builder& b = n.b();
    if (bags.even && bags.items > 0)
        return b.op("reduce_max", {b.reshape(rows, {bags.count, bags.items / bags.count, width})},
                    {{"axes", Dims{1}}, {"keep_dims", false}});
    constexpr std::int64_t most = 4096;  // each is an operation of its own
    if (bags.begins.empty() || bags.count > most)
        n.fail(fmt::format("maxima of bags whose {}", bags.begins.empty() ? "offsets are data" : "number is so large"),
               "give it indices of two dimensions, or compute with an embedding and a mask");
    std::vector<Value> parts;
    for (std::int64_t k = 0; k < bags.count; ++k) {
        const std::int64_t begin = bags.begins[static_cast<std::size_t>(k)], end = bags.end(k);
        parts.push_back(begin == end ? b.splat(Type::tensor(b.type(rows).dtype, {1, width}), 0)
                                     : b.op("reduce_max", {b.slice(rows, 0, begin, end)},
                                            {{"axes", Dims{0}}, {"keep_dims", true}}));
    }
    return parts.size() == 1 ? parts[0] : b.op("concat", parts, {{"axis", std::int64_t{0}}});
}

// Modes by their numbers: sum, mean, max.
void embedding_bag_op(Node& n) {
    Builder& b = n.b();
    n.shape("weight", 2);
    // PyTorch 2.13 divides a row's gradient by how often another one is found (counts[indices[i]] of the i-th that is
    // found at all): what was meant is not what it does.
    if (n.boolean("scale_grad_by_freq", false))
        n.fail("gradients of bags by frequency are not supported",
               "sum rows of an Embedding(…, scale_grad_by_freq=True) in the model");
    const Type table = n.type("weight");
    const std::int64_t items = n.type("indices").elements(), width = table.dims[1];
    const std::int64_t mode = n.integer("mode", 0), padding = n.integer("padding_idx", -1);
    const Bags bags = bags_of(n, items);
    const Value indices = b.reshape(wrapped_indices(n, n.tensor("indices"), table.dims[0]), {items});
    Attributes attributes{{"axis", std::int64_t{0}}};
    if (padding >= 0) attributes.set("padding_idx", padding);
    Value rows = b.op("gather", {n.tensor("weight"), indices}, std::move(attributes));
    if (mode == 2) {
        if (padding >= 0) n.fail("an embedding bag of maxima with a row that pads is not supported");
        return n.give(largest(n, bags, rows, width), 0);
    }
    if (n.has("per_sample_weights")) rows = b.mul(rows, b.reshape(n.tensor("per_sample_weights"), {items, 1}));
    Value counts = b.splat(Type::tensor(table.dtype, {items, 1}), 1);
    if (padding >= 0) {
        const Value number = b.scalar(b.type(indices).dtype, static_cast<double>(padding));
        const Value is = b.reshape(b.op("ne", {indices, number}), {items, 1});
        rows = b.op("select", {is, rows, b.scalar(table.dtype, 0)});
        counts = b.cast(is, table.dtype);
    }
    const auto summed = [&](Value v, std::int64_t across) {
        if (bags.even) return b.reduce_sum(b.reshape(v, {bags.count, items / bags.count, across}), {1});
        return b.op("scatter_add", {bags.of, v}, {{"axis", std::int64_t{0}}, {"entries", bags.count}});
    };
    Value sum = summed(rows, width);
    if (mode == 1) sum = b.div(sum, b.op("max", {summed(counts, 1), b.scalar(table.dtype, 1)}));
    n.give(sum, 0);
}

constexpr OpImporter bag_importers[] = {
    {"embedding_bag", embedding_bag_op},
    {"_embedding_bag", embedding_bag_op},
    {"_embedding_bag_forward_only", embedding_bag_op},
};

}  // namespace

std::span<const OpImporter> bag_ops() {
    return bag_importers;
}

}  // namespace thunderc::aten
