// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/class_losses.h"

#include <utility>

#include "compiler/support/error.h"

namespace thunderc {

RowsOfClasses rows_of_classes(Builder& b, Value scores, Value labels) {
    const Type type = b.type(scores);
    const auto refuse = [](const char* message, const char* help, std::string expected, std::string actual) {
        Diagnostic d;
        d.message = message;
        d.help = help;
        d.expected = std::move(expected);
        d.actual = std::move(actual);
        throw UserError(std::move(d));
    };
    if (type.rank() < 2 || type.dims[1] == 0)
        refuse("a loss of classes takes scores of two dimensions or more, the second one for the classes", "", "",
               to_string(type));
    if (!is_integer(b.type(labels).dtype))
        refuse("the labels of a loss of classes are no classes",
               "labels that are probabilities: compute -(labels * log_softmax(logits)).sum(-1).mean() in the model",
               "integers", to_string(b.type(labels)));
    Dims permutation = {0};
    for (std::int64_t d = 2; d < type.rank(); ++d) permutation.push_back(d);
    permutation.push_back(1);
    const std::int64_t classes = type.dims[1], rows = type.elements() / classes;
    return {b.reshape(b.transpose(scores, permutation), {rows, classes}), b.reshape(labels, {rows}), classes};
}

Value cross_entropy_of_rows(Builder& b, const RowsOfClasses& rows, std::int64_t ignored, double smoothing, bool mean) {
    const Attributes attributes = {{"ignore_index", ignored}};
    const std::vector<Value> results = b.emit("cross_entropy", {rows.scores, rows.labels}, attributes);
    Value loss = results[0];
    if (smoothing != 0) {
        // A label is smoothing / C of each class: lse - mean(x) of each row that has one.
        const DType dtype = b.type(results[1]).dtype;
        const Value of_classes =
            b.mul(b.reduce_sum(b.cast(rows.scores, dtype), {1}), 1 / static_cast<double>(rows.classes));
        const DType ids = b.type(rows.labels).dtype;
        const Value valid = b.op("ne", {rows.labels, b.scalar(ids, static_cast<double>(ignored))});
        const Value spread =
            b.reduce_sum(b.op("select", {valid, b.sub(results[1], of_classes), b.scalar(dtype, 0)}), {0});
        loss = b.add(b.mul(loss, 1 - smoothing), b.mul(spread, smoothing));
    }
    return mean ? b.div(loss, b.op("cross_entropy_weight", {rows.labels}, attributes)) : loss;
}

Value cross_entropy_of_probabilities(Builder& b, Value scores, Value labels, double smoothing) {
    const Type type = b.type(scores);
    labels = b.cast(labels, type.dtype);
    if (smoothing != 0) {
        const double each = smoothing / static_cast<double>(type.dims[1]);
        labels = b.add(b.mul(labels, 1 - smoothing), b.scalar(type.dtype, each));
    }
    return b.neg(b.reduce_sum(b.mul(b.op("log_softmax", {scores}, {{"axis", std::int64_t{1}}}), labels), {1}));
}

}  // namespace thunderc
