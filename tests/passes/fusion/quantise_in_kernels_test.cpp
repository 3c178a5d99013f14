// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/quantise_in_kernels.h"

#include "compiler/passes/fusion/fuse.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace quantise_in_kernels_test {

void expect_pass(const std::string& before, const std::string& after) {
    EXPECT_EQ(after_pass(quantise_in_kernels, before), text(after));
}
void expect_unchanged(const std::string& before) {
    expect_pass(before, before);
}

// Of a tensor that `made` gives as %y, with the ops that follow; results are the last ones.
std::string quantising(const std::string& made, const std::string& rest, const std::string& results) {
    return "func @main(%x: bf16[2,3,8], %w: bf16[8], %m: bf16[8,8], %scale: f32[], %amax: f32[]) -> (" + results +
           ") {\n  " + made + "\n  " + rest + "\n}";
}

const std::string both =
    R"(%after, %inverse, %q, %t = fp8_quantise(%scale, %amax, %y) {copies = "both", dtype = e5m2} : f32[], f32[], e5m2[2,3,8], e5m2[8,6])";
const std::string results = "%after, %inverse, %q, %t";

TEST(QuantiseInKernels, CodesAndMaximaAreMadeByElement) {
    expect_pass(quantising("%y = mul(%x, %w) : bf16[2,3,8]", both, results), R"(
func @main(%x: bf16[2,3,8], %w: bf16[8], %m: bf16[8,8], %scale: f32[], %amax: f32[]) -> (%after, %inverse, %q, %t) {
  %y = mul(%x, %w) : bf16[2,3,8]
  %q = fp8_code(%y, %scale) {dtype = e5m2} : e5m2[2,3,8]
  %size = fp8_magnitude(%y) : f32[2,3,8]
  %maxima = reduce_max(%size) {axes = [2], keep_dims = false} : f32[2,3]
  %after, %inverse, %t = fp8_finish(%scale, %amax, %maxima, %q) : f32[], f32[], e5m2[8,6]
})");
}

TEST(QuantiseInKernels, OneCopyAsItLiesIsTheKernels) {
    expect_pass(
        quantising("%y = mul(%x, %w) : bf16[2,3,8]",
                   "%after, %inverse, %q = fp8_quantise(%scale, %amax, %y) {copies = \"plain\", dtype = e4m3} : "
                   "f32[], f32[], e4m3[2,3,8]",
                   "%after, %inverse, %q"),
        R"(
func @main(%x: bf16[2,3,8], %w: bf16[8], %m: bf16[8,8], %scale: f32[], %amax: f32[]) -> (%after, %inverse, %q) {
  %y = mul(%x, %w) : bf16[2,3,8]
  %q = fp8_code(%y, %scale) {dtype = e4m3} : e4m3[2,3,8]
  %size = fp8_magnitude(%y) : f32[2,3,8]
  %maxima = reduce_max(%size) {axes = [2], keep_dims = false} : f32[2,3]
  %after, %inverse = fp8_finish(%scale, %amax, %maxima) : f32[], f32[]
})");
}

// By the scale of the forward pass, whose amax is known.
TEST(QuantiseInKernels, WhatIsQuantisedAgainNotesNoAmax) {
    expect_pass(quantising("%y = mul(%x, %w) : bf16[2,3,8]",
                           R"(%i1, %q = fp8_requantise(%scale, %y) {copies = "plain", dtype = e4m3} : f32[], e4m3[2,3,8]
  %i2, %t = fp8_requantise(%scale, %y) {copies = "transposed", dtype = e4m3} : f32[], e4m3[8,6])",
                           "%i1, %q, %i2, %t"),
                R"(
func @main(%x: bf16[2,3,8], %w: bf16[8], %m: bf16[8,8], %scale: f32[], %amax: f32[]) -> (%i1, %q, %i2, %t) {
  %y = mul(%x, %w) : bf16[2,3,8]
  %q = fp8_code(%y, %scale) {dtype = e4m3} : e4m3[2,3,8]
  %i1 = reciprocal(%scale) : f32[]
  %codes = fp8_code(%y, %scale) {dtype = e4m3} : e4m3[2,3,8]
  %i2, %t = fp8_transpose(%scale, %codes) : f32[], e4m3[8,6]
})");
}

// Gradients of gate and up: the maxima are those of both.
TEST(QuantiseInKernels, PiecesSideBySideHaveOneAmax) {
    expect_pass(
        quantising(
            R"(%a = mul(%x, %w) : bf16[2,3,8]
  %b = add(%x, %w) : bf16[2,3,8]
  %y = concat(%a, %b) {axis = 2} : bf16[2,3,16])",
            R"(%after, %inverse, %q = fp8_quantise(%scale, %amax, %y) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[2,3,16])",
            "%after, %inverse, %q"),
        R"(
func @main(%x: bf16[2,3,8], %w: bf16[8], %m: bf16[8,8], %scale: f32[], %amax: f32[]) -> (%after, %inverse, %q) {
  %a = mul(%x, %w) : bf16[2,3,8]
  %b = add(%x, %w) : bf16[2,3,8]
  %y = concat(%a, %b) {axis = 2} : bf16[2,3,16]
  %c1 = fp8_code(%a, %scale) {dtype = e4m3} : e4m3[2,3,8]
  %c2 = fp8_code(%b, %scale) {dtype = e4m3} : e4m3[2,3,8]
  %q = concat(%c1, %c2) {axis = 2} : e4m3[2,3,16]
  %s1 = fp8_magnitude(%a) : f32[2,3,8]
  %m1 = reduce_max(%s1) {axes = [2], keep_dims = false} : f32[2,3]
  %s2 = fp8_magnitude(%b) : f32[2,3,8]
  %m2 = reduce_max(%s2) {axes = [2], keep_dims = false} : f32[2,3]
  %maxima = max(%m1, %m2) : f32[2,3]
  %after, %inverse = fp8_finish(%scale, %amax, %maxima) : f32[], f32[]
})");
}

