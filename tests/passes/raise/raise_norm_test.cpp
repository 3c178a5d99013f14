// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_norm.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_norm_test {

std::string raised(std::string_view ir) {
    return after_pass(raise_norm, ir);
}

constexpr const char* rms_norm = R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "norm.weight") -> (%y) {
  %y, %rstd = rms_norm(%x, %w) {eps = 1e-05} : f32[2,3,4], f32[2,3]
}
)";

// dynamo, opset 18 and 20.
TEST(RaiseNorm, PowMeanSqrtReciprocal) {
    Report report;
    EXPECT_EQ(after_pass(raise_norm, R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "norm.weight") -> (%y) {
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = pow(%x, %two) : f32[2,3,4] at "norm" "LlamaRMSNorm" [Pow "p"]
  %m = reduce_mean(%s) {axes = [2], keep_dims = true} : f32[2,3,1] at "norm" "LlamaRMSNorm" [ReduceMean "m"]
  %v = add(%m, %eps) : f32[2,3,1] at "norm" "LlamaRMSNorm" [Add "a"]
  %q = sqrt(%v) : f32[2,3,1] at "norm" "LlamaRMSNorm" [Sqrt "s"]
  %r = reciprocal(%q) : f32[2,3,1] at "norm" "LlamaRMSNorm" [Reciprocal "r"]
  %n = mul(%x, %r) : f32[2,3,4] at "norm" "LlamaRMSNorm" [Mul "n"]
  %y = mul(%w, %n) : f32[2,3,4] at "norm" "LlamaRMSNorm" [Mul "y"]
}
)",
                         report),
              text(rms_norm));
    EXPECT_EQ(notes(report), "done rms_norm at norm: from Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul, Mul\n");
}

// The exporter based on TorchScript: 1 / sqrt.
TEST(RaiseNorm, OneOverSqrt) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "norm.weight") -> (%y) {
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = mul(%x, %x) : f32[2,3,4]
  %m = reduce_mean(%s) {axes = [-1], keep_dims = true} : f32[2,3,1]
  %v = add(%eps, %m) : f32[2,3,1]
  %q = sqrt(%v) : f32[2,3,1]
  %r = div(%one, %q) : f32[2,3,1]
  %n = mul(%r, %x) : f32[2,3,4]
  %y = mul(%n, %w) : f32[2,3,4]
}
)"),
              text(rms_norm));
}

TEST(RaiseNorm, DividedByTheRootOfASum) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "norm.weight") -> (%y) {
  %n4 = constant() {value = <f32[] splat 4.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = mul(%x, %x) : f32[2,3,4]
  %t = reduce_sum(%s) {axes = [-1], keep_dims = true} : f32[2,3,1]
  %m = div(%t, %n4) : f32[2,3,1]
  %v = add(%m, %eps) : f32[2,3,1]
  %q = sqrt(%v) : f32[2,3,1]
  %n = div(%x, %q) : f32[2,3,4]
  %y = mul(%n, %w) : f32[2,3,4]
}
)"),
              text(rms_norm));
}

// Gemma: (1 + weight), unfolded.
TEST(RaiseNorm, WeightPlusOneIsAnOffset) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "norm.weight") -> (%y) {
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = mul(%x, %x) : f32[2,3,4]
  %m = reduce_mean(%s) {axes = [2], keep_dims = true} : f32[2,3,1]
  %v = add(%m, %eps) : f32[2,3,1]
  %r = rsqrt(%v) : f32[2,3,1]
  %n = mul(%x, %r) : f32[2,3,4]
  %o = add(%w, %one) : f32[4]
  %y = mul(%n, %o) : f32[2,3,4]
}
)"),
              text(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "norm.weight") -> (%y) {
  %y, %rstd = rms_norm(%x, %w) {eps = 1e-05, offset = 1.0} : f32[2,3,4], f32[2,3]
}
)"));
}

// bfloat16: statistics in f32, the weight applied after the cast back.
TEST(RaiseNorm, CastsBelongToIt) {
    Module m = parse_module(R"(module "m" values
func @main(%x: bf16[2,3,4] input "x", %w: bf16[4] parameter "norm.weight") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %c = cast(%x) {dtype = f32} : f32[2,3,4]
  %s = pow(%c, %two) : f32[2,3,4]
  %m = reduce_mean(%s) {axes = [2], keep_dims = true} : f32[2,3,1]
  %v = add(%m, %eps) : f32[2,3,1]
  %r = rsqrt(%v) : f32[2,3,1]
  %n = mul(%c, %r) : f32[2,3,4]
  %b = cast(%n) {dtype = bf16} : bf16[2,3,4]
  %y = mul(%w, %b) : bf16[2,3,4]
}
)");
    Report report;
    m = raise_norm(std::move(m), report);
    verify(m);
    EXPECT_EQ(text_of(m), text(R"(
func @main(%x: bf16[2,3,4] input "x", %w: bf16[4] parameter "norm.weight") -> (%y) {
  %y, %rstd = rms_norm(%x, %w) {eps = 1e-05} : bf16[2,3,4], f32[2,3]
}
)"));
}

