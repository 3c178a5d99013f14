// SPDX-License-Identifier: Apache-2.0
// join_products: a sum of products is one product of what they are made of, side by side.
//
//     %a = matmul(%da, %x) {transpose_a = true, …}        %d = concat(%da, %db) {axis = 0}
//     %b = matmul(%db, %y) {transpose_a = true, …}   =>   %z = concat(%x, %y) {axis = 0}
//     %sum = add(%a, %b)                                  %sum = matmul(%d, %z) {transpose_a = true, …}
//
// That is what the gradient of a weight adds up to that is read again and again: by the time steps of a recurrent
// layer, or by calls of one layer. Which ops are such sums, and along which axes of their operands, their definitions
// say (OpDef::sums). Requires that the sum alone reads the products, all results of them in sums of the same ones, and
// that what is put side by side is smaller than what is no longer added. Other terms of the sum stay. Differences,
// terms that are repeated (broadcast) and batched products are left alone. Guarantees the same values, summed in
// another order. Tests: tests/passes/simplify/join_products_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module join_products(Module module, Report& report);

}  // namespace thunderc
