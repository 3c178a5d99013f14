// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/join_pads.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace join_pads_test {

using testing::after_pass;
using testing::functions_of;
using testing::module_of;

Module joined(const std::string& text) {
    return after_pass(text, join_pads);
}

TEST(JoinPads, PiecesThatFillAnAxisAreConcatenated) {
    const std::string text = functions_of(joined(R"(
func @main(%a: f32[2,3], %b: f32[2,1], %c: f32[2,2]) -> (%sum) {
  %pa = pad(%a) {high = [0, 3], low = [0, 0], value = 0.0} : f32[2,6]
  %pc = pad(%c) {high = [0, 0], low = [0, 4], value = 0.0} : f32[2,6]
  %pb = pad(%b) {high = [0, 2], low = [0, 3], value = 0.0} : f32[2,6]
  %s = add(%pa, %pc) : f32[2,6]
  %sum = add(%s, %pb) : f32[2,6]
})"));
    EXPECT_NE(text.find("%sum = concat(%a, %b, %c) {axis = 1} : f32[2,6]"), std::string::npos) << text;
}

void expect_unchanged(const std::string& text) {
    EXPECT_EQ(functions_of(joined(text)), functions_of(module_of(text)));
}

TEST(JoinPads, LeavesPiecesThatOverlap) {
    expect_unchanged(R"(
func @main(%a: f32[3], %b: f32[2]) -> (%sum) {
  %pa = pad(%a) {high = [1], low = [0], value = 0.0} : f32[4]
  %pb = pad(%b) {high = [0], low = [2], value = 0.0} : f32[4]
  %sum = add(%pa, %pb) : f32[4]
})");
}

TEST(JoinPads, LeavesGaps) {
    expect_unchanged(R"(
func @main(%a: f32[1], %b: f32[2]) -> (%sum) {
  %pa = pad(%a) {high = [3], low = [0], value = 0.0} : f32[4]
  %pb = pad(%b) {high = [0], low = [2], value = 0.0} : f32[4]
  %sum = add(%pa, %pb) : f32[4]
})");
}

TEST(JoinPads, LeavesPadsWithSomethingElse) {
    expect_unchanged(R"(
func @main(%a: f32[2], %b: f32[2]) -> (%sum) {
  %pa = pad(%a) {high = [2], low = [0], value = 1.0} : f32[4]
  %pb = pad(%b) {high = [0], low = [2], value = 0.0} : f32[4]
  %sum = add(%pa, %pb) : f32[4]
})");
}

TEST(JoinPads, LeavesAPadThatIsReadElsewhere) {
    expect_unchanged(R"(
func @main(%a: f32[2], %b: f32[2]) -> (%sum, %pa) {
  %pa = pad(%a) {high = [2], low = [0], value = 0.0} : f32[4]
  %pb = pad(%b) {high = [0], low = [2], value = 0.0} : f32[4]
  %sum = add(%pa, %pb) : f32[4]
})");
}

}  // namespace join_pads_test
}  // namespace thunderc
