// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_swiglu.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_swiglu_test {

TEST(RaiseSwiglu, SigmoidMulMul) {
    Report report;
    EXPECT_EQ(after_pass(raise_swiglu, R"(
func @main(%g: f32[3,4] input "g", %u: f32[3,4] input "u") -> (%y, %z) {
  %s = sigmoid(%g) : f32[3,4] at "mlp.act_fn" [Sigmoid "s"]
  %a = mul(%g, %s) : f32[3,4] at "mlp.act_fn" [Mul "a"]
  %y = mul(%a, %u) : f32[3,4] at "mlp" [Mul "y"]
  %t = sigmoid(%u) : f32[3,4]
  %b = mul(%t, %u) : f32[3,4]
  %z = mul(%g, %b) : f32[3,4]
}
)",
                         report),
              text(R"(
func @main(%g: f32[3,4] input "g", %u: f32[3,4] input "u") -> (%swiglu, %swiglu_1) {
  %swiglu = swiglu(%g, %u) : f32[3,4]
  %swiglu_1 = swiglu(%u, %g) : f32[3,4]
}
)"));
    EXPECT_EQ(notes(report), "done swiglu at mlp: from Sigmoid, Mul, Mul\ndone swiglu: \n");
}

TEST(RaiseSwiglu, SiluAlone) {
    Report report;
    EXPECT_EQ(after_pass(raise_swiglu, R"(
func @main(%g: f32[3,4] input "g", %u: f32[1,4] input "u") -> (%a, %z) {
  %s = sigmoid(%g) : f32[3,4]
  %a = mul(%g, %s) : f32[3,4] at "act" [Mul "a"]
  %t = sigmoid(%u) : f32[1,4]
  %b = mul(%u, %t) : f32[1,4] at "gate" [Mul "b"]
  %z = mul(%b, %g) : f32[3,4]
}
)",
                         report),
              text(R"(
func @main(%g: f32[3,4] input "g", %u: f32[1,4] input "u") -> (%silu, %z) {
  %silu = silu(%g) : f32[3,4]
  %silu_1 = silu(%u) : f32[1,4]
  %z = mul(%silu_1, %g) : f32[3,4]
}
)"));
    EXPECT_EQ(notes(report),
              "done silu at act: from Mul\n"
              "declined swiglu at act: the gate is read more than once, or is a result\n"
              "done silu at gate: from Mul\n"
              "declined swiglu at gate: gate and factor are of different shapes\n");
}

TEST(RaiseSwiglu, OtherSigmoidsStay) {
    constexpr const char* ir = R"(
func @main(%g: f32[3,4] input "g", %u: f32[3,4] input "u") -> (%y, %q) {
  %s = sigmoid(%g) : f32[3,4]
  %y = mul(%u, %s) : f32[3,4]
  %k = constant() {value = <f32[] splat 1.702>} : f32[]
  %m = mul(%g, %k) : f32[3,4]
  %t = sigmoid(%m) : f32[3,4]
  %q = mul(%g, %t) : f32[3,4]
}
)";
    EXPECT_EQ(after_pass(raise_swiglu, ir), text(ir));
}

}  // namespace raise_swiglu_test
}  // namespace thunderc
