// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/freeze_unreached.h"

#include "compiler/support/error.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace freeze_unreached_test {

// The parameters that are left to train, and what is said.
std::string trained(std::string_view ir, Report& report) {
    Module module = parse_module("module \"m\" values\n" + std::string(ir));
    verify(module);
    const std::string before = text_of(module);
    module = freeze_unreached(std::move(module), report);
    verify(module);
    std::string out;
    for (ArgInfo& info : module.main().argument_info) {
        if (info.kind == ArgInfo::Kind::parameter && info.trainable) out += info.names[0] + " ";
        if (info.kind == ArgInfo::Kind::parameter && !info.trainable && before.find("frozen") == std::string::npos)
            info.trainable = true;
    }
    // Nothing else is changed.
    if (before.find("frozen") == std::string::npos) {
        EXPECT_EQ(text_of(module), before);
    }
    return out;
}

// A teacher and a student of one input: what stands before the stop trains nothing, however many products it has.
TEST(FreezeUnreached, WhatADetachedValueIsMadeOf) {
    Report report;
    EXPECT_EQ(trained(R"(
func @main(%x: f32[2,3] input "x" {batched}, %t0: f32[4,3] parameter "t.0.weight", %t2: f32[4,4] parameter "t.2.weight", %b: f32[4] parameter "t.bias", %s: f32[4,3] parameter "s.weight") -> (%loss "loss") {
  %h = linear(%x, %t0) : f32[2,4]
  %u = linear(%h, %t2, %b) : f32[2,4]
  %d = stop_gradient(%u) : f32[2,4]
  %y = linear(%x, %s) : f32[2,4]
  %e = sub(%y, %d) : f32[2,4]
  %q = mul(%e, %e) : f32[2,4]
  %loss = reduce_sum(%q) {axes = [0, 1], keep_dims = false} : f32[]
}
)",
                      report),
              "s.weight ");
    EXPECT_EQ(notes(report),
              "warning unreached at t.{0..2:2}.weight: the loss does not depend on it: it is left as it is\n"
              "warning unreached at t.bias: the loss does not depend on it: it is left as it is\n");
}

// Only a comparison is made of it: no gradient comes back from that.
TEST(FreezeUnreached, WhatOnlyDecides) {
    Report report;
    EXPECT_EQ(trained(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "w", %g: f32[3] parameter "g") -> (%loss "loss") {
  %c = lt(%x, %g) : bool[3]
  %z = neg(%w) : f32[3]
  %y = select(%c, %w, %z) : f32[3]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
)",
                      report),
              "w ");
    EXPECT_EQ(notes(report), "warning unreached at g: the loss does not depend on it: it is left as it is\n");
}

TEST(FreezeUnreached, LeavesWhatTrains) {
    Report report;
    EXPECT_EQ(trained(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "w", %g: f32[3] parameter "g" {frozen}) -> (%loss "loss") {
  %y = mul(%x, %w) : f32[3]
  %z = mul(%y, %g) : f32[3]
  %d = stop_gradient(%w) : f32[3]
  %q = mul(%z, %d) : f32[3]
  %loss = reduce_sum(%q) {axes = [0], keep_dims = false} : f32[]
}
)",
                      report),
              "w ");
    EXPECT_EQ(notes(report), "");
}

}  // namespace freeze_unreached_test
}  // namespace thunderc
