// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_gelu.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_gelu_test {

constexpr const char* exact = R"(
func @main(%x: f32[3,4] input "x") -> (%gelu) {
  %gelu = gelu(%x) {approximate = "none"} : f32[3,4]
}
)";
constexpr const char* approximate = R"(
func @main(%x: f32[3,4] input "x") -> (%gelu) {
  %gelu = gelu(%x) {approximate = "tanh"} : f32[3,4]
}
)";

// dynamo, opset 18: Div by sqrt 2, Erf, Add, Mul, Mul.
TEST(RaiseGelu, Erf) {
    Report report;
    EXPECT_EQ(after_pass(raise_gelu, R"(
func @main(%x: f32[3,4] input "x") -> (%y) {
  %r = constant() {value = <f32[] splat 1.4142135381698608>} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %d = div(%x, %r) : f32[3,4] at "mlp.act" [Div "d"]
  %e = erf(%d) : f32[3,4] at "mlp.act" [Erf "e"]
  %a = add(%e, %one) : f32[3,4] at "mlp.act" [Add "a"]
  %h = mul(%half, %a) : f32[3,4] at "mlp.act" [Mul "h"]
  %y = mul(%x, %h) : f32[3,4] at "mlp.act" [Mul "y"]
}
)",
                         report),
              text(exact));
    EXPECT_EQ(notes(report), "done gelu at mlp.act: from Div, Erf, Add, Mul, Mul\n");
}

TEST(RaiseGelu, ErfWithTheHalfInFrontOrBehind) {
    for (const char* tail : {"%p = mul(%half, %x) : f32[3,4]\n  %y = mul(%p, %a) : f32[3,4]",
                             "%p = mul(%x, %a) : f32[3,4]\n  %y = mul(%p, %half) : f32[3,4]"})
        EXPECT_EQ(after_pass(raise_gelu, std::string(R"(
func @main(%x: f32[3,4] input "x") -> (%y) {
  %r = constant() {value = <f32[] splat 0.7071067690849304>} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %d = mul(%x, %r) : f32[3,4]
  %e = erf(%d) : f32[3,4]
  %a = add(%one, %e) : f32[3,4]
  )") + tail + "\n}\n"),
                  text(exact));
}

// GPT-2's nine nodes, with pow and with products.
TEST(RaiseGelu, Tanh) {
    for (const char* cube :
         {"%p = pow(%x, %three) : f32[3,4]", "%sq = mul(%x, %x) : f32[3,4]\n  %p = mul(%x, %sq) : f32[3,4]"})
        EXPECT_EQ(after_pass(raise_gelu, std::string(R"(
func @main(%x: f32[3,4] input "x") -> (%y) {
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %three = constant() {value = <f32[] splat 3.0>} : f32[]
  %k = constant() {value = <f32[] splat 0.04471499845385551>} : f32[]
  %s = constant() {value = <f32[] splat 0.7978845834732056>} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %h = mul(%x, %half) : f32[3,4]
  )") + cube + R"(
  %m = mul(%p, %k) : f32[3,4]
  %a = add(%x, %m) : f32[3,4]
  %b = mul(%a, %s) : f32[3,4]
  %t = tanh(%b) : f32[3,4]
  %c = add(%t, %one) : f32[3,4]
  %y = mul(%h, %c) : f32[3,4]
}
)"),
                  text(approximate));
}

// As ONNX's own expansion of Gelu writes it: x (1 + 0.044715 x²).
TEST(RaiseGelu, TanhWithTheArgumentFactored) {
    EXPECT_EQ(after_pass(raise_gelu, R"(
func @main(%x: f32[3,4] input "x") -> (%y) {
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %k = constant() {value = <f32[] splat 0.04471499845385551>} : f32[]
  %s = constant() {value = <f32[] splat 0.7978845834732056>} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %q = mul(%x, %x) : f32[3,4]
  %m = mul(%k, %q) : f32[3,4]
  %a = add(%one, %m) : f32[3,4]
  %u = mul(%s, %x) : f32[3,4]
  %b = mul(%u, %a) : f32[3,4]
  %t = tanh(%b) : f32[3,4]
  %c = add(%one, %t) : f32[3,4]
  %d = mul(%x, %c) : f32[3,4]
  %y = mul(%half, %d) : f32[3,4]
}
)"),
              text(approximate));
}

TEST(RaiseGelu, OtherConstantsStay) {
    Report report;
    constexpr const char* ir = R"(
func @main(%x: f32[3,4] input "x") -> (%y) {
  %r = constant() {value = <f32[] splat 0.75>} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %d = mul(%x, %r) : f32[3,4]
  %e = erf(%d) : f32[3,4] at "act" [Erf "e"]
  %a = add(%one, %e) : f32[3,4]
  %p = mul(%half, %x) : f32[3,4]
  %y = mul(%p, %a) : f32[3,4]
}
)";
    EXPECT_EQ(after_pass(raise_gelu, ir, report), text(ir));
    EXPECT_EQ(notes(report), "declined gelu at act: erf is not part of x / 2 (1 + erf(x / √2))\n");
}

TEST(RaiseGelu, TanhOfAnotherArgumentStays) {
    constexpr const char* ir = R"(
func @main(%x: f32[3,4] input "x", %z: f32[3,4] input "z") -> (%y) {
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %t = tanh(%z) : f32[3,4]
  %c = add(%one, %t) : f32[3,4]
  %d = mul(%x, %c) : f32[3,4]
  %y = mul(%half, %d) : f32[3,4]
}
)";
    EXPECT_EQ(after_pass(raise_gelu, ir), text(ir));
}

}  // namespace raise_gelu_test
}  // namespace thunderc
