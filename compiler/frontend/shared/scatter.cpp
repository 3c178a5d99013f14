// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/scatter.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::int64_t most_pairs = std::int64_t{1} << 22;  // of elements and updates that are compared

// Where all places are known: of each row the last update that is written to it, or else the row itself.
Value gathered_writes(Builder& b, const RowWrites& w, const Tensor& at) {
    Tensor from = Tensor::ints(std::vector<std::int64_t>(static_cast<std::size_t>(w.rows)));
    std::iota(from.i.begin(), from.i.end(), 0);
    for (std::int64_t k = 0; k < w.count; ++k)
        from.i[static_cast<std::size_t>(at.i[static_cast<std::size_t>(k)])] = w.rows + k;
    const Value all = b.op("concat", {w.data, w.updates}, {{"axis", std::int64_t{0}}});
    return b.op("gather", {all, b.constant(ConstExpr::dense(std::move(from)))}, {{"axis", std::int64_t{0}}});
}

// ONNX forbids two updates of one place here, and torch says of none which one is written. They are there all the same
// where all have the same number (a one for each label that occurs): of such ones the mean is written.
Value replaced_writes(Builder& b, const RowWrites& w) {
    const auto add_up = [&](Value updates) {
        return b.op("scatter_add", {w.at, updates}, {{"axis", std::int64_t{0}}, {"entries", w.rows}});
    };
    const DType dtype = b.type(w.data).dtype;
    const Value zero = b.scalar(DType::f32, 0);
    if (is_float(dtype)) {
        const Value hits = add_up(b.splat(Type::tensor(DType::f32, {w.count, 1}), 1));
        const Value several = b.cast(b.op("max", {hits, b.scalar(DType::f32, 1)}), dtype);
        return b.op("select", {b.op("gt", {hits, zero}), b.div(add_up(w.updates), several), w.data});
    }
    // Sums are of floating point numbers: here of the updates' numbers, from 1 on.
    const ConstPtr from_one = ConstExpr::affine(Type::tensor(DType::f32, {w.count, 1}), 1, {1, 0});
    const Value number = add_up(b.constant(from_one));
    const Value last = b.scalar(DType::i64, static_cast<double>(w.count - 1)), first = b.scalar(DType::i64, 0);
    const Value which = b.op("clip", {b.add(b.cast(b.reshape(number, {w.rows}), DType::i64), -1), first, last});
    const Value chosen = b.op("gather", {w.updates, which}, {{"axis", std::int64_t{0}}});
    return b.op("select", {b.op("gt", {number, zero}), chosen, w.data});
}

// Every row beside every update. What is not written to a row is 0 of a sum, 1 of a product, and the row itself of a
// maximum.
Value reduced_writes(Builder& b, const RowWrites& w) {
    if (w.rows * w.count * w.width > most_pairs)
        fail(fmt::format("writing by index with the reduction {} of {} elements by {} updates is not supported",
                         w.reduction, w.rows * w.width, w.count * w.width),
             "use the reduction \"add\" of floating point numbers in the model, or a smaller tensor");
    const DType dtype = b.type(w.data).dtype;
    const Value row = b.constant(ConstExpr::affine(Type::tensor(DType::i64, {w.rows, 1}), 0, {1, 0}));
    const Value hit = b.op("eq", {row, b.reshape(b.cast(w.at, DType::i64), {1, w.count})});
    const bool add = w.reduction == "add", multiply = w.reduction == "mul";
    const Value other = add || multiply ? b.scalar(dtype, multiply ? 1 : 0) : b.reshape(w.data, {w.rows, 1, w.width});
    const Value updates =
        b.op("select", {b.reshape(hit, {w.rows, w.count, 1}), b.reshape(w.updates, {1, w.count, w.width}), other});
    const std::string over = add ? "reduce_sum" : multiply ? "reduce_prod" : "reduce_" + w.reduction;
    const Value v = b.op(over, {updates}, {{"axes", Dims{1}}, {"keep_dims", false}});
    return b.op(w.reduction, {w.data, v});
}

}  // namespace

Value numbers_of_elements(Builder& b, const Dims& dims) {
    const Dims strides = dense_strides(dims);
    return b.constant(
        ConstExpr::affine(Type::tensor(DType::i64, dims), 0, std::vector<double>(strides.begin(), strides.end())));
}

Value written(Builder& b, const RowWrites& w, const std::optional<Tensor>& at) {
    if (w.count == 0 || w.width == 0 || w.rows == 0) return w.data;
    if (w.reduction == "none") return at ? gathered_writes(b, w, *at) : replaced_writes(b, w);
    if (w.reduction != "add" || !is_float(b.type(w.data).dtype)) return reduced_writes(b, w);
    return b.add(w.data, b.op("scatter_add", {w.at, w.updates}, {{"axis", std::int64_t{0}}, {"entries", w.rows}}));
}

}  // namespace thunderc
