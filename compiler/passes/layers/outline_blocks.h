// SPDX-License-Identifier: Apache-2.0
// Repeated layers become calls of one function.
//
//     %a = linear(%x, %w0)                      %y = call(%x, %w0) {callee = @layer}
//     %y = tanh(%a)                             %z = call(%y, %w1) {callee = @layer}
//     %b = linear(%y, %w1)          becomes
//     %z = tanh(%b)                             func @layer(%x, %w) -> (%y) { linear, tanh }
//
// The function's arguments are what is carried from layer to layer, what each layer has for itself, what layers share;
// its results what is carried, then what is read besides. Requires main as raising leaves it, not differentiated. How
// layers are found, and what makes them equal: find_blocks.h; scopes only name what was found. A constant that is equal
// in all layers moves into the function, one that differs is an argument. What repeats in pairs becomes a function of
// two layers. What does not repeat stays where it is.
#pragma once

#include <cstddef>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

// Whether a naive program has so many layers one after the other, and no function of them: a loop's backward pass is
// checked against that of calls in a row, as long as somebody could read these.
constexpr bool naive_in_a_row(std::size_t layers) {
    return layers <= 8;
}

Module outline_blocks(Module module, Report& report);

}  // namespace thunderc
