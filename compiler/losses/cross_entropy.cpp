// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.cross_entropy with reduction = mean and ignore_index = -100. A row with label y, the class
// weights w (1 where there are none) and C classes adds to the loss
//
//   (1 - label_smoothing) w[y] (lse - x[y]) + label_smoothing / C sum over c of w[c] (lse - x[c]) + z_loss w[y] lse^2
//
// and w[y] to its weight: label smoothing as torch has it; z_loss is that of PaLM, where all classes weigh the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss cross_entropy_loss() {
    AddedLoss loss;
    loss.name = "cross-entropy";
    loss.what = "the mean cross entropy over the classes in the last dimension, without rows of label -100";
    loss.least_rank = 2;
    loss.least_width = 2;
    loss.inputs = {class_labels()};
    loss.options = {{.name = "label_smoothing", .what = "the part of each label that all classes share", .most = 1},
                    {.name = "z_loss", .what = "what the square of log(sum(exp(result))) of each row is added with"},
                    class_weights()};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) {
        const ClassRows rows = class_rows(b, result, inputs[0]);
        const std::vector<Value> entropy =
            b.emit("cross_entropy", {rows.scores, rows.labels}, {{"ignore_index", ignored_label}}, "loss");
        const double smoothing = numbers.number("label_smoothing"), z = numbers.number("z_loss");
        const std::vector<double>& weights = numbers.numbers("class_weights");
        if (smoothing == 0 && z == 0 && weights.empty())
            return std::vector<Value>{entropy[0], label_count(b, rows.labels)};
        const Value lse = entropy[1], zero = b.scalar(DType::f32, 0);
        const Value scores = b.cast(rows.scores, DType::f32);
        Value sum = entropy[0], of_rows, row_weights, weight, class_row;
        const auto add = [&](Value terms, double factor) {
            const Value scaled = b.mul(terms, factor);
            of_rows = of_rows ? b.add(of_rows, scaled) : scaled;
        };
        const auto weighted = [&](Value terms) { return row_weights ? b.mul(terms, row_weights) : terms; };
        if (!weights.empty()) {
            const Value label = is_label(b, rows);
            class_row = numbers_of_classes(b, weights);
            row_weights = b.reduce_sum(b.op("select", {label, class_row, zero}), {1});
            weight = sum_of_all(b, row_weights, "weight");
            const Value picked = b.reduce_sum(b.op("select", {label, scores, zero}), {1});
            add(weighted(b.sub(lse, picked)), 1 - smoothing);
            sum = {};
        } else {
            sum = b.mul(sum, 1 - smoothing);
            weight = label_count(b, rows.labels);
        }
        if (smoothing != 0) {
            const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
            const auto classes = static_cast<double>(rows.classes);
            const Value total = b.reduce_sum(class_row ? b.mul(scores, class_row) : scores, {1});
            add(b.sub(b.mul(lse, weights.empty() ? classes : all), total), smoothing / classes);
        }
        if (z != 0) add(weighted(b.mul(lse, lse)), z);
        if (of_rows) {
            const Value valid = b.op("ne", {rows.labels, b.scalar(b.type(rows.labels).dtype, ignored_label)});
            const Value added = b.reduce_sum(b.op("select", {valid, of_rows, zero}), {0});
            sum = sum ? b.add(sum, added) : added;
        }
        return std::vector<Value>{sum, weight};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers& numbers) {
        std::string with;
        for (const char* option : {"label_smoothing", "z_loss"})
            if (numbers.number(option) != 0)
                with += fmt::format("{}{} {}", with.empty() ? " with " : " and ", option, numbers.number(option));
        return fmt::format("cross entropy {}{} {}; {} is ignored", classes_said(result, numbers), with, against,
                           ignored_label);
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) {
        const double smoothing = numbers.number("label_smoothing"), z = numbers.number("z_loss");
        const std::int64_t classes = result.type.dims.back();
        double sum = 0, weight = 0;
        for (std::int64_t row = 0; row < inputs[0].size(); ++row) {
            const auto label = static_cast<std::int64_t>(inputs[0].at(row));
            if (label == ignored_label) continue;
            double largest = -HUGE_VAL, total = 0, spread = 0;
            for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, result.at(row * classes + c));
            for (std::int64_t c = 0; c < classes; ++c) total += std::exp(result.at(row * classes + c) - largest);
            const double lse = std::log(total) + largest, own = weight_of(numbers, label);
            for (std::int64_t c = 0; c < classes; ++c)
                spread += weight_of(numbers, c) * (lse - result.at(row * classes + c));
            sum += (1 - smoothing) * own * (lse - result.at(row * classes + label)) +
                   smoothing * spread / static_cast<double>(classes) + z * own * lse * lse;
            weight += own;
        }
        return sum / weight;
    };
    return loss;
}

}  // namespace thunderc
