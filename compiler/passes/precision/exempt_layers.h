// SPDX-License-Identifier: Apache-2.0
// exempt_layers: the linear layers that --fp8-skip names are marked, so that quantise_products leaves them in bf16.
//
//     %y = linear(%x, %w) : bf16[2,8,32]        // %w: parameter "layers.0.mlp.up_proj.weight"
//
// becomes, where the module "layers.0.mlp.up_proj" is named,
//
//     %y = linear(%x, %w) {exempt = true} : bf16[2,8,32]
//
// Before layers are rolled and siblings merged: what is marked is another product and another layer than what is not,
// so the first layers of a stack may be left out, or one of q, k and v.
//
// A layer that is left alone between others stands in no loop then: quantise_products warns of it. Refuses a text of
// which a part names no linear layer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

// "first=2,last=1,mlp\.down_proj$": layers at either end of each stack, whose modules differ by a number, in the order
// of these numbers, and those that the expression is found in. An adapter goes with its layer.
struct Fp8Skip {
    std::int64_t first = 0, last = 0;
    std::string modules{};  // a regular expression; empty: none
};
// Throws UsageError where it is none.
Fp8Skip parse_fp8_skip(const std::string& text);

// The numbers in the name of a module and what stands before each: "model.layers." and 3 of "model.layers.3.mlp", and
// "encoder_layer_" and 3 of "encoder_layer_3.mlp".
std::vector<std::pair<std::string, std::int64_t>> numbers_of(const std::string& module);

Module exempt_layers(Module module, const std::string& skip, Report& report);

// The mark, which the ops are rid of again.
bool is_exempt(const Op& linear);
void forget_exempt(Module& module);

}  // namespace thunderc
