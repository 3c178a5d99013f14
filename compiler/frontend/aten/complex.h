// SPDX-License-Identifier: Apache-2.0
// Tensors of complex numbers as pairs of real ones, which is all that a program has of them. Their parts are moved, cut
// and put together by the importers of real tensors, one after the other; what computes with them stands here.
#pragma once

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {

Binding complex_of(Value real, Value imaginary);
// Of real numbers with a last dimension of two, as complex ones lie in memory.
Binding complex_of_pairs(Builder& b, Value pairs);

// Imports a call of which some operand is complex. Throws UserError where there is no such operator.
void import_complex(Node& n, const OpImporter& importer, std::unordered_map<std::string, Binding>& names);

}  // namespace thunderc::aten
