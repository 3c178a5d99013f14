// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.cross_entropy with reduction = mean and ignore_index = -100.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss cross_entropy_loss() {
    AddedLoss loss;
    loss.name = "cross-entropy";
    loss.what = "the mean cross entropy over the classes in the last dimension, without rows of label -100";
    loss.least_rank = 2;
    loss.inputs = {class_labels()};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) {
        const ClassRows rows = class_rows(b, result, inputs[0]);
        const Value sum =
            b.emit("cross_entropy", {rows.scores, rows.labels}, {{"ignore_index", ignored_label}}, "loss").front();
        return std::vector<Value>{sum, label_count(b, rows.labels)};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers&) {
        return fmt::format("cross entropy over {} classes {}; {} is ignored", result.dims.back(), against,
                           ignored_label);
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers&) {
        const std::int64_t classes = result.type.dims.back();
        double sum = 0;
        std::int64_t valid = 0;
        for (std::int64_t row = 0; row < inputs[0].size(); ++row) {
            const auto label = static_cast<std::int64_t>(inputs[0].at(row));
            if (label == ignored_label) continue;
            ++valid;
            double largest = -HUGE_VAL, total = 0;
            for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, result.at(row * classes + c));
            for (std::int64_t c = 0; c < classes; ++c) total += std::exp(result.at(row * classes + c) - largest);
            sum += std::log(total) + largest - result.at(row * classes + label);
        }
        return sum / static_cast<double>(valid);
    };
    return loss;
}

}  // namespace thunderc
