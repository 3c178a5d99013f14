// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/hoist_products.h"

#include <fmt/format.h>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace hoist_products_test {

using testing::after_pass;
using testing::functions_of;
using testing::module_of;

Module hoisted(const std::string& text) {
    return after_pass(text, hoist_products);
}
void expect_unchanged(const std::string& text) {
    EXPECT_EQ(functions_of(hoisted(text)), functions_of(module_of(text)));
}

std::string loop(const std::string& step) {
    return R"(
func @main(%start: f32[2,8], %steps: f32[5,2,3], %w: f32[8,3], %u: f32[8,8], %b: f32[8]) -> (%h) {
  %x = unstack(%steps) : 5 x f32[2,3]
  %h = repeat(%start, %x, %w, %u, %b) {body = "step", carried = 1, n = 5, per_layer = 1, reverse = false} : f32[2,8]
}
func @step(%before: f32[2,8], %x: f32[2,3], %w: f32[8,3], %u: f32[8,8], %b: f32[8]) -> (%h) {
)" + step + "}\n";
}

TEST(HoistProducts, WithTheInputIsOneForAllSteps) {
    EXPECT_EQ(functions_of(hoisted(loop(R"(  %p = linear(%x, %w, %b) : f32[2,8]
  %q = linear(%before, %u) : f32[2,8]
  %s = add(%p, %q) : f32[2,8]
  %h = tanh(%s) : f32[2,8]
)"))),
              R"(
func @main(%start: f32[2,8], %steps: f32[5,2,3], %w: f32[8,3], %u: f32[8,8], %b: f32[8]) -> (%h) {
  %x = unstack(%steps) : 5 x f32[2,3]
  %reshape = reshape(%steps) {dims = [10, 3]} : f32[10,3]
  %p = linear(%reshape, %w, %b) : f32[10,8]
  %reshape_1 = reshape(%p) {dims = [5, 2, 8]} : f32[5,2,8]
  %p_1 = unstack(%reshape_1) : 5 x f32[2,8]
  %h = repeat(%start, %p_1, %u) {body = "step", carried = 1, n = 5, per_layer = 1, reverse = false} : f32[2,8]
}

func @step(%before: f32[2,8], %p: f32[2,8], %u: f32[8,8]) -> (%h) {
  %q = linear(%before, %u) : f32[2,8]
  %s = add(%p, %q) : f32[2,8]
  %h = tanh(%s) : f32[2,8]
}
)");
}

// One behind the other: what the first gives is a piece for each step, too.
TEST(HoistProducts, ThoseThatFollowGoWithThem) {
    const std::string text = functions_of(hoisted(loop(R"(  %p = linear(%x, %w) : f32[2,8]
  %q = linear(%p, %u, %b) : f32[2,8]
  %s = add(%before, %q) : f32[2,8]
  %h = tanh(%s) : f32[2,8]
)")));
    const std::string step = text.substr(text.find("func @step"));
    EXPECT_EQ(step.find("linear"), std::string::npos) << text;
    EXPECT_NE(step.find("(%before: f32[2,8], %q: f32[2,8])"), std::string::npos) << text;
}

// ---- what must stay -------------------------------------------------------------------------------------------------

TEST(HoistProducts, OfWhatAStepHandsOnStay) {
    expect_unchanged(loop(R"(  %c = concat(%before, %x) {axis = 1} : f32[2,11]
  %v = concat(%u, %w) {axis = 1} : f32[8,11]
  %p = linear(%c, %v, %b) : f32[2,8]
  %h = tanh(%p) : f32[2,8]
)"));
    expect_unchanged(loop(R"(  %t = tanh(%x) : f32[2,3]
  %p = linear(%t, %w, %b) : f32[2,8]
  %q = linear(%before, %u) : f32[2,8]
  %h = add(%p, %q) : f32[2,8]
)"));
}

// Layers have weights of their own, and rows that are tensors of their own.
TEST(HoistProducts, OfOtherFamiliesStay) {
    expect_unchanged(R"(
func @main(%start: f32[2,8], %x: 5 x f32[2,3], %w: f32[8,3]) -> (%h) {
  %h = repeat(%start, %x, %w) {body = "step", carried = 1, n = 5, per_layer = 1, reverse = false} : f32[2,8]
}
func @step(%before: f32[2,8], %x: f32[2,3], %w: f32[8,3]) -> (%h) {
  %p = linear(%x, %w) : f32[2,8]
  %h = add(%before, %p) : f32[2,8]
}
)");
    expect_unchanged(R"(
func @main(%start: f32[2,8], %steps: f32[5,2,3], %w: 5 x f32[8,3]) -> (%h) {
  %x = unstack(%steps) : 5 x f32[2,3]
  %h = repeat(%start, %x, %w) {body = "step", carried = 1, n = 5, per_layer = 2, reverse = false} : f32[2,8]
}
func @step(%before: f32[2,8], %x: f32[2,3], %w: f32[8,3]) -> (%h) {
  %p = linear(%x, %w) : f32[2,8]
  %h = add(%before, %p) : f32[2,8]
}
)");
}

// Another loop runs the same body, with other rows.
TEST(HoistProducts, OfABodyOfTwoLoopsStay) {
    expect_unchanged(R"(
func @main(%start: f32[2,8], %steps: f32[5,2,3], %w: f32[8,3]) -> (%h) {
  %x = unstack(%steps) : 5 x f32[2,3]
  %g = repeat(%start, %x, %w) {body = "step", carried = 1, n = 5, per_layer = 1, reverse = false} : f32[2,8]
  %h = repeat(%g, %x, %w) {body = "step", carried = 1, n = 5, per_layer = 1, reverse = true} : f32[2,8]
}
func @step(%before: f32[2,8], %x: f32[2,3], %w: f32[8,3]) -> (%h) {
  %p = linear(%x, %w) : f32[2,8]
  %h = add(%before, %p) : f32[2,8]
}
)");
}

}  // namespace hoist_products_test
}  // namespace thunderc
