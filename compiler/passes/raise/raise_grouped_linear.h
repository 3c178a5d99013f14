// SPDX-License-Identifier: Apache-2.0
// raise_grouped_linear: rows that are each multiplied with a matrix of their own, taken from several by ids, become
// `grouped_linear`, which has no matrix for each row in memory: the experts of a mixture, as batched products of
// gathered weights have them.
//
//     %m = gather(%w, %ids) {axis = 0}      : f32[T,out,in]
//     %y = matmul(%m, %x)                   : f32[T,out,1]        x is f32[T,in,1]
//         ==>
//     %y = grouped_linear(%x, %w, %ids)     : f32[T,out]
//
// The matrices may stand on either side, turned round or not, be taken by gather_nd, and their ids have several
// dimensions, of which the last ones may lie side by side with the results, as einsum has them; x may have several rows
// for each id.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_grouped_linear(Module module, Report& report);

}  // namespace thunderc
