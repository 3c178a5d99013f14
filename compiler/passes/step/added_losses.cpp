// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/added_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thunderc {
namespace {

constexpr std::int64_t ignored_label = -100;  // torch's default

// ---- cross-entropy
// -----------------------------------------------------------------------------------------------------

Type class_labels(const Type& result) {
    return Type::tensor(DType::i64, Dims(result.dims.begin(), result.dims.end() - 1));
}

std::vector<Value> cross_entropy(Builder& b, Value result, Value labels) {
    const Type type = b.type(result);
    const std::int64_t classes = type.dims.back(), rows = type.elements() / classes;
    const Value label_rows = b.reshape(labels, {rows});
    const Attributes attributes = {{"ignore_index", ignored_label}};
    const Value loss =
        b.emit("cross_entropy", {b.reshape(result, {rows, classes}), label_rows}, attributes, "loss").front();
    return {loss, b.op("cross_entropy_weight", {label_rows}, attributes, "weight")};
}

std::string cross_entropy_said(const Type& result, const std::string& labels) {
    return fmt::format("cross entropy over {} classes against the new input {}; {} is ignored", result.dims.back(),
                       labels, ignored_label);
}

double cross_entropy_defined(const Tensor& result, const Tensor& labels) {
    const std::int64_t classes = result.type.dims.back();
    double sum = 0;
    std::int64_t valid = 0;
    for (std::int64_t row = 0; row < labels.size(); ++row) {
        const auto label = static_cast<std::int64_t>(labels.at(row));
        if (label == ignored_label) continue;
        ++valid;
        double largest = -HUGE_VAL, total = 0;
        for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, result.at(row * classes + c));
        for (std::int64_t c = 0; c < classes; ++c) total += std::exp(result.at(row * classes + c) - largest);
        sum += std::log(total) + largest - result.at(row * classes + label);
    }
    return sum / static_cast<double>(valid);
}

// ---- mse
// ---------------------------------------------------------------------------------------------------------------

Type number_labels(const Type& result) {
    return result;
}

std::vector<Value> squared_error(Builder& b, Value result, Value labels) {
    const Value difference = b.sub(result, labels);
    Dims axes(b.type(result).dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    const Value squares = b.cast(b.mul(difference, difference), DType::f32);
    return {b.op("reduce_mean", {squares}, {{"axes", axes}, {"keep_dims", false}}, "loss")};
}

std::string squared_error_said(const Type& result, const std::string& labels) {
    return fmt::format(
        "mean squared error against the new input {}: the sum over {} elements of each micro-batch, "
        "divided by their number",
        labels, result.elements());
}

double squared_error_defined(const Tensor& result, const Tensor& labels) {
    double sum = 0;
    for (std::int64_t k = 0; k < result.size(); ++k) {
        const double difference = result.at(k) - labels.at(k);
        sum += difference * difference;
    }
    return sum / static_cast<double>(result.size());
}

constexpr AddedLoss table[] = {
    {"cross-entropy", "the mean cross entropy over the classes in the last dimension, without rows of label -100", 2,
     class_labels, cross_entropy, cross_entropy_said, cross_entropy_defined},
    {"mse", "the mean over all elements of (result - label)^2", 1, number_labels, squared_error, squared_error_said,
     squared_error_defined},
};

}  // namespace

std::span<const AddedLoss> added_losses() {
    return table;
}

const AddedLoss* find_loss(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(table), std::end(table), [&](const AddedLoss& loss) { return loss.name == name; });
    return found == std::end(table) ? nullptr : found;
}

std::string loss_names() {
    std::string out;
    for (std::size_t k = 0; k < std::size(table); ++k)
        out += fmt::format("{}{}", k == 0 ? "" : k + 1 == std::size(table) ? " or " : ", ", table[k].name);
    return out;
}

}  // namespace thunderc
