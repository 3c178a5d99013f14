// SPDX-License-Identifier: Apache-2.0
// torch.nn.functional.cosine_embedding_loss with reduction = mean. torch takes signs of 1 and -1 alone, which is what
// is told apart here by being above 0 or below; a row whose sign is 0 adds nothing to the sum there and here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/losses/parts.h"

namespace thunderc {
namespace {

constexpr double least_square = 1e-12;  // torch's: added to both squared lengths, so that an embedding may be 0

Value squared_length(Builder& b, Value v) {
    return b.add(b.reduce_sum(b.mul(v, v), {b.type(v).rank() - 1}), least_square);
}

}  // namespace

AddedLoss cosine_embedding_loss() {
    AddedLoss loss;
    loss.name = "cosine-embedding";
    loss.what =
        "the mean over rows of 1 - cos(result, other) where their sign is 1, of max(0, cos(result, other) - margin) "
        "where it is -1; embeddings are the last dimension";
    loss.least_rank = 2;
    loss.least_width = 2;
    loss.inputs = {
        {.name = "other_embeddings", .shape = "as the result", .holds = "the other embedding", .type = like_result},
        {.name = "signs",
         .shape = "as the result, without its last dimension",
         .holds = "1 where the two are alike, -1 where they are not; a row of 0 adds nothing to the sum",
         .type = [](const Type& result) { return rows_of_result(result, DType::f32); }}};
    loss.options = {{.name = "margin",
                     .what = "up to which cosine those that are not alike may be as they are",
                     .least = -1,
                     .most = 1}};
    loss.build = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) {
        const Value x = b.cast(result, DType::f32), y = b.cast(inputs[0], DType::f32);
        const Value product = b.reduce_sum(b.mul(x, y), {b.type(x).rank() - 1});
        const Value of_x = squared_length(b, x), of_y = squared_length(b, y);
        const Value lengths = b.op("sqrt", {b.mul(of_x, of_y)}, {}, "lengths");
        const Value cosine = b.op("div", {product, lengths}, {}, "cosine");
        const Value alike = b.op("sub", {b.scalar(DType::f32, 1), cosine}, {}, "alike");
        const Value apart = b.op("relu", {b.sub(cosine, b.scalar(DType::f32, numbers.number("margin")))}, {}, "apart");
        const Value zero = b.scalar(DType::f32, 0);
        const Value is_alike = b.op("gt", {inputs[1], zero}, {}, "is_alike");
        const Value is_apart = b.op("lt", {inputs[1], zero}, {}, "is_apart");
        const Value others = b.op("select", {is_apart, apart, zero});
        return std::vector<Value>{mean_of_all(b, b.op("select", {is_alike, alike, others}))};
    };
    loss.said = [](const Type& result, const std::string& against, const LossNumbers& numbers) {
        return mean_said(fmt::format("mean cosine embedding loss with margin {}", numbers.number("margin")), against,
                         result.elements() / result.dims.back());
    };
    loss.definition = [](const Tensor& result, std::span<const Tensor> inputs, const LossNumbers& numbers) {
        const std::int64_t width = result.type.dims.back(), rows = inputs[1].size();
        double sum = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
            double product = 0, x = least_square, y = least_square;
            for (std::int64_t k = row * width; k < (row + 1) * width; ++k) {
                product += result.at(k) * inputs[0].at(k);
                x += result.at(k) * result.at(k);
                y += inputs[0].at(k) * inputs[0].at(k);
            }
            const double cosine = product / std::sqrt(x * y);
            const double sign = inputs[1].at(row);
            if (sign > 0) sum += 1 - cosine;
            if (sign < 0) sum += std::max(0.0, cosine - numbers.number("margin"));
        }
        return sum / static_cast<double>(rows);
    };
    return loss;
}

}  // namespace thunderc
