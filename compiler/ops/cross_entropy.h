// SPDX-License-Identifier: Apache-2.0
// Cross entropy of rows, for ops that have it as a part.
#pragma once

#include <cstdint>

#include "compiler/ir/attribute.h"
#include "compiler/ir/builder.h"

namespace thunderc {

// The label of rows that do not count: the attribute `ignore_index`, -100 without it.
std::int64_t ignored_label(const Attributes& attributes);

// Of logits (rows, classes) against labels (rows), in f32 (f64 of f64): the loss of each row, 0 where it does not
// count, and the log-sum-exp of its logits.
struct RowLosses {
    Value losses, lse;  // (rows)
};
RowLosses row_losses(Builder& b, Value logits, Value labels, std::int64_t ignored);

// The gradient of the logits, of their type: (exp(logits - lse) - one_hot(label)) dloss, 0 where a row does not count.
Value row_gradients(Builder& b, Value logits, Value labels, Value lse, Value dloss, std::int64_t ignored);

}  // namespace thunderc
