// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.nll_loss with reduction = mean and ignore_index = -100. A label that is ignored is no class, so
// that nothing of its row is taken.
#include <fmt/format.h>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss nll_loss() {
    AddedLoss loss;
    loss.name = "nll";
    loss.what =
        "the mean of -result[label], of a result of log-probabilities of the classes in the last dimension, without "
        "rows of label -100";
    loss.least_rank = 2;
    loss.inputs = {class_labels()};
    loss.inputs.front().ids = [](const Type& result) { return ArgInfo::Ids{result.dims.back(), ignored_label}; };
    loss.options = {class_weights()};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) {
        const ClassRows rows = class_rows(b, result, inputs[0]);
        const Value label = is_label(b, rows), zero = b.scalar(DType::f32, 0);
        Value scores = b.cast(rows.scores, DType::f32), weight;
        if (const std::vector<double>& weights = numbers.numbers("class_weights"); !weights.empty()) {
            const Value row = numbers_of_classes(b, weights);
            scores = b.mul(scores, row);
            weight = sum_of_all(b, b.op("select", {label, row, zero}), "weight");
        } else {
            weight = label_count(b, rows.labels);
        }
        const Value taken = b.op("select", {label, b.neg(scores), zero});
        return std::vector<Value>{sum_of_all(b, taken, "loss"), weight};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers& numbers) {
        return fmt::format("negative log-likelihood {} {}; {} is ignored", classes_said(result, numbers), against,
                           ignored_label);
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) {
        const std::int64_t classes = result.type.dims.back();
        double sum = 0, weight = 0;
        for (std::int64_t row = 0; row < inputs[0].size(); ++row) {
            const auto label = static_cast<std::int64_t>(inputs[0].at(row));
            if (label == ignored_label) continue;
            sum -= weight_of(numbers, label) * result.at(row * classes + label);
            weight += weight_of(numbers, label);
        }
        return sum / weight;
    };
    return loss;
}

}  // namespace thunderc
