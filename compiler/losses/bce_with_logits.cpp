// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.binary_cross_entropy_with_logits with reduction = mean, in the form in which neither a large x
// nor a small one cancels: max(x, 0) - x t + log(1 + e^-|x|).
#include <algorithm>
#include <cmath>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss bce_with_logits_loss() {
    AddedLoss loss;
    loss.name = "bce-with-logits";
    loss.what = "the mean over all elements of the binary cross entropy of sigmoid(result)";
    loss.inputs = {number_labels("the probability of each element, from 0 to 1")};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) {
        const Value x = b.cast(result, DType::f32), t = b.cast(inputs[0], DType::f32);
        // max has half a gradient at 0, where sigmoid's is (1/2 - t): relu would have none
        const Value positive = b.op("max", {x, b.scalar(DType::f32, 0)});
        const Value rest = b.op("softplus", {b.neg(b.op("abs", {x}))});
        return std::vector<Value>{mean_of_all(b, b.add(b.sub(positive, b.mul(x, t)), rest))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers&) {
        return mean_said("mean binary cross entropy of logits", against, result.elements());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers&) {
        return mean_of(result, inputs[0], [](double x, double t) {
            return t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
        });
    };
    return loss;
}

}  // namespace thunderc
