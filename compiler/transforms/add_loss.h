// Gives a graph its loss, as a sum and a weight: results `loss` and, where the loss is a mean, `weight`, which depends
// on inputs alone.
//
// A graph that ends in logits gets an input `labels` and a cross entropy (or a squared error with --loss mse):
//   in:   return %logits                                     // f32[2,32,256]
//   out:  %labels: i64[2,32] input
//         %rows = reshape(%logits) {dims = [64,256]}
//         %loss, %lse = cross_entropy(%rows, reshape(%labels)) {ignore_index = -100}
//         %weight = cross_entropy_weight(%labels) {ignore_index = -100}
//         return %loss, %weight
// A graph that ends in its own mean cross entropy is split: the division at its root goes, and what it divided by is
// the weight. So micro-steps and ranks add sums, and divide once. Any other scalar is kept; then there is no weight,
// and it is averaged over micro-steps and ranks, which the report says.
//
// Labels get their role for packed data: labels that the graph shifts itself are the tokens, others
// the next ones. Requires: phase values, main alone, parameters lifted. Throws UserError where there is no loss to be
// had.
#pragma once

#include <string>

#include "compiler/transforms/pass_manager.h"

namespace thunderc {

// `loss` is auto, cross-entropy, mse or none.
Module add_loss(Module module, const std::string& loss, Report& report);

}  // namespace thunderc
