// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/ranking.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace thunderc {

// An element's rank is how many stand before it: larger ones, and equal ones with a smaller index. Each of the first k
// is found by its rank, and taken by its index, so that its gradient goes there. What is not a number has no rank: an
// index is one of the row's whatever it holds.
Ranked top_k(Builder& b, Value data, std::int64_t axis, std::int64_t k, bool largest) {
    const Type type = b.type(data);
    const std::int64_t rank = type.rank();
    const std::int64_t size = type.dims[static_cast<std::size_t>(axis)];
    constexpr std::int64_t most = 4096;  // every element is compared with every other
    if (k < 0 || k > size) fail(fmt::format("TopK asks for {} of {} elements", k, size), "");
    if (size > most) {
        Diagnostic d;
        d.message = fmt::format("TopK of rows of {} elements is not supported", size);
        d.help = "take it of shorter rows";
        d.expected = fmt::format("{} elements at most", most);
        throw UserError(std::move(d));
    }
    Dims there(static_cast<std::size_t>(rank));
    std::iota(there.begin(), there.end(), 0);
    there.erase(there.begin() + axis);
    there.push_back(axis);
    Dims back(there.size()), dims;
    for (std::size_t d = 0; d < there.size(); ++d) {
        back[static_cast<std::size_t>(there[d])] = static_cast<std::int64_t>(d);
        dims.push_back(type.dims[static_cast<std::size_t>(there[d])]);
    }
    const std::int64_t rows = size == 0 ? 0 : type.elements() / size;
    const Value x = b.reshape(b.transpose(data, there), {rows, size});
    const auto index = [&](const Dims& of, std::vector<double> step) {
        return b.constant(ConstExpr::affine(Type::tensor(DType::i64, of), 0, std::move(step)));
    };
    const Value own = b.reshape(x, {rows, size, 1}), other = b.reshape(x, {rows, 1, size});
    const Value sooner = b.op("lt", {index({1, size}, {0, 1}), index({size, 1}, {1, 0})});
    const Value better = b.op(largest ? "gt" : "lt", {other, own});
    const Value before = b.op("or", {better, b.op("and", {b.op("eq", {other, own}), sooner})});
    const Value ranks = b.reduce_sum(b.cast(before, DType::f32), {2});
    const Value wanted = b.constant(ConstExpr::affine(Type::tensor(DType::f32, {k, 1}), 0, {1, 0}));
    const Value found = b.op("eq", {b.reshape(ranks, {rows, 1, size}), wanted});
    const Value numbers = b.op("select", {found, index({size}, {1}), b.scalar(DType::i64, 0)});
    const Value chosen = b.op("reduce_max", {numbers}, {{"axes", Dims{2}}, {"keep_dims", false}});
    const Value values = b.op("gather_elements", {x, chosen}, {{"axis", std::int64_t{1}}});
    dims.back() = k;
    return {b.transpose(b.reshape(values, dims), back), b.transpose(b.reshape(chosen, dims), back)};
}

}  // namespace thunderc
