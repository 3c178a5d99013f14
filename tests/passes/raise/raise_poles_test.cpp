// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_poles.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_poles_test {

TEST(RaisePoles, LogOfSigmoid) {
    Report report;
    EXPECT_EQ(after_pass(raise_poles, R"(
func @main(%x: f32[3,4] input "x") -> (%y, %z) {
  %s = sigmoid(%x) : f32[3,4] at "loss" [Sigmoid "s"]
  %y = log(%s) : f32[3,4] at "loss" [Log "y"]
  %z = log(%x) : f32[3,4]
}
)",
                         report),
              text(R"(
func @main(%x: f32[3,4] input "x") -> (%y, %z) {
  %n = neg(%x) : f32[3,4]
  %p = softplus(%n) : f32[3,4]
  %y = neg(%p) : f32[3,4]
  %z = log(%x) : f32[3,4]
}
)"));
    EXPECT_EQ(notes(report), "done log of sigmoid at loss: from Sigmoid, Log\n");
}

// With and without the exporter's optimizer: 1 - p as a sum of -p, t - 1, limits as max.
TEST(RaisePoles, BinaryCrossEntropyAsTorchExportsIt) {
    Report report;
    EXPECT_EQ(after_pass(raise_poles, R"(
func @main(%z: f32[4] input "z", %t: f32[4] input "t") -> (%y) {
  %p = sigmoid(%z) : f32[4]
  %one = constant() {value = <f32[] splat 1>} : f32[]
  %least = constant() {value = <f32[] splat -100>} : f32[]
  %t1 = sub(%t, %one) : f32[4]
  %n = neg(%p) : f32[4]
  %q = add(%n, %one) : f32[4]
  %lq = log(%q) : f32[4]
  %mq = max(%lq, %least) : f32[4]
  %a = mul(%t1, %mq) : f32[4]
  %lp = log(%p) : f32[4]
  %mp = max(%lp, %least) : f32[4]
  %b = mul(%t, %mp) : f32[4]
  %y = sub(%a, %b) : f32[4] at "loss" [Sub "y"]
}
)",
                         report),
              text(R"(
func @main(%z: f32[4] input "z", %t: f32[4] input "t") -> (%y) {
  %p = sigmoid(%z) : f32[4]
  %y = binary_cross_entropy(%p, %t) : f32[4]
}
)"));
    // The logarithm of the sigmoid is a part of it.
    EXPECT_EQ(notes(report), "done binary_cross_entropy at loss: from Sub\n");
}

