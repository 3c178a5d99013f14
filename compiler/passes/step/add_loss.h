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
// Several losses, --loss cross-entropy@logits+0.5*mse@value, are each added as a mean, sum / weight, and their sum is
// split as a model's own is: each keeps its weight. Inputs that two of them read are one where the two see the same
// result; else they are called after it, `value_labels`.
//
// Labels get their role for packed data: labels that the graph shifts itself are the tokens, others
// the next ones. Requires: phase values, main alone, parameters lifted. Throws UserError where there is no loss to be
// had.
#pragma once

#include <string>

#include "compiler/passes/pass_manager.h"
#include "compiler/passes/step/choose_loss.h"

namespace thunderc {

// `loss` is what choose_loss takes. `several_ranks`: each step averages a loss that is no mean, which is warned of.
// (Else it may, with --grad-accum.)
Module add_loss(Module module, const std::string& loss, Report& report, bool several_ranks = true);

// The part of it that adds what was chosen.
Module append_loss(Module module, const ChosenLoss& chosen, Report& report);

}  // namespace thunderc