TEST(QuantiseInKernels, WhatNoKernelMakesStaysACall) {
    for (const char* made : {
             "%y = reshape(%x) {dims = [2, 3, 8]} : bf16[2,3,8]",  // an argument
             "%y = linear(%x, %m) : bf16[2,3,8]",                  // a call
             "%z = linear(%x, %m) : bf16[2,3,8]\n  %y = reshape(%z) {dims = [2, 3, 8]} : bf16[2,3,8]",
             "%z = slice(%x) {axis = 2, begin = 0, end = 4, step = 1} : bf16[2,3,4]\n"  // a piece that is one
             "  %a = add(%z, %z) : bf16[2,3,4]\n  %y = concat(%a, %z) {axis = 2} : bf16[2,3,8]",
             "%s = slice(%x) {axis = 2, begin = 0, end = 2, step = 1} : bf16[2,3,2]\n"  // not equally wide
             "  %l = slice(%x) {axis = 2, begin = 2, end = 8, step = 1} : bf16[2,3,6]\n"
             "  %a = add(%s, %s) : bf16[2,3,2]\n  %b = add(%l, %l) : bf16[2,3,6]\n"
             "  %y = concat(%a, %b) {axis = 2} : bf16[2,3,8]",
             "%s = slice(%x) {axis = 0, begin = 0, end = 1, step = 1} : bf16[1,3,8]\n"  // one above the other
             "  %a = add(%s, %s) : bf16[1,3,8]\n  %b = mul(%s, %s) : bf16[1,3,8]\n"
             "  %y = concat(%a, %b) {axis = 0} : bf16[2,3,8]",
         })
        expect_unchanged(quantising(made, both, results));
}

TEST(QuantiseInKernels, ScalesThatFollowFromTheTensorStayCalls) {
    for (
        const char* op :
        {R"(%s, %i, %q = fp8_quantise_current(%y) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[2,3,8])",
         R"(%s, %q = fp8_quantise_blocks(%y) {blocks = "rows_of_128", copies = "plain", dtype = e4m3} : f32[6,1], e4m3[2,3,8])"})
        expect_unchanged(quantising("%y = mul(%x, %w) : bf16[2,3,8]", op, "%s, %q"));
}

// ---- the kernels that follow ----

std::string fused(const std::string& text) {
    Report report;
    return text_of(fuse(quantise_in_kernels(parse_module("module \"m\" values\n" + text), report), {}, report));
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

// A norm and what reads it: one kernel, which stores codes and maxima, and rounds to bf16 before both.
const std::string norm = R"(%wide = cast(%x) {dtype = f32} : f32[2,3,8]
  %square = mul(%wide, %wide) : f32[2,3,8]
  %sum = reduce_sum(%square) {axes = [2], keep_dims = true} : f32[2,3,1]
  %n = div(%wide, %sum) : f32[2,3,8]
  %y = cast(%n) {dtype = bf16} : bf16[2,3,8])";

TEST(QuantiseInKernels, AKernelEndsInCodes) {
    const std::string all = fused(quantising(norm, both, results));
    EXPECT_EQ(count(all, "= fused("), 1U) << all;
    EXPECT_NE(all.find(": e5m2[2,3,8], f32[2,3]"), std::string::npos) << all;
    EXPECT_NE(all.find("kind \"kernel:row_reduction\""), std::string::npos) << all;
    EXPECT_EQ(count(all, "{dtype = bf16}"), 1U) << all;  // the number that would be stored, for codes and maxima
}

// Others read it: it is stored as well, by the same kernel.
TEST(QuantiseInKernels, WhatOthersReadIsStoredAsWell) {
    const std::string all = fused(quantising(norm, both + "\n  %z = linear(%y, %m) : bf16[2,3,8]", results + ", %z"));
    EXPECT_EQ(count(all, "= fused("), 1U) << all;
    EXPECT_NE(all.find(": bf16[2,3,8], e5m2[2,3,8], f32[2,3]"), std::string::npos) << all;
}

TEST(QuantiseInKernels, PiecesSideBySideAreOneKernel) {
    const std::string all = fused(quantising(
        R"(%a = mul(%x, %w) : bf16[2,3,8]
  %b = exp(%x) : bf16[2,3,8]
  %y = concat(%a, %b) {axis = 2} : bf16[2,3,16])",
        R"(%after, %inverse, %q, %t = fp8_quantise(%scale, %amax, %y) {copies = "both", dtype = e4m3} : f32[], f32[], e4m3[2,3,16], e4m3[16,6])",
        results));
    EXPECT_EQ(count(all, "= fused("), 1U) << all;
    EXPECT_NE(all.find(": e4m3[2,3,16], f32[2,3]"), std::string::npos) << all;
}

}  // namespace quantise_in_kernels_test
}  // namespace thunderc
