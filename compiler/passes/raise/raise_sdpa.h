// SPDX-License-Identifier: Apache-2.0
// raise_sdpa: attention written out becomes `sdpa`, which never holds T x S probabilities.
//
//     %k2 = reshape(broadcast_to(reshape(%k)))          each key head repeated for its group of query heads
//     %s = matmul(mul(%q, 0.5), mul(transpose(%k2), 0.5))
//     %m = add(%s, %mask)
//     %p = softmax(%m) {axis = -1}
//     %p2 = select(is_nan(%p), 0, %p)
//     %y = matmul(%p2, %v2)          ==>  %o, %lse = sdpa(%q', %k', %v') {causal = true, scale = 0.25}
//                                         %y = transpose(%o) {0, 2, 1, 3}
//
// - q, k and v are taken as views of what they were reshaped, transposed and repeated from, so key heads stay as few as
//   they are; the operands of sdpa are (B,T,NH,HS), and the transposes made for that cancel against those that led to
//   (B,NH,T,HS).
// - All constant factors on the way become `scale`.
// - A constant mask is read (analysis/mask): causal, causal with a window, or none; a mask of another kind, and one
//   that is not known when compiling, leaves the attention as it is. A part of the mask that is a boolean input for
//   each key (padding) is handed on.
// - A position that may read no key gets 0, as where the graph drops NaNs, or sets such rows to 0 before and behind the
//   softmax. Where a constant mask makes it so, the attention stays as it is. Padding makes it so only when the program
//   runs: where the graph does neither it would get NaN (masks of -inf), or the mean of all values (masks of the least
//   finite number, for which there is a warning; docs/numerics.md says why that mean is not kept).
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_sdpa(Module module, Report& report);

}  // namespace thunderc
