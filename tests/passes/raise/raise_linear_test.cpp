// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_linear.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_linear_test {

std::string raised(std::string_view ir) {
    return after_pass(raise_linear, ir);
}

std::string why_not(std::string_view ir) {
    Report report;
    EXPECT_EQ(after_pass(raise_linear, ir, report), text(ir));
    return notes(report);
}

// dynamo without optimisation, and what lift_parameters makes of the folded transposes of the others.
TEST(RaiseLinear, TransposedParameter) {
    Report report;
    EXPECT_EQ(after_pass(raise_linear, R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[5,4] parameter "q_proj.weight") -> (%y) {
  %t = transpose(%w) {permutation = [1, 0]} : f32[4,5] at "layers.0.q_proj" [Transpose "t"]
  %y = matmul(%x, %t) {transpose_a = false, transpose_b = false} : f32[2,3,5] at "layers.0.q_proj" [MatMul "m"]
}
)",
                         report),
              text(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[5,4] parameter "q_proj.weight") -> (%y) {
  %y = linear(%x, %w) : f32[2,3,5]
}
)"));
    EXPECT_EQ(notes(report), "done linear at layers.0.q_proj: from Transpose, MatMul\n");
}

TEST(RaiseLinear, BiasOnEitherSide) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[3,4] input "x", %w: f32[5,4] parameter "w", %b: f32[5] parameter "b") -> (%y, %z) {
  %m = matmul(%x, %w) {transpose_a = false, transpose_b = true} : f32[3,5]
  %y = add(%m, %b) : f32[3,5]
  %n = matmul(%x, %w) {transpose_a = false, transpose_b = true} : f32[3,5]
  %z = add(%b, %n) : f32[3,5]
}
)"),
              text(R"(
func @main(%x: f32[3,4] input "x", %w: f32[5,4] parameter "w", %b: f32[5] parameter "b") -> (%y, %z) {
  %y = linear(%x, %w, %b) : f32[3,5]
  %z = linear(%x, %w, %b) : f32[3,5]
}
)"));
}

// GPT-2's Conv1D: rows folded, the weight stored (in, out).
TEST(RaiseLinear, RowsFoldedAroundAGemm) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4,6] parameter "w", %b: f32[6] parameter "b") -> (%y) {
  %r = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %m = matmul(%r, %w) {transpose_a = false, transpose_b = false} : f32[6,6]
  %a = add(%m, %b) : f32[6,6]
  %y = reshape(%a) {dims = [2, 3, 6]} : f32[2,3,6]
}
)"),
              text(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4,6] parameter "w", %b: f32[6] parameter "b") -> (%y) {
  %t = transpose(%w) {permutation = [1, 0]} : f32[6,4]
  %a = linear(%x, %t, %b) : f32[2,3,6]
  %r = reshape(%a) {dims = [6, 6]} : f32[6,6]
  %y = reshape(%r) {dims = [2, 3, 6]} : f32[2,3,6]
}
)"));
}

TEST(RaiseLinear, MembersOfFamiliesAndArgumentsOfLayers) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[3,4] input "x", %f: 2 x f32[4,4] parameter "layers.{0..1}.w") -> (%z) {
  %w = member(%f) {index = 1} : f32[4,4]
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = true} : f32[3,4]
  %z = call(%y, %w) {callee = "layer"} : f32[3,4]
}

func @layer(%x: f32[3,4], %w: f32[4,4]) -> (%y) {
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = true} : f32[3,4]
}
)"),
              text(R"(
func @main(%x: f32[3,4] input "x", %f: 2 x f32[4,4] parameter "layers.{0..1}.w") -> (%z) {
  %w = member(%f) {index = 1} : f32[4,4]
  %y = linear(%x, %w) : f32[3,4]
  %z = call(%y, %w) {callee = "layer"} : f32[3,4]
}

func @layer(%x: f32[3,4], %w: f32[4,4]) -> (%y) {
  %y = linear(%x, %w) : f32[3,4]
}
)"));
}

// A sum that is read twice is no bias of the product alone.
TEST(RaiseLinear, ASharedProductKeepsItsBiasApart) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[3,4] input "x", %w: f32[5,4] parameter "w", %b: f32[5] parameter "b") -> (%m, %y) {
  %m = matmul(%x, %w) {transpose_a = false, transpose_b = true} : f32[3,5]
  %y = add(%m, %b) : f32[3,5]
}
)"),
              text(R"(
func @main(%x: f32[3,4] input "x", %w: f32[5,4] parameter "w", %b: f32[5] parameter "b") -> (%m, %y) {
  %m = linear(%x, %w) : f32[3,5]
  %y = add(%m, %b) : f32[3,5]
}
)"));
}

TEST(RaiseLinear, OtherProductsStay) {
    EXPECT_EQ(why_not(R"(
func @main(%x: f32[3,4] input "x", %c: f32[4,5] constant "table") -> (%y) {
  %y = matmul(%x, %c) {transpose_a = false, transpose_b = false} : f32[3,5] at "head" [MatMul "m"]
}
)"),
              "declined linear at head: the second factor is no parameter\n");
    EXPECT_EQ(why_not(R"(
func @main(%x: f32[4,3] input "x", %w: f32[4,5] parameter "w") -> (%y) {
  %y = matmul(%x, %w) {transpose_a = true, transpose_b = false} : f32[3,5] at "" [Gemm "g"]
}
)"),
              "declined linear at g: the input is transposed\n");
    EXPECT_EQ(why_not(R"(
func @main(%q: f32[2,3,4] input "q", %k: f32[2,4,3] input "k") -> (%y) {
  %y = matmul(%q, %k) {transpose_a = false, transpose_b = false} : f32[2,3,3]
}
)"),
              "");
}

}  // namespace raise_linear_test
}  // namespace thunderc
