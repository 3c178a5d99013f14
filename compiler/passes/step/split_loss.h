// SPDX-License-Identifier: Apache-2.0
// A part of add_loss: what a graph's own loss is over several micro-batches.
//
// The scalar at the root is taken apart through sums, differences and factors. A term that is a sum over the batch's
// rows, divided by a weight that depends on inputs alone (a mean over valid labels, a masked mean), is a mean of the
// whole batch where the weight is the whole batch's:
//
//   %loss = add(div(%s1, %w1), mul(div(%s2, %w2), 0.5))         // two means, each with its weight
//   ->  %loss = add(div(%s1, %t1), mul(div(%s2, %t2), 0.5)), weights %w1, %w2, where %t1 and %t2 are arguments of main:
//       the sums of the weights over micro-steps and ranks (the scalars loss_weights[k])
//
// One mean alone needs no argument: its sum is the loss, and dloss = 1 / weight. Every other term is averaged over the
// micro-batches, which is what a mean of a fixed number of elements is over the whole batch; of other terms the text
// says that they are averaged.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/builder.h"

namespace thunderc {

struct SplitLoss {
    Value loss;
    std::vector<Value> weights;  // f32[]; main has the arguments loss_weights[k] unless the loss is one mean
    std::string text;
    bool averaged = false;  // some term is not the whole batch's, but averaged
    bool mixed = false;     // rows of a batch see one another on the way to it
};

// Appends to main what it needs. `added`: the root is no loss of the model's own, but a sum of some that --loss adds.
SplitLoss split_loss(Function& main, Value root, const Provenance& provenance = {}, bool added = false);

}  // namespace thunderc
