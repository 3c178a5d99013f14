// SPDX-License-Identifier: Apache-2.0
// What follows from the order of elements: medians, quantiles, places in a sorted list.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/ranking.h"

namespace thunderc::aten {
namespace {

// All elements in one dimension, where no dimension is given.
struct Row {
    Value values;
    std::int64_t axis = 0;
};

// kthvalue without a dimension takes the last one.
bool has_axis(Node& n) {
    return (n.has("dim") || n.op() == "kthvalue") && n.type("self").rank() > 0;
}

Row row_of(Node& n) {
    const Type type = n.type("self");
    if (has_axis(n)) return {n.tensor("self"), n.axis("dim", type.rank(), -1)};
    return {n.b().reshape(n.tensor("self"), {type.elements()}), 0};
}

// Without the dimension, or with one element in it.
Value without(Node& n, Value v, std::int64_t axis) {
    Dims dims = n.b().type(v).dims;
    if (!has_axis(n))
        return n.b().reshape(v, n.boolean("keepdim", false) ? Dims(n.type("self").dims.size(), 1) : Dims{});
    if (n.boolean("keepdim", false)) return v;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    return n.b().reshape(v, dims);
}

// The k-th smallest element, counted from 0, and where it stands.
void give_place(Node& n, std::int64_t k) {
    const Row row = row_of(n);
    const std::int64_t size = n.b().type(row.values).dims[static_cast<std::size_t>(row.axis)];
    if (k < 0 || k >= size) n.fail(fmt::format("{} asks for element {} of {}", n.call().target, k + 1, size));
    const Ranked first = top_k(n.b(), row.values, row.axis, k + 1, false);
    n.give(without(n, n.b().slice(first.values, row.axis, k, k + 1), row.axis), 0);
    if (n.results() > 1 && n.wants(1)) n.give(without(n, n.b().slice(first.numbers, row.axis, k, k + 1), row.axis), 1);
}

// Of an even number of elements the lower one.
void median_op(Node& n) {
    const Row row = row_of(n);
    give_place(n, (n.b().type(row.values).dims[static_cast<std::size_t>(row.axis)] - 1) / 2);
}

void kth_value(Node& n) {
    const std::int64_t k = n.integer("k");
    if (k < 1) n.fail(fmt::format("{} of k = {}", n.call().target, k), {}, "1 or more");
    give_place(n, k - 1);
}

// Between two elements next to one another, by how near each is.
void quantile_op(Node& n) {
    Builder& b = n.b();
    const std::string way = n.text("interpolation", "linear");
    if (n.is_tensor("q") && n.type("q").elements() != 1)
        n.fail("quantiles of several shares at once are not supported", "ask for one at a time, by a number");
    const double share = n.number("q");
    if (!(share >= 0 && share <= 1)) n.fail(fmt::format("a quantile of the share {}", share));
    const Row row = row_of(n);
    const std::int64_t size = b.type(row.values).dims[static_cast<std::size_t>(row.axis)];
    if (size < 1) n.fail("a quantile of no elements");
    const double place = share * static_cast<double>(size - 1);
    const double at = way == "lower"      ? std::floor(place)
                      : way == "higher"   ? std::ceil(place)
                      : way == "nearest"  ? std::nearbyint(place)
                      : way == "midpoint" ? (std::floor(place) + std::ceil(place)) / 2
                                          : place;
    const auto low = static_cast<std::int64_t>(std::floor(at));
    const std::int64_t high = std::min(low + 1, size - 1);
    const double part = at - static_cast<double>(low);
    const Value sorted = top_k(b, row.values, row.axis, high + 1, false).values;
    const Value lower = b.slice(sorted, row.axis, low, low + 1), upper = b.slice(sorted, row.axis, high, high + 1);
    Value v = part == 0 ? lower : b.add(b.mul(lower, 1 - part), b.mul(upper, part));
    v = without(n, v, row.axis);
    if (n.is_tensor("q") && n.type("q").rank() == 1) {
        Dims dims = b.type(v).dims;
        dims.insert(dims.begin(), 1);
        v = b.reshape(v, dims);
    }
    n.give(v);
}

// How many numbers of a sorted row stand in front of each element; with "right" those that are equal as well.
void place_in_order(Node& n) {
    Builder& b = n.b();
    const bool buckets = n.op() == "bucketize";
    const DType dtype = promoted(n, {buckets ? "boundaries" : "sorted_sequence", "self"});
    const Value row = n.tensor(buckets ? "boundaries" : "sorted_sequence", dtype), x = n.operand("self", dtype);
    if (n.has("sorter")) n.fail(fmt::format("{} with a sorter is not supported", n.call().target));
    const bool right = n.boolean("right", false) || n.text("side", "left") == "right";
    Dims column = b.type(x).dims, rows = b.type(row).dims;
    const bool one_row = rows.size() == 1;
    if (rows.empty() || (!one_row && rows.size() != column.size()))
        n.fail(fmt::format("{} takes rows of its data's dimensions", n.call().target), {}, {}, to_string(b.type(row)));
    column.push_back(1);
    if (!one_row) rows.insert(rows.end() - 1, 1);
    const Value before = b.op(right ? "le" : "lt", {b.reshape(row, rows), b.reshape(x, column)});
    n.give(b.reduce_sum(b.cast(before, n.boolean("out_int32", false) ? DType::i32 : DType::i64),
                        {static_cast<std::int64_t>(column.size()) - 1}));
}

constexpr OpImporter order_importers[] = {
    {"median", median_op},         {"kthvalue", kth_value},          {"quantile", quantile_op},
    {"bucketize", place_in_order}, {"searchsorted", place_in_order},
};

}  // namespace

std::span<const OpImporter> order_ops() {
    return order_importers;
}

}  // namespace thunderc::aten
