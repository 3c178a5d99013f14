// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.poisson_nll_loss with log_input = True, full = False and reduction = mean.
#include <cmath>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss poisson_nll_loss() {
    AddedLoss loss;
    loss.name = "poisson-nll";
    loss.what = "the mean over all elements of exp(result) - label result, of a result of logarithms of rates";
    loss.inputs = {number_labels("how often it was counted")};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) {
        const Value x = b.cast(result, DType::f32), counts = b.cast(inputs[0], DType::f32);
        const Value rate = b.op("exp", {x}, {}, "rate");
        return std::vector<Value>{mean_of_all(b, b.sub(rate, b.mul(counts, x)))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers&) {
        return mean_said("mean Poisson negative log-likelihood", against, result.elements());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers&) {
        return mean_of(result, inputs[0], [](double x, double count) { return std::exp(x) - count * x; });
    };
    return loss;
}

}  // namespace thunderc