TEST(RaisePoles, BinaryCrossEntropyOfClippedLogarithms) {
    EXPECT_EQ(after_pass(raise_poles, R"(
func @main(%p: f32[4] input "p", %t: f32[4] input "t") -> (%y) {
  %one = constant() {value = <f32[] splat 1>} : f32[]
  %minus = constant() {value = <f32[] splat -1>} : f32[]
  %least = constant() {value = <f32[4] splat -100>} : f32[4]
  %t1 = add(%t, %minus) : f32[4]
  %q = sub(%one, %p) : f32[4]
  %lq = log(%q) : f32[4]
  %mq = clip(%lq, %least) : f32[4]
  %a = mul(%mq, %t1) : f32[4]
  %lp = log(%p) : f32[4]
  %mp = max(%least, %lp) : f32[4]
  %b = mul(%mp, %t) : f32[4]
  %y = sub(%a, %b) : f32[4]
}
)"),
              text(R"(
func @main(%p: f32[4] input "p", %t: f32[4] input "t") -> (%y) {
  %y = binary_cross_entropy(%p, %t) : f32[4]
}
)"));
}

TEST(RaisePoles, RootsOfSumsOfSquares) {
    EXPECT_EQ(after_pass(raise_poles, R"(
func @main(%x: f32[3,4] input "x") -> (%n, %d) {
  %two = constant() {value = <f32[] splat 2>} : f32[]
  %third = constant() {value = <f32[] splat 0.25>} : f32[]
  %s = mul(%x, %x) : f32[3,4]
  %m = reduce_sum(%s) {axes = [1], keep_dims = false} : f32[3]
  %n = sqrt(%m) : f32[3]
  %q = pow(%x, %two) : f32[3,4]
  %r = reduce_sum(%q) {axes = [1], keep_dims = true} : f32[3,1]
  %k = mul(%r, %third) : f32[3,1]
  %v = reshape(%k) {dims = [3]} : f32[3]
  %d = sqrt(%v) : f32[3]
}
)"),
              text(R"(
func @main(%x: f32[3,4] input "x") -> (%n, %d) {
  %two = constant() {value = <f32[] splat 2>} : f32[]
  %third = constant() {value = <f32[] splat 0.25>} : f32[]
  %s = mul(%x, %x) : f32[3,4]
  %m = reduce_sum(%s) {axes = [1], keep_dims = false} : f32[3]
  %n = sqrt(%m) {flat_at_zero = true} : f32[3]
  %q = pow(%x, %two) : f32[3,4]
  %r = reduce_sum(%q) {axes = [1], keep_dims = true} : f32[3,1]
  %k = mul(%r, %third) : f32[3,1]
  %v = reshape(%k) {dims = [3]} : f32[3]
  %d = sqrt(%v) {flat_at_zero = true} : f32[3]
}
)"));
}

// Rows of -inf alone are set to 0 behind the softmax, by a guard for each row; the other way round, and behind a cast.
TEST(RaisePoles, SoftmaxOfRowsThatMayReadNothing) {
    Report report;
    EXPECT_EQ(after_pass(raise_poles, R"(
func @main(%x: f32[2,3,4] input "x", %g: bool[3,1] input "g", %h: bool[] input "h") -> (%y, %z) {
  %zero = constant() {value = <f32[] splat 0>} : f32[]
  %s = softmax(%x) {axis = 2} : f32[2,3,4] at "head" [Softmax "s"]
  %y = select(%g, %zero, %s) : f32[2,3,4] at "head" [Where "y"]
  %none = constant() {value = <f16[] splat 0>} : f16[]
  %t = softmax(%x) {axis = 1} : f32[2,3,4]
  %c = cast(%t) {dtype = f16} : f16[2,3,4]
  %z = select(%h, %c, %none) : f16[2,3,4]
}
)",
                         report),
              text(R"(
func @main(%x: f32[2,3,4] input "x", %g: bool[3,1] input "g", %h: bool[] input "h") -> (%y, %z) {
  %zero = constant() {value = <f32[] splat 0>} : f32[]
  %nought = constant() {value = <f32[] splat 0>} : f32[]
  %a = select(%g, %nought, %x) : f32[2,3,4]
  %s = softmax(%a) {axis = 2} : f32[2,3,4]
  %y = select(%g, %zero, %s) : f32[2,3,4]
  %none = constant() {value = <f16[] splat 0>} : f16[]
  %nothing = constant() {value = <f32[] splat 0>} : f32[]
  %b = select(%h, %x, %nothing) : f32[2,3,4]
  %t = softmax(%b) {axis = 1} : f32[2,3,4]
  %c = cast(%t) {dtype = f16} : f16[2,3,4]
  %z = select(%h, %c, %none) : f16[2,3,4]
}
)"));
    EXPECT_EQ(notes(report).substr(0, 26), "done softmax of nothing at");
}

// Guards that differ along a row, and rows that are chosen already.
TEST(RaisePoles, OtherChoicesOfASoftmaxStay) {
    constexpr const char* ir = R"(
func @main(%x: f32[3,4] input "x", %g: bool[3,1] input "g", %h: bool[4] input "h") -> (%y, %z) {
  %zero = constant() {value = <f32[] splat 0>} : f32[]
  %s = softmax(%x) {axis = 1} : f32[3,4]
  %y = select(%h, %zero, %s) : f32[3,4]
  %a = select(%g, %zero, %x) : f32[3,4]
  %t = softmax(%a) {axis = 1} : f32[3,4]
  %z = select(%g, %zero, %t) : f32[3,4]
}
)";
    EXPECT_EQ(after_pass(raise_poles, ir), text(ir));
}

// Roots of other things, among them what a norm's eps was added to; other limits; other targets; a clip with two
// bounds.
TEST(RaisePoles, OtherThingsStay) {
    constexpr const char* ir = R"(
func @main(%x: f32[3,4] input "x", %p: f32[4] input "p", %t: f32[4] input "t", %u: f32[4] input "u") -> (%a, %b, %c, %y, %z) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %one = constant() {value = <f32[] splat 1>} : f32[]
  %least = constant() {value = <f32[] splat -100>} : f32[]
  %other = constant() {value = <f32[] splat -50>} : f32[]
  %s = mul(%x, %x) : f32[3,4]
  %m = reduce_sum(%s) {axes = [1], keep_dims = false} : f32[3]
  %e = add(%m, %eps) : f32[3]
  %a = sqrt(%e) : f32[3]
  %b = sqrt(%s) : f32[3,4]
  %n = reduce_sum(%x) {axes = [1], keep_dims = false} : f32[3]
  %c = sqrt(%n) : f32[3]
  %t1 = sub(%t, %one) : f32[4]
  %q = sub(%one, %p) : f32[4]
  %lq = log(%q) : f32[4]
  %mq = max(%lq, %other) : f32[4]
  %f = mul(%t1, %mq) : f32[4]
  %lp = log(%p) : f32[4]
  %mp = max(%lp, %least) : f32[4]
  %g = mul(%t, %mp) : f32[4]
  %y = sub(%f, %g) : f32[4]
  %nq = max(%lq, %least) : f32[4]
  %h = mul(%t1, %nq) : f32[4]
  %i = mul(%u, %mp) : f32[4]
  %z = sub(%h, %i) : f32[4]
}
)";
    EXPECT_EQ(after_pass(raise_poles, ir), text(ir));
}

}  // namespace raise_poles_test
}  // namespace thunderc
