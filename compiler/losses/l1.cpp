// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.l1_loss with reduction = mean.
#include <cmath>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss l1_loss() {
    AddedLoss loss;
    loss.name = "l1";
    loss.what = "the mean over all elements of |result - label|";
    loss.inputs = {number_labels()};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) {
        return std::vector<Value>{mean_of_all(b, distance(b, result, inputs[0]))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers&) {
        return mean_said("mean distance", against, result.elements());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers&) {
        return mean_of(result, inputs[0], [](double x, double y) { return std::abs(x - y); });
    };
    return loss;
}

}  // namespace thunderc
