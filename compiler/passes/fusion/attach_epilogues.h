// SPDX-License-Identifier: Apache-2.0
// attach_epilogues: what stands around a product becomes part of it, where nothing else reads what lies between.
//
//     %y = linear(%x, %w)                              %z = linear(%x, %w, %b, %r)
//     %u = add(%y, %b)                           =>
//     %z = add(%u, %r)
//
// - a bias; an activation (gelu, silu, relu, tanh), and its input is kept where others read it, as the backward pass
// does; convolutions keep none, so what is read as well stays an activation behind them
// - sums of dy to a number for each output become the bias gradient of the product with the same dy
// - sums: a product that nothing else reads adds the other terms, also behind a reshape of its rows; of several
//   products each adds the one before. Products that add up to one weight gradient (tied weights) are chained likewise
// - accumulate_gradient(before, dw, first) becomes the product's own: its operands `before` and `first`
//
// Products are what has an epilogue (OpDef::epilogue): linear layers, convolutions and transposed ones.
//
// Requires: values, after compose_step and before claim. Leaves kernel functions alone.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module attach_epilogues(Module module, Report& report);

}  // namespace thunderc
