// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/sink_accumulation.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace sink_accumulation_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

Module sunk(const std::string& text) {
    const Module m = module_of(text);
    Report report;
    Module out = sink_accumulation(m, report);
    verify(out);
    expect_equal_programs(m, out);
    return out;
}

TEST(SinkAccumulation, TheLoopAddsWhereItCollects) {
    EXPECT_EQ(functions_of(sunk(R"(
func @main(%x: f32[4], %w: 3 x f32[4], %before: 3 x f32[4], %first: bool[]) -> (%y, %after) {
  %y, %dw = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = true} : f32[4], 3 x f32[4]
  %after = accumulate_gradient(%before, %dw, %first) : 3 x f32[4]
}

func @layer(%x: f32[4], %w: f32[4]) -> (%y, %dw) {
  %y = mul(%x, %w) : f32[4]
  %dw = mul(%y, %x) : f32[4] at "model.layers.0.norm"
})")),
              functions_of(module_of(R"(
func @main(%x: f32[4], %w: 3 x f32[4], %before: 3 x f32[4], %first: bool[]) -> (%y, %after) {
  %y, %after = repeat(%x, %w, %before, %first) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = true} : f32[4], 3 x f32[4]
}

func @layer(%x: f32[4], %w: f32[4], %before: f32[4], %first: bool[]) -> (%y, %before_1) {
  %y = mul(%x, %w) : f32[4]
  %dw = mul(%y, %x) : f32[4] at "model.layers.0.norm"
  %before_1 = accumulate_gradient(%before, %dw, %first) : f32[4] at "model.layers.0.norm"
})")));
}

TEST(SinkAccumulation, LeavesAGradientThatIsReadElsewhere) {
    const std::string text = R"(
func @main(%x: f32[4], %w: 3 x f32[4], %before: 3 x f32[4], %first: bool[]) -> (%y, %after, %dw) {
  %y, %dw = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1} : f32[4], 3 x f32[4]
  %after = accumulate_gradient(%before, %dw, %first) : 3 x f32[4]
}

func @layer(%x: f32[4], %w: f32[4]) -> (%y, %dw) {
  %y = mul(%x, %w) : f32[4]
  %dw = mul(%y, %x) : f32[4]
})";
    EXPECT_EQ(functions_of(sunk(text)), functions_of(module_of(text)));
}

TEST(SinkAccumulation, LeavesASumOverLayers) {
    const std::string text = R"(
func @main(%x: f32[4], %w: 3 x f32[4], %before: f32[4], %first: bool[]) -> (%after) {
  %y = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1} : f32[4]
  %after = accumulate_gradient(%before, %y, %first) : f32[4]
}

func @layer(%x: f32[4], %w: f32[4]) -> (%y) {
  %y = mul(%x, %w) : f32[4]
})";
    EXPECT_EQ(functions_of(sunk(text)), functions_of(module_of(text)));
}

}  // namespace sink_accumulation_test
}  // namespace thunderc
