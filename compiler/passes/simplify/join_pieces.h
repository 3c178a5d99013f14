// SPDX-License-Identifier: Apache-2.0
// join_pieces: what is computed alike of equal pieces of a tensor, and put side by side, is computed once of all.
//
//     %s0 = slice(%x) {axis = 0, begin = 0, end = 3}    %p = reshape(%x) {dims = [4, 3, 6]}
//     %b0 = reduce_sum(%s0) {axes = [0], …}             %b = reduce_sum(%p) {axes = [1], …}
//     %s1 = slice(%x) {axis = 0, begin = 3, end = 6} =>
//     …
//     %all = concat(%b0, %b1, %b2, %b3) {axis = 0}      %all = reshape(%b) …
//
// That is what a loop over the rows of a batch leaves, an EmbeddingBag's and those written by hand: without this a
// graph grows with the batch, and its rows seem to see one another. What is computed may be elementwise, a reduction, a
// view with other dimensions, and rows of a table by index, of pieces and of values that are the same for all. Takes
// all operands, or all but the first or the last: four and more. Guarantees the same values. Tests:
// tests/passes/simplify/join_pieces_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module join_pieces(Module module, Report& report);

}  // namespace thunderc
