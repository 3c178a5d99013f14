// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/check_plan.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace check_plan_test {

Module planned(const std::string& functions) {
    Module m = parse_module(
        "module \"m\" planned\narena batch 256\narena constants 256\narena gradients 512\n"
        "arena parameters 512\narena saved 512\narena scratch 512\n" +
        functions);
    verify(m);
    return m;
}

// All violations, one a line.
std::string violations(const std::string& functions) {
    std::string out;
    for (const std::string& v : plan_violations(planned(functions))) out += v + "\n";
    return out;
}

// An entry function of these ops over x, w (vectors of 16) and m, n (4 x 4).
std::string entry(const std::string& ops) {
    return R"(
func @f(
    %x: f32[16] @batch+0 input "x",
    %m: f32[4,4] @batch+64 input "m",
    %w: f32[16] @parameters+0 parameter "w",
    %n: f32[4,4] @parameters+64 parameter "n",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
)" + ops + R"(
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
)";
}

TEST(CheckPlan, PassesASoundPlan) {
    // b may be written over a, which ends there; c is elsewhere, since add reads b and x.
    EXPECT_EQ(violations(entry(R"(
  %a = mul(%x, %w) : f32[16] @scratch+0
  %b = exp(%a) : f32[16] @scratch+0
  %c = add(%b, %x) : f32[16] @scratch+64
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+128
)")),
              "");
}

TEST(CheckPlan, FindsAValueThatIsWrittenOverTooEarly) {
    EXPECT_EQ(
        violations(entry(R"(
  %a = mul(%x, %w) : f32[16] @scratch+0
  %b = exp(%a) : f32[16] @scratch+0
  %c = add(%a, %b) : f32[16] @scratch+64
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+128
)")),
        "@f: %a (f32[16] @scratch+0, 64 bytes) and %b (f32[16] @scratch+0, 64 bytes) share bytes, and the first is "
        "still needed when exp writes the second\n");
}

TEST(CheckPlan, FindsAValueThatIsReadThroughAViewAfterItIsWrittenOver) {
    EXPECT_EQ(
        violations(entry(R"(
  %a = mul(%x, %w) : f32[16] @scratch+0
  %v = reshape(%a) {dims = [4, 4]} : f32[4,4] @scratch+0 view %a
  %b = exp(%x) : f32[16] @scratch+0
  %e = mul(%v, %m) : f32[4,4] @scratch+64
  %c = add(%b, %x) : f32[16] @scratch+128
  %t = reduce_sum(%e) {axes = [0, 1], keep_dims = false} : f32[] @scratch+192
  %u = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+256
  %s = add(%t, %u) : f32[] @scratch+192
)")),
        "@f: %a (f32[16] @scratch+0, 64 bytes) and %b (f32[16] @scratch+0, 64 bytes) share bytes, and the first is "
        "still needed when exp writes the second\n");
}

TEST(CheckPlan, FindsPartsOfValuesThatMeet) {
    // b begins inside a's last 4 elements.
    EXPECT_EQ(
        violations(entry(R"(
  %a = add(%x, %w) : f32[16] @scratch+16
  %b = mul(%x, %w) : f32[16] @scratch+64
  %c = add(%a, %b) : f32[16] @scratch+128
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+192
)")),
        "@f: %a (f32[16] @scratch+16, 64 bytes) and %b (f32[16] @scratch+64, 64 bytes) share bytes, and the first "
        "is still needed when mul writes the second\n"
        "@f: %a (@scratch+16, 64 bytes) is not aligned to 64 bytes\n");
}

TEST(CheckPlan, FindsAnOpThatMayNotWriteOverItsOperand) {
    EXPECT_EQ(
        violations(entry(R"(
  %a = mul(%m, %n) : f32[4,4] @scratch+0
  %b = linear(%a, %n) : f32[4,4] @scratch+0
  %s = reduce_sum(%b) {axes = [0, 1], keep_dims = false} : f32[] @scratch+64
)")),
        "@f: %a (f32[4,4] @scratch+0, 64 bytes) and %b (f32[4,4] @scratch+0, 64 bytes) share bytes, and linear may "
        "not write the one over the other\n");
}

TEST(CheckPlan, FindsAnOpInPlaceThatReadsItsOperandInAnotherOrder) {
    EXPECT_EQ(violations(entry(R"(
  %a = mul(%m, %n) : f32[4,4] @scratch+0
  %t = transpose(%a) {permutation = [1, 0]} : f32[4,4] @scratch+0 strides [1,4] view %a
  %b = exp(%t) : f32[4,4] @scratch+0
  %s = reduce_sum(%b) {axes = [0, 1], keep_dims = false} : f32[] @scratch+64
)")),
              "@f: %a (f32[4,4] @scratch+0, 64 bytes) and %b (f32[4,4] @scratch+0, 64 bytes) share bytes, and exp may "
              "not write the one over the other\n");
}

// Two halves of each row that lie in what a kernel concatenates of them; `second`: where the second one lies.
std::string halves(const std::string& second, const std::string& attributes = "") {
    return R"(
func @f(
    %x: f32[4,16] @batch+0 input "x",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %l = slice(%x) {axis = 1, begin = 0, end = 8, step = 1} : f32[4,8] @batch+0 strides [16,1] view %x
  %a = gelu(%l) : f32[4,8] @scratch+0 strides [16,1] view %y
  %b = silu(%l) : f32[4,8] )" +
           second + R"( view %y
  %y = fused(%a, %b) {kernel = "join")" +
           attributes + R"(} : f32[4,16] @scratch+0
  %s = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[] @scratch+256
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
func @join(%a: f32[4,8], %b: f32[4,8]) -> (%y) kind "kernel:copy" {
  %y = concat(%a, %b) {axis = 1} : f32[4,16]
}
)";
}

TEST(CheckPlan, PassesPiecesThatLieWhereTheyBelong) {
    EXPECT_EQ(violations(halves("@scratch+32 strides [16,1]")), "");
    EXPECT_EQ(violations(halves("@scratch+32 strides [16,1]", ", stands = true")), "");
}

TEST(CheckPlan, FindsAPieceInTheWrongPart) {
    // In the other's place; half in it; with rows that come too soon.
    for (const char* second : {"@scratch+0 strides [16,1]", "@scratch+16 strides [16,1]", "@scratch+32 strides [12,1]"})
        EXPECT_NE(violations(halves(second)), "") << second;
}

TEST(CheckPlan, FindsACallThatIsLeftOutTooSoon) {
    // The second half lies elsewhere: it would have to be copied.
    const std::string text = violations(halves("@scratch+512 strides [16,1]", ", stands = true"));
    EXPECT_NE(text.find("fused is left out, but what it makes does not stand in %y"), std::string::npos) << text;
}

TEST(CheckPlan, FindsTwoResultsOfOneOpInOnePlace) {
    EXPECT_EQ(
        violations(R"(
func @f(
    %x: f32[2,8] @batch+0 input "x",
    %labels: i64[2] @batch+64 input "labels",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %loss, %lse = cross_entropy(%x, %labels) {ignore_index = -100} : f32[] @scratch+0, f32[2] @scratch+0
  %r = add(%loss_sum, %loss) : f32[] @scalars+136
}
)"),
        "@f: %loss (f32[] @scratch+0, 4 bytes) and %lse (f32[2] @scratch+0, 8 bytes), both from one cross_entropy, "
        "share bytes\n");
}

TEST(CheckPlan, FindsWhatLiesOutsideItsArena) {
    EXPECT_EQ(violations(entry(R"(
  %a = mul(%x, %w) : f32[16] @scratch+512
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[] @scratch+0
)")),
              "@f: %a (f32[16] @scratch+512, 64 bytes) ends outside its arena, which has 512 bytes\n");
}

TEST(CheckPlan, FindsAViewThatLiesElsewhere) {
    EXPECT_EQ(
        violations(entry(R"(
  %a = mul(%m, %n) : f32[4,4] @scratch+0
  %v = slice(%a) {axis = 0, begin = 1, end = 3, step = 1} : f32[2,4] @scratch+0 view %a
  %s = reduce_sum(%v) {axes = [0, 1], keep_dims = false} : f32[] @scratch+64
)")),
        "@f: the slice %v (f32[2,4] @scratch+0, 32 bytes) does not lie where it views %a (f32[4,4] @scratch+0, 64 "
        "bytes)\n");
}

TEST(CheckPlan, FindsAViewThatNothingWrites) {
    // A transposed matrix is no vector, whatever the strides.
    EXPECT_EQ(
        violations(entry(R"(
  %t = transpose(%m) {permutation = [1, 0]} : f32[4,4] @batch+64 strides [1,4] view %m
  %v = reshape(%t) {dims = [16]} : f32[16] @scratch+0
  %s = reduce_sum(%v) {axes = [0], keep_dims = false} : f32[] @scratch+64
)")),
        "@f: %v (f32[16] @scratch+0, 64 bytes) is read, but no strides make it a view of %t (f32[4,4] @batch+64, 64 "
        "bytes): nothing writes it\n");
}

TEST(CheckPlan, FindsParametersThatMeetAndNamesInTwoPlaces) {
    EXPECT_EQ(violations(R"(
func @f(
    %a: f32[32] @parameters+0 parameter "a",
    %b: f32[16] @parameters+64 parameter "b",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[] @scratch+0
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
func @g(
    %b: f32[16] @parameters+128 parameter "b",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %s = reduce_sum(%b) {axes = [0], keep_dims = false} : f32[] @scratch+0
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
)"),
              "@f: %a (f32[32] @parameters+0, 128 bytes) and %b (f32[16] @parameters+64, 64 bytes) share bytes\n"
              "a (@parameters+0, 128 bytes) and b (@parameters+64, 64 bytes) share bytes\n"
              "b lies at @parameters+64, 64 bytes in @f and at @parameters+128, 64 bytes in @g\n");
}

TEST(CheckPlan, FindsWhatDoesNotLieBesideItsParameter) {
    auto with = [](const std::string& grad, const std::string& narrow_copy) {
        return violations(R"(
func @f(
    %w: f32[16] @parameters+64 parameter "w",
    %layers: 2 x f32[16] @parameters+128 layer 64 parameter "layers.{0..1}",
    %g: f32[16] @gradients)" +
                          grad + R"( state "grad.w",
    %gs: 2 x f32[16] @gradients+128 layer 64 state "grad.layers.{0..1}",
    %s: bf16[16] @narrow_copies)" +
                          narrow_copy + R"( state "narrow_copy.w",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> () {
}
)");
    };
    // The bf16 copy begins in the middle of a cache line, as its parameter's element does in f32 alone.
    EXPECT_EQ(with("+64", "+32"), "@f: %s (@narrow_copies+32, 32 bytes) is not aligned to 64 bytes\n");
    EXPECT_EQ(
        with("+0", "+0"),
        "grad.w (@gradients+0, 64 bytes) does not lie at the element of w (@parameters+64, 64 bytes)\n"
        "narrow_copy.w (@narrow_copies+0, 32 bytes) does not lie at the element of w (@parameters+64, 64 bytes)\n");
}

TEST(CheckPlan, FindsAResultOverAParameter) {
    EXPECT_EQ(
        violations(entry(R"(
  %a = mul(%x, %w) : f32[16] @parameters+64
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[] @scratch+0
)")),
        "@f: %n (f32[4,4] @parameters+64, 64 bytes) and %a (f32[16] @parameters+64, 64 bytes) share bytes, and the "
        "first is still needed when mul writes the second\n");
}

TEST(CheckPlan, FindsConstantsThatDiffer) {
    EXPECT_EQ(violations(entry(R"(
  %a = constant() {value = <f32[16] splat 1.0>} : f32[16] @constants+0
  %b = constant() {value = <f32[16] splat 1.0>} : f32[16] @constants+0
  %c = constant() {value = <f32[16] splat 2.0>} : f32[16] @constants+0
  %d = add(%a, %b) : f32[16] @scratch+0
  %e = add(%d, %c) : f32[16] @scratch+0
  %s = reduce_sum(%e) {axes = [0], keep_dims = false} : f32[] @scratch+64
)")),
              "the constants %a of @f (@constants+0, 64 bytes) and %c of @f (@constants+0, 64 bytes) share bytes and "
              "differ\n"
              "the constants %b of @f (@constants+0, 64 bytes) and %c of @f (@constants+0, 64 bytes) share bytes and "
              "differ\n");
}

// Two products of one input: the second weight follows the first, at any multiple of an element.
std::string merged(int second) {
    return R"(
func @f(
    %x: f32[4,2] @batch+0 input "x",
    %a: f32[3,2] @parameters+0 parameter "a",
    %b: f32[3,2] @parameters+)" +
           std::to_string(second) + R"( parameter "b",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %y = linear(%x, %a, _, _, %b) {adjacent_weights = true} : f32[4,6] @scratch+0
  %s = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[] @scratch+128
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
)";
}

TEST(CheckPlan, TakesAWeightThatFollowsAnother) {
    EXPECT_EQ(violations(merged(24)), "");
}

TEST(CheckPlan, FindsMergedWeightsThatAreApart) {
    EXPECT_EQ(
        violations(merged(64)),
        "@f: linear takes %a (f32[3,2] @parameters+0, 24 bytes) and %b (f32[3,2] @parameters+64, 24 bytes) as one "
        "tensor, but they do not lie side by side\n");
}

// ---- kernels ----

std::string with_kernel(const std::string& body) {
    return entry(R"(
  %a = mul(%m, %n) : f32[4,4] @scratch+0
  %b = fused(%a) {kernel = "kernel"} : f32[4,4] @scratch+0
  %s = reduce_sum(%b) {axes = [0, 1], keep_dims = false} : f32[] @scratch+64
)") +
           "func @kernel(%k: f32[4,4]) -> (%y) kind \"kernel:" + body + "}\n";
}

TEST(CheckPlan, TakesAKernelThatMayWriteOverItsInput) {
    EXPECT_EQ(violations(with_kernel("pointwise\" {\n  %e = exp(%k) : f32[4,4]\n  %y = neg(%e) : f32[4,4]\n")), "");
}

TEST(CheckPlan, FindsAKernelThatReadsWhatItHasWritten) {
    // Each row of the result but the first is made of the row before as well, which is written first.
    EXPECT_EQ(
        violations(with_kernel("pointwise\" {\n  %h = slice(%k) {axis = 0, begin = 0, end = 3, step = 1} : f32[3,4]\n"
                               "  %e = exp(%h) : f32[3,4]\n"
                               "  %p = pad(%e) {high = [0, 0], low = [1, 0], value = 0.0} : f32[4,4]\n"
                               "  %y = add(%k, %p) : f32[4,4]\n")),
        "@f: %a (f32[4,4] @scratch+0, 64 bytes) and %b (f32[4,4] @scratch+0, 64 bytes) share bytes, and fused may "
        "not write the one over the other\n");
}

TEST(CheckPlan, TakesASumOfAPaddedGradient) {
    // The gradient of a table of which the first half was read, in place.
    EXPECT_EQ(
        violations(with_kernel("pointwise\" {\n  %h = slice(%k) {axis = 0, begin = 0, end = 2, step = 1} : f32[2,4]\n"
                               "  %p = pad(%h) {high = [2, 0], low = [0, 0], value = 0.0} : f32[4,4]\n"
                               "  %y = add(%k, %p) : f32[4,4]\n")),
        "");
}

TEST(CheckPlan, FindsAKernelThatMayNotWriteOverItsInput) {
    EXPECT_EQ(
        violations(with_kernel(
            "transpose\" {\n  %t = transpose(%k) {permutation = [1, 0]} : f32[4,4]\n  %y = exp(%t) : f32[4,4]\n")),
        "@f: %a (f32[4,4] @scratch+0, 64 bytes) and %b (f32[4,4] @scratch+0, 64 bytes) share bytes, and fused may "
        "not write the one over the other\n");
}

// ---- loops ----

struct Loop {
    std::string in = "@scratch+0", out = "@scratch+64",
                attributes = "carry_arena = [\"scratch\"], carry_base = [0], carry_period = [2], carry_stride = [64]";
    std::string scratch = "128", weights = "@parameters+64 layer 64";
    std::string before, last = "%z",
                        body = "  %e = exp(%x) : f32[16] @scratch+0\n  %y = mul(%e, %w) : f32[16] @caller+0\n";

    std::string text() const {
        return R"(
func @f(
    %x: f32[16] @batch+0 input "x",
    %v: f32[16] @parameters+0 parameter "v",
    %w: 3 x f32[16] )" +
               weights + R"( parameter "w.{0..2}",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %a = mul(%x, %v) : f32[16] )" +
               in + "\n" + before + R"(
  %z = repeat(%a, %w) {body = "layer", carried = 1, )" +
               attributes + ", n = 3, per_layer = 1, reverse = false, scratch = " + scratch + R"(} : f32[16] )" + out +
               R"(
  %c = add(%z, )" +
               last + R"() : f32[16] @scratch+320
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+384
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
func @layer(%x: f32[16] @caller+0, %w: f32[16] @caller+0) -> (%y) scratch 64 {
)" + body + "}\n";
    }
};

TEST(CheckPlan, PassesASoundLoop) {
    EXPECT_EQ(violations(Loop().text()), "");
}

TEST(CheckPlan, FindsSlotsThatMeet) {
    Loop loop;
    loop.attributes = "carry_arena = [\"scratch\"], carry_base = [0], carry_period = [2], carry_stride = [0]";
    loop.out = "@scratch+0";
    EXPECT_NE(violations(loop.text())
                  .find("@f: slots @scratch+0, 64 bytes and @scratch+0, 64 bytes of a carried value "
                        "share bytes\n"),
              std::string::npos);
}

TEST(CheckPlan, FindsAValueThatDoesNotGoIntoTheFirstSlotOrComeOutOfTheLast) {
    Loop loop;
    loop.in = "@scratch+192";
    loop.out = "@scratch+0";
    EXPECT_EQ(violations(loop.text()),
              "@f: %a (f32[16] @scratch+192, 64 bytes) goes into a loop whose first slot is @scratch+0, 64 bytes\n"
              "@f: %z (f32[16] @scratch+0, 64 bytes) comes out of a loop whose last slot is @scratch+64, 64 bytes\n");
}

TEST(CheckPlan, FindsAValueThatIsReadAfterALoopWroteOverIt) {
    Loop loop;
    loop.last = "%a";
    EXPECT_EQ(violations(loop.text()),
              "@f: %a (f32[16] @scratch+0, 64 bytes) is read after the loop that wrote over it\n");
}

TEST(CheckPlan, FindsAValueInASlotOrInTheScratchMemoryOfALayer) {
    for (const auto& [place, what] :
         {std::pair{"@scratch+64",
                    "the slots of a carried value (@scratch+0, 64 bytes x 2 "
                    "every 64)"},
          std::pair{"@scratch+128", "the scratch memory of @layer (@scratch+128, 64 bytes)"}}) {
        Loop loop;
        loop.before = std::string("  %b = exp(%x) : f32[16] ") + place + "\n";
        loop.last = "%b";
        const std::string found = violations(loop.text());
        EXPECT_NE(found.find(std::string("@f: %b (f32[16] ") + place + ", 64 bytes) and " + what +
                             " share bytes during repeat\n"),
                  std::string::npos)
            << found;
    }
}

TEST(CheckPlan, FindsScratchMemoryThatMeetsTheSlots) {
    Loop loop;
    loop.scratch = "64";
    const std::string found = violations(loop.text());
    EXPECT_NE(
        found.find("@f: the slots of a carried value (@scratch+0, 64 bytes x 2 every 64) and the scratch memory of "
                   "@layer (@scratch+64, 64 bytes) share bytes\n"),
        std::string::npos)
        << found;
}

TEST(CheckPlan, FindsMembersOfAFamilyThatMeet) {
    Loop loop;
    loop.weights = "@parameters+64 layer 32";
    const std::string found = violations(loop.text());
    EXPECT_NE(
        found.find("@f: the members of %w (3 x f32[16] @parameters+64, 64 bytes x 3 every 32) overlap each other\n"),
        std::string::npos)
        << found;
}

TEST(CheckPlan, FindsALayerThatNeedsMoreScratchMemoryThanItSays) {
    Loop loop;
    loop.body = "  %e = exp(%x) : f32[16] @scratch+64\n  %y = mul(%e, %w) : f32[16] @caller+0\n";
    EXPECT_EQ(violations(loop.text()),
              "@layer: %e (f32[16] @scratch+192, 64 bytes) ends outside the function's scratch memory, which has 64 "
              "bytes\n");
}

// A loop that keeps two tensors of each layer, and one op that reads what lies in `kept` afterwards.
std::string keeping(const std::string& first, const std::string& second, const std::string& after) {
    return R"(
func @f(
    %x: f32[16] @batch+0 input "x",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %a = exp(%x) : f32[16] @scratch+0
  %z, %e, %h = repeat(%a) {body = "layer", carried = 1, carry_arena = ["scratch"], carry_base = [0], carry_period = [2], carry_stride = [64], n = 3, per_layer = 0, reverse = false} : f32[16] @scratch+64, 3 x f32[16] )" +
           first + ", 3 x f32[16] " + second + "\n" + after + R"(
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+384
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
func @layer(%x: f32[16] @caller+0) -> (%y, %e, %h) {
  %e = exp(%x) : f32[16] @caller+0
  %h = neg(%x) : f32[16] @caller+0
  %y = mul(%e, %h) : f32[16] @caller+0
}
)";
}

const std::string reads_both = R"(
  %p = member(%e) {index = 0} : f32[16] @saved+0
  %q = member(%h) {index = 2} : f32[16] @saved+320
  %c = add(%p, %q) : f32[16] @scratch+128
)";

TEST(CheckPlan, TakesWhatALoopKeepsSideBySide) {
    EXPECT_EQ(violations(keeping("@saved+0 layer 128", "@saved+64 layer 128", reads_both)), "");
}

TEST(CheckPlan, FindsALayersTensorOverThatOfTheNextLayer) {
    // h of layer i begins where e of layer i + 1 does.
    EXPECT_EQ(violations(keeping("@saved+0 layer 64", "@saved+64 layer 128", reads_both)),
              "@f: %e (3 x f32[16] @saved+0, 64 bytes x 3 every 64) and %h (3 x f32[16] @saved+64, 64 bytes x 3 every "
              "128), both from one repeat, share bytes\n");
}

TEST(CheckPlan, FindsAMemberThatIsReadAfterItsFamilyIsWrittenOver) {
    EXPECT_EQ(
        violations(keeping("@saved+0 layer 128", "@saved+64 layer 128", R"(
  %p = member(%e) {index = 1} : f32[16] @saved+128
  %o = exp(%x) : f32[16] @saved+128
  %c = add(%p, %o) : f32[16] @scratch+128
)")),
        "@f: %e (3 x f32[16] @saved+0, 64 bytes x 3 every 128) and %o (f32[16] @saved+128, 64 bytes) share bytes, "
        "and the first is still needed when exp writes the second\n");
}

TEST(CheckPlan, FindsAMemberThatLiesAtAnotherLayer) {
    EXPECT_EQ(violations(keeping("@saved+0 layer 128", "@saved+64 layer 128", R"(
  %p = member(%e) {index = 1} : f32[16] @saved+0
  %c = exp(%p) : f32[16] @scratch+128
)")),
              "@f: the member %p (f32[16] @saved+0, 64 bytes) does not lie where it views %e (3 x f32[16] @saved+0, 64 "
              "bytes x 3 every 128)\n");
}

// Gradients lie where they are added to: the layer may write its result there only as its op allows.
std::string gradients(const std::string& body) {
    return R"(
func @f(
    %x: f32[16] @batch+0 input "x",
    %g: 2 x f32[16] @gradients+0 layer 64 state "grad.w.{0..1}") -> (%h "g") {
  %a = exp(%x) : f32[16] @scratch+0
  %z, %h = repeat(%a, %g) {body = "layer", carried = 1, carry_arena = ["scratch"], carry_base = [0], carry_period = [2], carry_stride = [64], n = 2, per_layer = 1, reverse = true, scratch = 128} : f32[16] @scratch+0, 2 x f32[16] @gradients+0 layer 64
}
func @layer(%x: f32[16] @caller+0, %g: f32[16] @caller+0) -> (%y, %h) scratch 64 {
)" + body + "}\n";
}

TEST(CheckPlan, TakesAGradientThatIsAddedToInALoop) {
    EXPECT_EQ(violations(gradients("  %y = exp(%x) : f32[16] @caller+0\n  %h = add(%g, %x) : f32[16] @caller+0\n")),
              "");
}

TEST(CheckPlan, FindsAGradientThatIsReadAfterItWasWritten) {
    const std::string found =
        violations(gradients("  %h = exp(%x) : f32[16] @caller+0\n  %y = mul(%x, %g) : f32[16] @caller+0\n"));
    EXPECT_NE(found.find("@layer: %g (f32[16] @gradients+64, 64 bytes) and %h (f32[16] @gradients+64, 64 bytes) share "
                         "bytes, and the first is still needed when exp writes the second\n"),
              std::string::npos)
        << found;
}

TEST(CheckPlan, ThePassThrowsWhatItFound) {
    Report report;
    const Module broken = planned(entry(R"(
  %a = mul(%x, %w) : f32[16] @scratch+512
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[] @scratch+0
)"));
    try {
        check_plan(broken, report);
        FAIL() << "nothing was found";
    } catch (const InternalError& e) {
        EXPECT_STREQ(e.what(),
                     "the plan is wrong in 1 place\n  @f: %a (f32[16] @scratch+512, 64 bytes) ends outside its arena, "
                     "which has 512 bytes");
    }
}

}  // namespace check_plan_test
}  // namespace thunderc
