// SPDX-License-Identifier: Apache-2.0
// Gives a graph its loss, as a sum and a weight: results `loss` and, where the loss is a mean over what inputs decide,
// its weights, which depend on inputs alone.
//
// A graph that ends in logits gets a loss of compiler/losses, with the inputs that it takes; without --loss a cross
// entropy where its inputs are ids and its result is [batch, positions, classes]:
//   in:   return %logits                                     // f32[2,32,256]
//   out:  %labels: i64[2,32] input
//         %rows = reshape(%logits) {dims = [64,256]}
//         %loss, %lse = cross_entropy(%rows, reshape(%labels)) {ignore_index = -100}
//         %weight = cross_entropy_weight(%labels) {ignore_index = -100}
//         return %loss, %weight
// A graph that ends in its own mean is split: the division at its root goes, and what it divided by is the weight. So
// micro-steps and ranks add sums, and divide once. A loss of several terms keeps a weight for each; what is no mean
// over the batch is averaged over micro-steps and ranks, which the report says: split_loss.h.
//
// Labels get their role for packed data: labels that the graph shifts itself are the tokens, others
// the next ones. Requires: phase values, main alone, parameters lifted. Throws UserError where there is no loss to be
// had.
#pragma once

#include <cstddef>
#include <string>

#include "compiler/losses/losses.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// What is trained on: a result of main, and what is added to it. `loss` is auto, none or what parse_loss takes.
struct ChosenLoss {
    std::size_t result = 0;
    std::string name;  // of the result
    GivenLoss added;   // of no loss: the result is the model's own
    // Of several micro-batches it is what it is of all of their rows as one batch: of the model's own, no term is
    // averaged for want of better, and no rows see one another.
    bool whole = true;
};
ChosenLoss choose_loss(const Module& module, const std::string& loss);

// `several_ranks`: each step averages a loss that is no mean, which is warned of. (Else it may, with --grad-accum.)
Module add_loss(Module module, const std::string& loss, Report& report, bool several_ranks = true);

// The part of it that adds `added` to a result.
Module append_loss(Module module, std::size_t result, const GivenLoss& added, Report& report);

}  // namespace thunderc
