// SPDX-License-Identifier: Apache-2.0
// fold_constants: everything computed from constants alone becomes one constant, lazily where it can be.
//
//     %t = constant() {value = <affine...>} : i64[1,1,4096,1]
//     %s = constant() {value = <affine...>} : i64[1,1,1,4096]
//     %m = le(%s, %t) : bool[1,1,4096,4096]                        ==>   %m = constant() {value = <le(...)>}
//
// What has no elements is a constant, whatever it was computed from.
//
// Arguments are never folded, so what a framework stores as a parameter stays one. What would need more than
// largest_dense_constant elements written out stays as it is. No op is moved.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module fold_constants(Module module, Report& report);

}  // namespace thunderc
