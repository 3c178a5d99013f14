// SPDX-License-Identifier: Apache-2.0
// raise_norm: chains that normalise rows become `rms_norm` or `layer_norm`.
//
//     %s = pow(%x, 2)                         or mul(%x, %x)
//     %m = reduce_mean(%s) {axes = [-1], keep_dims = true}
//     %v = add(%m, 1e-5)
//     %r = reciprocal(sqrt(%v))               or rsqrt(%v), 1 / sqrt(%v), pow(%v, -0.5); or a division by sqrt(%v)
//     below %n = mul(%x, %r) %y = mul(%w, %n)                   ==>  %y, %rstd = rms_norm(%x, %w) {eps = 1e-5}
//
// Casts to f32 around the statistics belong to the pattern. A weight of 1 + w is `offset = 1` over w. Where x is first
// centred, by its own mean, and a bias may follow, it is a layer_norm. Without a weight the norm is raised too: the
// operand is absent.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_norm(Module module, Report& report);

}  // namespace thunderc
