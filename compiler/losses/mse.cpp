// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.mse_loss with reduction = mean.
#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss mse_loss() {
    AddedLoss loss;
    loss.name = "mse";
    loss.what = "the mean over all elements of (result - label)^2";
    loss.inputs = {number_labels()};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) {
        const Value difference = b.sub(result, inputs[0]);
        return std::vector<Value>{mean_of_all(b, b.mul(difference, difference))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers&) {
        return mean_said("mean squared error", against, result.elements());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers&) {
        return mean_of(result, inputs[0], [](double x, double y) { return (x - y) * (x - y); });
    };
    return loss;
}

}  // namespace thunderc
