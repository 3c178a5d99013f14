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
// - accumulate_gradient(before, dw, first) becomes the product's own: its operands `before` and `first`
//
// Requires: values, after compose_step and before claim. Leaves kernel functions alone.
#pragma once

#include "compiler/transforms/pass_manager.h"

namespace thunderc {

Module attach_epilogues(Module module, Report& report);

}  // namespace thunderc
