// SPDX-License-Identifier: Apache-2.0
#include "compiler/losses/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thunderc {

Type like_result(const Type& result) {
    return result;
}

Type rows_of_result(const Type& result, DType dtype) {
    return Type::tensor(dtype, Dims(result.dims.begin(), result.dims.end() - 1));
}

LossInput number_labels(std::string holds) {
    return {.name = "labels", .shape = "as the result", .holds = std::move(holds), .type = like_result};
}

LossInput class_labels() {
    return {.name = "labels",
            .shape = "as the result, without its last dimension",
            .holds = fmt::format("a class, or {} where there is none", ignored_label),
            .type = [](const Type& result) { return rows_of_result(result, DType::i64); }};
}

namespace {

Attributes over_all(const Type& type) {
    Dims axes(type.dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    return {{"axes", axes}, {"keep_dims", false}};
}

}  // namespace

Value mean_of_all(Builder& b, Value v) {
    return b.op("reduce_mean", {b.cast(v, DType::f32)}, over_all(b.type(v)), "loss");
}

Value sum_of_all(Builder& b, Value v, std::string_view name) {
    return b.op("reduce_sum", {v}, over_all(b.type(v)), name);
}

Value distance(Builder& b, Value result, Value labels) {
    const Value x = b.cast(result, DType::f32), y = b.cast(labels, DType::f32);
    return b.op("abs", {b.sub(x, y)}, {}, "distance");
}

std::string mean_said(const std::string& what, const std::string& against, std::int64_t elements) {
    return fmt::format("{} {}: the sum over {} elements of each micro-batch, divided by their number", what, against,
                       elements);
}

double mean_of(const Tensor& result, const Tensor& labels, const std::function<double(double, double)>& f) {
    double sum = 0;
    for (std::int64_t k = 0; k < result.size(); ++k) sum += f(result.at(k), labels.at(k));
    return sum / static_cast<double>(result.size());
}

// With c = min(d, bend) it is c (d - c / 2) on both sides, and so is its gradient, at the bend as well: no branch.
Value bent_squares(Builder& b, Value result, Value labels, double bend) {
    const Value d = distance(b, result, labels);
    const Value near = b.op("min", {d, b.scalar(DType::f32, bend)}, {}, "near");
    return b.mul(near, b.sub(d, b.mul(near, 0.5)));
}

double bent_square(double distance, double bend) {
    const double d = std::abs(distance);
    return d <= bend ? d * d / 2 : bend * (d - bend / 2);
}

LossOption class_weights() {
    return {.name = "class_weights",
            .what = "what each class counts, in their order; the weight of a label is its class's",
            .kind = LossOption::Kind::number_of_each_class};
}

ClassRows class_rows(Builder& b, Value result, Value labels) {
    const Type type = b.type(result);
    ClassRows out;
    out.classes = type.dims.back();
    out.rows = type.elements() / out.classes;
    out.labels = b.reshape(labels, {out.rows});
    out.scores = b.reshape(result, {out.rows, out.classes});
    return out;
}

Value is_label(Builder& b, const ClassRows& rows) {
    const DType ids = b.type(rows.labels).dtype;
    const Value index = b.constant(ConstExpr::affine(Type::tensor(ids, {1, rows.classes}), 0, {0, 1}), "class");
    return b.op("eq", {index, b.reshape(rows.labels, {rows.rows, 1})}, {}, "is_label");
}

Value numbers_of_classes(Builder& b, const std::vector<double>& numbers) {
    Tensor row(Type::tensor(DType::f32, {1, static_cast<std::int64_t>(numbers.size())}));
    for (std::size_t c = 0; c < numbers.size(); ++c) row.set(static_cast<std::int64_t>(c), numbers[c]);
    return b.constant(ConstExpr::dense(std::move(row)), "class_weights");
}

Value label_count(Builder& b, Value labels) {
    return b.op("cross_entropy_weight", {labels}, {{"ignore_index", ignored_label}}, "weight");
}

double weight_of(const LossNumbers& numbers, std::int64_t label) {
    const std::vector<double>& weights = numbers.numbers("class_weights");
    return weights.empty() ? 1 : weights.at(static_cast<std::size_t>(label));
}

std::string classes_said(const Type& result, const LossNumbers& numbers) {
    return fmt::format("over {}{} classes", result.dims.back(),
                       numbers.numbers("class_weights").empty() ? "" : " weighted");
}

}  // namespace thunderc
