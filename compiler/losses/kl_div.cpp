// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.kl_div with reduction = batchmean: the result is log-probabilities, the labels are probabilities
// (or their logarithms, with log_target), and the sum over all elements is divided by the extent of the result's first
// dimension, which is the mathematical mean over a batch. (torch's default, mean, divides by the number of elements.)
#include <fmt/format.h>

#include <cmath>

#include "compiler/losses/parts.h"

namespace thunderc {

AddedLoss kl_div_loss() {
    AddedLoss loss;
    loss.name = "kl-div";
    loss.what =
        "the sum over all elements of label (log(label) - result), of a result of log-probabilities, divided by its "
        "first dimension (torch's batchmean)";
    loss.least_rank = 2;
    loss.inputs = {number_labels("a probability, 0 as well; its logarithm with log_target=1")};
    loss.options = {{.name = "log_target",
                     .what = "whether labels are logarithms of probabilities",
                     .kind = LossOption::Kind::flag}};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) {
        const Value x = b.cast(result, DType::f32), t = b.cast(inputs[0], DType::f32);
        const Value zero = b.scalar(DType::f32, 0);
        Value terms;
        if (numbers.flag("log_target")) {
            const Value probability = b.op("exp", {t});
            terms = b.mul(probability, b.sub(t, x));
        } else {  // 0 log 0 is 0
            const Value information = b.mul(t, b.op("log", {t}));
            const Value of_labels = b.op("select", {b.op("gt", {t, zero}), information, zero});
            terms = b.sub(of_labels, b.mul(t, x));
        }
        const auto rows = static_cast<double>(b.type(result).dims.front());
        return std::vector<Value>{
            b.op("div", {sum_of_all(b, terms, "divergence"), b.scalar(DType::f32, rows)}, {}, "loss")};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers& numbers) {
        return fmt::format("KL divergence {}{}: the sum over each micro-batch, divided by its {} rows", against,
                           numbers.flag("log_target") ? ", which has logarithms" : "", result.dims.front());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) {
        double sum = 0;
        for (std::int64_t k = 0; k < result.size(); ++k) {
            const double given = inputs[0].at(k), x = result.at(k);
            const double t = numbers.flag("log_target") ? std::exp(given) : given;
            sum += (t > 0 ? t * std::log(t) : 0) - t * x;
        }
        return sum / static_cast<double>(result.type.dims.front());
    };
    return loss;
}

}  // namespace thunderc