TEST(RaiseNorm, LayerNorm) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "w", %b: f32[4] parameter "b") -> (%y) {
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %mean = reduce_mean(%x) {axes = [2], keep_dims = true} : f32[2,3,1]
  %c = sub(%x, %mean) : f32[2,3,4]
  %s = pow(%c, %two) : f32[2,3,4]
  %m = reduce_mean(%s) {axes = [2], keep_dims = true} : f32[2,3,1]
  %v = add(%m, %eps) : f32[2,3,1]
  %q = sqrt(%v) : f32[2,3,1]
  %n = div(%c, %q) : f32[2,3,4]
  %z = mul(%n, %w) : f32[2,3,4]
  %y = add(%z, %b) : f32[2,3,4]
}
)"),
              text(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[4] parameter "w", %b: f32[4] parameter "b") -> (%y) {
  %y, %mean, %rstd = layer_norm(%x, %w, %b) {eps = 1e-05} : f32[2,3,4], f32[2,3], f32[2,3]
}
)"));
}

// The product with a weight of more dimensions has these as well.
TEST(RaiseNorm, AWeightMayHaveMoreDimensions) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[3,4] input "x", %w: f32[1,1,4] parameter "norm.weight") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = mul(%x, %x) : f32[3,4]
  %m = reduce_mean(%s) {axes = [-1], keep_dims = true} : f32[3,1]
  %v = add(%m, %eps) : f32[3,1]
  %q = sqrt(%v) : f32[3,1]
  %n = div(%x, %q) : f32[3,4]
  %y = mul(%n, %w) : f32[1,3,4]
}
)"),
              text(R"(
func @main(%x: f32[3,4] input "x", %w: f32[1,1,4] parameter "norm.weight") -> (%y) {
  %row = reshape(%w) {dims = [4]} : f32[4]
  %n, %rstd = rms_norm(%x, %row) {eps = 1e-05} : f32[3,4], f32[3]
  %y = reshape(%n) {dims = [1, 3, 4]} : f32[1,3,4]
}
)"));
    EXPECT_EQ(raised(R"(
func @main(%x: f32[3,4] input "x", %w: f32[4] parameter "norm.weight", %b: f32[1,1,4] parameter "norm.bias") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %mean = reduce_mean(%x) {axes = [-1], keep_dims = true} : f32[3,1]
  %c = sub(%x, %mean) : f32[3,4]
  %s = mul(%c, %c) : f32[3,4]
  %m = reduce_mean(%s) {axes = [-1], keep_dims = true} : f32[3,1]
  %v = add(%m, %eps) : f32[3,1]
  %q = sqrt(%v) : f32[3,1]
  %n = div(%c, %q) : f32[3,4]
  %z = mul(%n, %w) : f32[3,4]
  %y = add(%z, %b) : f32[1,3,4]
}
)"),
              text(R"(
func @main(%x: f32[3,4] input "x", %w: f32[4] parameter "norm.weight", %b: f32[1,1,4] parameter "norm.bias") -> (%y) {
  %row = reshape(%b) {dims = [4]} : f32[4]
  %n, %mean, %rstd = layer_norm(%x, %w, %row) {eps = 1e-05} : f32[3,4], f32[3], f32[3]
  %y = reshape(%n) {dims = [1, 3, 4]} : f32[1,3,4]
}
)"));
}

TEST(RaiseNorm, WithoutAWeight) {
    EXPECT_EQ(raised(R"(
func @main(%x: f32[2,3,4] input "x") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = mul(%x, %x) : f32[2,3,4]
  %m = reduce_mean(%s) {axes = [2], keep_dims = true} : f32[2,3,1]
  %v = add(%m, %eps) : f32[2,3,1]
  %r = rsqrt(%v) : f32[2,3,1]
  %y = mul(%x, %r) : f32[2,3,4]
}
)"),
              text(R"(
func @main(%x: f32[2,3,4] input "x") -> (%y) {
  %y, %rstd = rms_norm(%x) {eps = 1e-05} : f32[2,3,4], f32[2,3]
}
)"));
}

TEST(RaiseNorm, MeansOverOtherDimensionsAndOfOtherRowsStay) {
    for (auto [axes, mean, other, why] :
         {std::tuple{"[1]", "f32[2,1,4]", "%x", "the mean of squares is not taken over the last dimension alone"},
          std::tuple{"[2]", "f32[2,3,1]", "%z", "the mean of squares does not scale the rows it was taken from"}}) {
        const std::string ir = std::string(R"(
func @main(%x: f32[2,3,4] input "x", %z: f32[2,3,4] input "z") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %s = mul(%x, %x) : f32[2,3,4]
  %m = reduce_mean(%s) {axes = )") +
                               axes + ", keep_dims = true} : " + mean + R"( at "norm" [ReduceMean "m"]
  %v = add(%m, %eps) : )" + mean +
                               R"(
  %r = rsqrt(%v) : )" + mean + R"(
  %y = mul()" + other + R"(, %r) : f32[2,3,4]
}
)";
        Report report;
        EXPECT_EQ(after_pass(raise_norm, ir, report), text(ir));
        EXPECT_EQ(notes(report), std::string("declined rms_norm at norm: ") + why + "\n");
    }
}

// An exponent of more dimensions than what it is taken of: no rows are normalised there.
TEST(RaiseNorm, ANumberThatIsRepeatedIsNoRow) {
    constexpr const char* ir = R"(
func @main(%x: f32[] input "x", %w: f32[4] parameter "w") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %two = constant() {value = <f32[4] splat 2.0>} : f32[4]
  %s = pow(%x, %two) : f32[4]
  %m = reduce_mean(%s) {axes = [0], keep_dims = true} : f32[1]
  %v = add(%m, %eps) : f32[1]
  %r = rsqrt(%v) : f32[1]
  %n = mul(%x, %r) : f32[1]
  %y = mul(%n, %w) : f32[4]
}
)";
    EXPECT_EQ(after_pass(raise_norm, ir), text(ir));
}

}  // namespace raise_norm_test
}  // namespace thunderc
