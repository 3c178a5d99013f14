// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.smooth_l1_loss with reduction = mean: Huber's with delta = beta, divided by beta.
#include <fmt/format.h>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss smooth_l1_loss() {
    AddedLoss loss;
    loss.name = "smooth-l1";
    loss.what =
        "the mean over all elements of d^2 / (2 beta) where d = |result - label| is at most beta, of d - beta / 2 "
        "elsewhere";
    loss.inputs = {number_labels()};
    loss.options = {{.name = "beta", .what = "up to where distances are squared", .standard = 1, .above_least = true}};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) {
        const double beta = numbers.number("beta");
        const Value bent = bent_squares(b, result, inputs[0], beta);
        return std::vector<Value>{mean_of_all(b, b.div(bent, b.scalar(DType::f32, beta)))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers& numbers) {
        return mean_said(fmt::format("mean smooth L1 loss with beta {}", numbers.number("beta")), against,
                         result.elements());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) {
        const double beta = numbers.number("beta");
        return mean_of(result, inputs[0], [=](double x, double y) { return bent_square(x - y, beta) / beta; });
    };
    return loss;
}

}  // namespace thunderc
