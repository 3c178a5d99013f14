// SPDX-License-Identifier: Apache-2.0
// Where a function that a user brings (--user-executor) computes what a model has as several ops, it is called.
//
//     %s = sigmoid(%x) : f32[4,8]
//     %y = mul(%x, %s) : f32[4,8]                =>    %y = user.swish(%x) : f32[4,8]
//
// for a function with the pattern
//
//     func @swish(%x: f32[..., C]) -> (%y) {
//       %s = sigmoid(%x) : f32[..., C]
//       %y = mul(%x, %s) : f32[..., C]
//     }
//
// What is replaced is the pattern's own structure: the same ops with the same attributes, constants and types at the
// sizes that its arguments have there; operands of commutative ops in either order. Nothing else may read what it
// computes on the way. Each place is noted, and each that has its structure and is not taken, with the reason.
//
// Requires: values, and ops as `simplify_raised` leaves them. Does not: look into functions other than main, or replace
// patterns with several results.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module use_user_functions(Module module, Report& report);

// The other way round: what the pattern says in the place of the call, where there is one. For naive programs, and for
// what is evaluated in fp64.
Module expand_user_functions(Module module, Report& report);

}  // namespace thunderc
