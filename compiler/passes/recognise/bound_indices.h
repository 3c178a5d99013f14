// SPDX-License-Identifier: Apache-2.0
// Makes sure that no index leaves its table, whatever a program is fed: inputs get the range that loading checks.
//
//   in:   %ids: i64[2,5] input "ids";  %cut = slice(%ids) …;  %y = embedding(%w, %cut)        // %w: f32[11,4]
//   out:  %ids: i64[2,5] input "ids" {entries = 11}
//
// The numbers that indices and labels can be are followed from the inputs, through arithmetic and selection, to where
// they are used. An input on which an index depends gets the largest range [0, entries) that keeps it inside, and
// beside it the one number that a loss ignores or that the model itself replaces. Columns of an input that are looked
// up in tables of different sizes, or in one table at offsets of their own, have a range each:
//
//   out:  %s: i64[6,3] input "s" {columns 1 = [0 to 2 entries = 7 of "a.weight", 2 to 3 entries = 4 of "b.weight"]}
//
// Indices that may be negative count from the end, which becomes a select. An index that cannot be shown to stay inside
// is refused with what to do about it: nothing in a step checks it. Where floats become indices, between clamps, the
// integers are held to the range that was found, since types of floats are decided later; what is no number is 0.
//
// Requires: phase values, main alone. Afterwards every index of `main` is in [0, entries) of its table for inputs of
// their ranges. Throws UserError.
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module bound_indices(Module module, Report& report);

}  // namespace thunderc
