// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/keep_statistics.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace keep_statistics_test {

constexpr const char* arguments = R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %w: f32[3] parameter "norm.weight",
    %rm: f32[3] buffer "norm.running_mean" {frozen, init = zeros},
    %rv: f32[3] buffer "norm.running_var" {frozen, init = ones}) -> (%loss "loss", %m "norm.running_mean", %v "norm.running_var") {
)";

// Variances are moved by what is unbiased: n / (n - 1) of them.
const std::string moving = R"(
  %kept = constant() {value = <f32[] splat 0.9>} : f32[]
  %share = constant() {value = <f32[] splat 0.1>} : f32[]
  %unbiased = constant() {value = <f32[] splat 1.25>} : f32[]
  %m0 = mul(%rm, %kept) : f32[3]
  %m1 = mul(%mean, %share) : f32[3]
  %m = add(%m0, %m1) : f32[3]
  %v0 = mul(%rv, %kept) : f32[3]
  %v1 = mul(%variance, %unbiased) : f32[3]
  %v2 = mul(%v1, %share) : f32[3]
  %v = add(%v0, %v2) : f32[3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
)";

TEST(KeepStatistics, NormsAreToldWhatTheyMove) {
    const std::string norm = "  %y, %mean, %variance = batch_norm(%x, %w";
    const std::string before = arguments + norm + ") {eps = 1e-05} : f32[4,3], f32[3], f32[3]\n" + moving;
    const std::string after = arguments + norm + ", _, %rm, %rv) {eps = 1e-05} : f32[4,3], f32[3], f32[3]\n" + moving;
    Report report;
    EXPECT_EQ(after_pass(keep_statistics, before, report), text(after));
    EXPECT_EQ(notes(report), "done keep_statistics at @main: 1 batch norm is told which buffers they move\n");
}

// A buffer that moves by something else is no statistic of the norm.
TEST(KeepStatistics, OtherBuffersLeaveAllAsItWas) {
    std::string other = arguments;
    other += "  %y, %mean, %variance = batch_norm(%x, %w) {eps = 1e-05} : f32[4,3], f32[3], f32[3]\n" + moving;
    other.replace(other.find("mul(%variance, %unbiased)"), 25, "mul(%w, %unbiased)");
    Report report;
    EXPECT_EQ(after_pass(keep_statistics, other, report), text(other));
    EXPECT_EQ(notes(report),
              "declined keep_statistics at norm.running_var: it is moved by no statistic of a batch norm, or by one of "
              "another's\n");
}

TEST(KeepStatistics, NothingIsToldWhereNothingMoves) {
    const char* const alone = R"(
func @main(%x: f32[4,3] input "x" {batched}) -> (%loss "loss") {
  %y, %mean, %variance = batch_norm(%x) {eps = 1e-05} : f32[4,3], f32[3], f32[3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
)";
    EXPECT_EQ(after_pass(keep_statistics, alone), text(alone));
}

// What a block computes again in the backward pass is not to read what the step has moved by then.
TEST(ForgetStatistics, BlocksGiveUpWhatOnlyNormsWereTold) {
    const auto told = [](const std::string& norm, const std::string& buffers, const std::string& call) {
        return R"ir(
func @main(
    %x: f32[4,3] input "x" {batched},
    %rm: f32[3] buffer "norm.running_mean" {frozen, init = zeros},
    %rv: f32[3] buffer "norm.running_var" {frozen, init = ones}) -> (%loss "loss", %m "norm.running_mean") {
  %y, %mean = call()ir" +
               call + R"ir() {callee = "block"} : f32[4,3], f32[3]
  %m = add(%rm, %mean) : f32[3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
func @block(%x: f32[4,3])ir" +
               buffers + R"ir() -> (%y, %mean) {
  %y, %mean, %variance = batch_norm()ir" +
               norm + R"ir() {eps = 1e-05} : f32[4,3], f32[3], f32[3]
}
)ir";
    };
    const std::string before = told("%x, _, _, %rm, %rv", ", %rm: f32[3], %rv: f32[3]", "%x, %rm, %rv");
    EXPECT_EQ(after_pass(forget_statistics, before), text(told("%x", "", "%x")));
    const std::string as_it_was = told("%x", ", %rm: f32[3], %rv: f32[3]", "%x, %rm, %rv");
    EXPECT_EQ(after_pass(forget_statistics, as_it_was), text(as_it_was));
}

}  // namespace keep_statistics_test
}  // namespace thunderc
