// SPDX-License-Identifier: Apache-2.0
// Distances between rows.
#include <cmath>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"

namespace thunderc::aten {
namespace {

// The p-norm of what is along the last dimension. Its gradient is 0 where the norm is, as torch's.
Value norm_of_rows(Builder& b, Value x, double p) {
    const std::int64_t last = b.type(x).rank() - 1;
    const DType dtype = b.type(x).dtype;
    if (p == 2) return b.op("sqrt", {b.reduce_sum(b.mul(x, x), {last})}, {{"flat_at_zero", true}});
    const Value size = b.op("abs", {x}), zero = b.scalar(dtype, 0);
    if (p == 1) return b.reduce_sum(size, {last});
    if (p == 0) return b.reduce_sum(b.cast(b.op("ne", {x, zero}), dtype), {last});
    if (std::isinf(p)) return b.op("reduce_max", {size}, {{"axes", Dims{last}}, {"keep_dims", false}});
    const auto power = [&](Value of, double exponent) {
        const Value none = b.op("eq", {of, zero});
        const Value base = b.op("select", {none, b.scalar(dtype, 1), of});
        return b.op("select", {none, zero, b.op("pow", {base, b.scalar(dtype, exponent)})});
    };
    return power(b.reduce_sum(power(size, p), {last}), 1 / p);
}

// [..., P, M] and [..., R, M]: of each row to each other, [..., P, R].
void distances_of_two(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(promoted(n, {"x1", "x2"}));
    const auto with_one = [&](const char* name, std::size_t behind) {
        Dims dims = n.type(name).dims;
        if (dims.size() < 2) n.fail("distances are of rows in matrices", {}, {}, to_string(n.type(name)));
        dims.insert(dims.end() - static_cast<std::ptrdiff_t>(behind), 1);
        return b.reshape(n.tensor(name, dtype), dims);
    };
    n.give(norm_of_rows(b, b.sub(with_one("x1", 1), with_one("x2", 2)), n.number("p", 2)));
}

// Of each row to those behind it, in order.
void distances_within(Node& n) {
    Builder& b = n.b();
    const Value x = n.tensor("self", fractional(n.type("self").dtype));
    const Dims dims = n.type("self").dims;
    if (dims.size() != 2) n.fail("distances are of rows in a matrix", {}, {}, to_string(n.type("self")));
    std::vector<std::int64_t> one, other;
    constexpr std::int64_t most = 1 << 12;  // rows: their pairs are constants
    if (dims[0] > most) n.fail("pdist of so many rows is not supported", "use torch.cdist");
    for (std::int64_t r = 0; r < dims[0]; ++r)
        for (std::int64_t s = r + 1; s < dims[0]; ++s) {
            one.push_back(r);
            other.push_back(s);
        }
    const auto rows = [&](const std::vector<std::int64_t>& of) {
        Tensor index(Type::tensor(DType::i64, {static_cast<std::int64_t>(of.size())}));
        index.i.assign(of.begin(), of.end());
        return b.op("gather", {x, b.constant(ConstExpr::dense(std::move(index)))}, {{"axis", std::int64_t{0}}});
    };
    n.give(norm_of_rows(b, b.sub(rows(one), rows(other)), n.number("p", 2)));
}

// Of rows side by side: |x1 - x2 + eps|.
void distance_of_pairs(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(promoted(n, {"x1", "x2"}));
    const Value apart = b.add(b.sub(n.tensor("x1", dtype), n.tensor("x2", dtype)), n.number("eps", 1e-6));
    const Value norm = norm_of_rows(b, apart, n.number("p", 2));
    Dims dims = b.type(norm).dims;
    if (n.boolean("keepdim", false)) dims.push_back(1);
    n.give(b.reshape(norm, dims));
}

constexpr OpImporter distance_importers[] = {
    {"cdist", distances_of_two},          {"_cdist_forward", distances_of_two},     {"pdist", distances_within},
    {"_pdist_forward", distances_within}, {"pairwise_distance", distance_of_pairs},
};

}  // namespace

std::span<const OpImporter> distance_ops() {
    return distance_importers;
}

}  // namespace thunderc::aten
