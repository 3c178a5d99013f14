// SPDX-License-Identifier: Apache-2.0
// raise_rotary: rotary position embeddings written out become `rotary`.
//
//     %a = mul(%x, %cos)                          %x: f32[B,NH,T,HS], %cos and %sin: f32[1,1,T,HS]
//     %x1 = slice(%x) {0 … HS/2}
//     %x2 = slice(%x) {HS/2 … HS}
//     %r = concat(neg(%x2), %x1)
//     %b = mul(%r, %sin)
//     %y = add(%a, %b)                       ==>  %t = transpose(%x) {0, 2, 1, 3}
//                                                 %z = rotary(%t, %cos', %sin')         f32[B,T,NH,HS], tables
//                                                 f32[1,T,HS] %y = transpose(%z) {0, 2, 1, 3}
//
// So do complex numbers that are multiplied, as pairs of neighbours, the interleaved form: x: f32[B,T,NH,P,2], tables
// of P columns, as two parts
//
//     concat([re cos - im sin], [re sin + im cos]) of re, im = %x[..., 0], %x[..., 1]
//
// Heads that stand behind the positions already (B,T,NH,HS) need no transposes; the transposes here cancel against
// those of the projections and of the attention. A rotation of the first R dimensions alone, concatenated with the
// rest, is one rotary too.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_rotary(Module module, Report& report);

}  // namespace thunderc
