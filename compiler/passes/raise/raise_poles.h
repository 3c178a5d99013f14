// SPDX-License-Identifier: Apache-2.0
// raise_poles: what is finite as a whole and has poles in its parts becomes an op, whose gradient is torch's.
//
//     log(sigmoid(x))                                                  ==>  neg(softplus(neg(%x)))
//     (t - 1) max(log(1 - p), -100) - t max(log p, -100)               ==>  binary_cross_entropy(%p, %t)
//     sqrt(c Σ v²)                                                     ==>  sqrt(%s) {flat_at_zero = true}
//     select(nothing, 0, softmax(x))  ==>  select(%nothing, 0, softmax(select(%nothing, 0, %x)))
//
// Differentiated as they are written, the first one gives 0 / 0 where the sigmoid is 0, the second one where p is 0 or
// 1, the third one where all v are 0: a norm, or the deviation of equal numbers; the last one 0 NaN where a row of x,
// which nothing may be read of, is -inf. torch's own functions, which exporters write out like this, have finite
// gradients there.
//
// Comes after fold_constants, which makes the -100 a constant. Changes no value but that log(sigmoid(x)) is -x where
// the sigmoid has left the range of f32.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_poles(Module module, Report& report);

}  // namespace thunderc
