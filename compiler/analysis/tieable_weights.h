// SPDX-License-Identifier: Apache-2.0
// The two parameters of a model that checkpoints often have as one tensor: the table of its embedding and the weight of
// the product that makes its logits.
//
//   %h = embedding(%e, %ids)
//   ...
//   %z = linear(%y, %w)                      // %e and %w, where both have the same shape
//   %loss, %lse = cross_entropy(%z, %labels)
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/module.h"

namespace thunderc {

struct TieableWeights {
    std::string embedding, logits;  // framework names
};

// Nothing where the model has no such pair, or more than one: two tables of one shape are told apart by nobody. Of a
// module whose composites are raised, with its loss.
std::optional<TieableWeights> tieable_weights(const Module& module);

}  // namespace thunderc
