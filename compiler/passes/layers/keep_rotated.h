// SPDX-License-Identifier: Apache-2.0
// keep_rotated: of a product whose pieces are rotated (queries and keys of queries, keys and values), the whole is made
// of what is read of it, so that the rotation can be in place and is what is kept for the backward pass.
//
//     %q = slice(%qkv) {0 … 16}                        %q = slice(%qkv) {0 … 16}
//     %k = slice(%qkv) {16 … 24}                       %k = slice(%qkv) {16 … 24}
//     %v = slice(%qkv) {24 … 32}                       %v = slice(%qkv) {24 … 32}
//     %q' = rotary(%q, %cos, %sin)                     %q' = rotary(%q, %cos, %sin)
//     %k' = rotary(%k, %cos, %sin)              ==>    %k' = rotary(%k, %cos, %sin)
//     … = sdpa(%q', %k', %v)                           %all = concat(%q', %k', %v)
//                                                      … = sdpa(slice(%all), slice(%all), slice(%all))
//
// The numbers are the same. The backward pass would else be given %qkv, since it needs %v, and rotate again. Of
// products that are read otherwise, of pieces that are not all of it, and where nothing is rotated, nothing changes.
// Tests: tests/passes/layers/keep_rotated_test.cpp
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module keep_rotated(Module module, Report& report);

}  // namespace thunderc
