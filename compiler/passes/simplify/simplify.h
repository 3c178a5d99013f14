// SPDX-License-Identifier: Apache-2.0
// simplify: what can be said shorter is, without looking at more than a few ops at a time.
//
//     %a = transpose(%x) {permutation = [0, 2, 1, 3]}
//     %b = transpose(%a) {permutation = [0, 2, 1, 3]}     ==>  (nothing: %x)
//     %c = mul(%b, 1)
//
// - neutral elements: x + 0, x - 0, x * 1, x / 1, x and true, x or false; casts to the same type; - - x, not not x
// - views: views that change nothing; reshape of reshape, transpose of transpose, broadcast of broadcast, slice of
// slice;
//   a transpose that moves only dimensions of one element is a reshape; elementwise ops broadcast by themselves
// - slices of a concatenation; the concatenation of all slices; a gather of consecutive rows is a slice,
//   one of the same row that row, broadcast
// - a member of a family of values; the family of all members of one
// - the same op on the same operands is computed once; what nothing reads is not computed; functions that nothing calls
// go
//
// Linear in the number of ops, but for chains of views. Runs after each group of passes that leaves such things behind.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module simplify(Module module, Report& report);

// Before it is known what the loss is: where a batch has one row, the dimension of the rows looks like any other of one
// element, and what moves, cuts or folds it stays as it is, so that batch_shares sees the same as of a larger batch.
Module simplify_model(Module module, Report& report);

}  // namespace thunderc
