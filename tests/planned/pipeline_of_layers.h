// SPDX-License-Identifier: Apache-2.0
// A planned loop with a stream beside compute, as text IR; its arenas and streams stand in the head of each test.
#pragma once

#include <string>

namespace thunderc {

// Weights are copied ahead of the layers that need them, into two slots by turns: that of layer i is free when layer
// i - 2 is computed.
inline const std::string pipeline_of_layers = R"(
func @f(
    %x: f32[4] @batch+0 input "x",
    %w: 4 x f32[4] @parameters+0 layer 64 parameter "w.{0..3}",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %a = add(%x, %x) : f32[4] @scratch+0
  %n = copy(%x) : f32[4] @scratch+128
  record() {event = "begin"}
  wait() {event = "begin"} on gather
  %y, %last = repeat(%a, %n, %w) {body = "layer", carried = 2, carry_arena = ["scratch", "scratch"], carry_base = [0, 128], carry_period = [2, 2], carry_stride = [64, 64], n = 4, per_layer = 1, reverse = false} : f32[4] @scratch+0, f32[4] @scratch+128
  %s = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[] @scratch+256
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}

func @layer(%x: f32[4] @caller+0, %before: f32[4] @caller+0, %w: f32[4] @caller+0) -> (%y, %g) {
  wait() {distance = 2, event = "released"} on gather
  %g = copy(%w) : f32[4] @caller+0 on gather
  record() {event = "gathered"} on gather
  wait() {event = "gathered"}
  %y = mul(%x, %g) : f32[4] @caller+0
  record() {event = "released"}
}
)";

}  // namespace thunderc
