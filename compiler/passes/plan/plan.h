// SPDX-License-Identifier: Apache-2.0
// plan: from values to buffers.
//
// Gives every value a Placement and every function its scratch size, so that the program needs no memory after its
// start.
//
// Requires: compose_step or compose_function, claim and fuse have run; what is left are calls of the runtime API,
// kernels, views, constants and loops. Guarantees: phase `planned`; every value lies in an arena or at its caller's
// place; the lists of ops are in the order of execution; a copy stands wherever a value has to be in a place that its
// op cannot write.
//
// - forward_backward's parameters: arena parameters, framework tensors in the order of arguments; the tensors of one
//   layer lie together, layer after layer
// - their gradients: the same offsets in arena gradients; optimizer state and narrow copies likewise. Where these are
// of
//   different types, the same offsets in elements
// - what a loop collects: arena saved, one stride a layer
// - arguments of kind output: arena results
// - everything else: arena scratch, by lifetime; a loop's body has its own piece, reused by every layer
//
// Carried values of a loop live in slots: value i of the chain in slot i where the loop also collects it (then nothing
// is copied), else in two slots by turns.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module plan(Module module, Report& report);

}  // namespace thunderc
