// SPDX-License-Identifier: Apache-2.0
// A part of add_loss: which labels the cross entropies of a graph see. Labels that the graph shifts against the logits
// by itself, be it by one position or by more, are the tokens of packed data; others are the tokens behind them.
//
//   cross_entropy(slice(%logits) {end = T - 1}, slice(%labels) {begin = 1})   // labels {source = "tokens"}
//   cross_entropy(%logits, %labels)                                           // labels {source = "next_tokens"}
#pragma once

#include "compiler/ir/module.h"

namespace thunderc {

// Gives the inputs of `main` that are labels their source. UserError where one is shifted by one loss alone.
void describe_labels(Function& main);

}  // namespace thunderc
