// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.huber_loss with reduction = mean.
#include <fmt/format.h>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss huber_loss() {
    AddedLoss loss;
    loss.name = "huber";
    loss.what =
        "the mean over all elements of d^2 / 2 where d = |result - label| is at most delta, of delta (d - delta / 2) "
        "elsewhere";
    loss.inputs = {number_labels()};
    loss.options = {{.name = "delta", .what = "up to where distances are squared", .standard = 1, .above_least = true}};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) {
        return std::vector<Value>{mean_of_all(b, bent_squares(b, result, inputs[0], numbers.number("delta")))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers& numbers) {
        return mean_said(fmt::format("mean Huber loss with delta {}", numbers.number("delta")), against,
                         result.elements());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) {
        const double delta = numbers.number("delta");
        return mean_of(result, inputs[0], [=](double x, double y) { return bent_square(x - y, delta); });
    };
    return loss;
}

}  // namespace thunderc
