// SPDX-License-Identifier: Apache-2.0
// The parameters between which a model's hidden matrices lie: tables that ids are looked up in, and the weight of the
// product that the model gives. Optimizers that step whole matrices leave these to AdamW.
//
//   %h = embedding(%e, %ids)                 // %e
//   %y = linear(%h, %w)                      // a hidden one
//   %z = linear(%y, %head)                   // %head
//   %loss, %lse = cross_entropy(%z, %labels)
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Framework names, in the order of the parameters. Of a module whose composites are raised, with its loss. Where the
// loss is made of several products, as of two results or of a residual stream, none of their weights is among them.
std::vector<std::string> outer_matrices(const Module& module);

}  // namespace thunderc
