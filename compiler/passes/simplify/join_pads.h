// SPDX-License-Identifier: Apache-2.0
// join_pads: a sum of padded pieces that lie side by side is their concatenation.
//
//     %a = pad(%dq) {high = [0, 8], low = [0, 0]}
//     %b = pad(%dk) {high = [0, 0], low = [0, 4]}     =>     %sum = concat(%dq, %dk) {axis = 1}
//     %sum = add(%a, %b)
//
// That is what the cotangents of slices of one value add up to. Requires pads with zeros, read by the sum alone, which
// together fill one axis without overlap. Tests: tests/passes/simplify/join_pads_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module join_pads(Module module, Report& report);

}  // namespace thunderc
