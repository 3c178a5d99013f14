// SPDX-License-Identifier: Apache-2.0
// The losses that --loss adds to a graph that ends in none: the one table of them. Each says what labels it takes, how
// it is computed, and once more in plain fp64 what it is by definition, which `thunderc verify` compares with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

struct AddedLoss {
    std::string_view name;    // what --loss takes
    std::string_view what;    // "the mean cross entropy of classes, which are the last dimension"
    std::int64_t least_rank;  // of the result: how many dimensions it has at least
    Type (*labels)(const Type& result);
    // From the graph's result and the labels: the loss f32[] of a micro-batch and, where it is a sum whose weight the
    // labels decide, that weight. Without a weight it is averaged over micro-batches.
    std::vector<Value> (*build)(Builder& b, Value result, Value labels);
    std::string (*said)(const Type& result, const std::string& labels);
    // Of the whole batch, with its rows one behind the other.
    double (*definition)(const Tensor& result, const Tensor& labels);
};

std::span<const AddedLoss> added_losses();
const AddedLoss* find_loss(std::string_view name);  // null where there is none
std::string loss_names();                           // "cross-entropy or mse"

}  // namespace thunderc
