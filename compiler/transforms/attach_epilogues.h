// attach_epilogues: what stands around a product becomes part of it, where nothing else reads what lies between.
//
//     %y = linear(%x, %w)                              %z = linear(%x, %w, %b, %r)
//     %u = add(%y, %b)                           =>
//     %z = add(%u, %r)
//
// - a bias; a residual (after an activation as well); an activation, and where others read its input (the way back
// does)
//   that is kept: gelu, silu, relu, tanh
// - column sums of dy become the bias gradient of the product with the same dy
// - sums with dx = dy W become its residual; products that add up to one weight gradient (tied weights) are chained
// - accumulate_gradient goes into the functions whose results it takes, and there into the product that makes the
//   gradient: its operands `before` and `first`
// - siblings: linear layers of one input become one product (ops/linear.h) over weights that lie side by side, which
// the
//   attribute adjacent_weights asks of the planner; their results become slices. On the way back sums of their dx
//   become one product with the concatenated dy, and so do their weight gradients. Groups are the same in all
//   functions: the order of weights is that of the entry function's arguments, and weights that are no arguments are
//   left alone
// - where a function gives all slices of a merged result to its caller, which only hands them on to one other function
//   (saved for the way back), it gives the merged result instead
//
// Requires: values, after compose_step and before claim. Leaves kernel functions alone.
#pragma once

#include "compiler/transforms/pass_manager.h"

namespace thunderc {

Module attach_epilogues(Module module, Report& report);

}  // namespace thunderc
