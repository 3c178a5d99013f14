// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/simplify.h"

#include <sstream>
#include <tuple>

#include "compiler/analysis/batch_share.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace simplify_test {

std::string simplified(std::string_view text) {
    return after_pass(simplify, text);
}

TEST(Simplify, NeutralElementsGo) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[2,3] input "x", %p: bool[2] input "p") -> (%e, %n, %h) {
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %one = constant() {value = <f32[3] splat 1.0>} : f32[3]
  %a = add(%zero, %x) : f32[2,3]
  %b = mul(%a, %one) : f32[2,3]
  %c = sub(%b, %zero) : f32[2,3]
  %d = div(%c, %one) : f32[2,3]
  %d2 = cast(%d) {dtype = f32} : f32[2,3]
  %m = neg(%d2) : f32[2,3]
  %e = neg(%m) : f32[2,3]
  %t = constant() {value = <bool[] splat 1.0>} : bool[]
  %f = and(%t, %p) : bool[2]
  %g = not(%f) : bool[2]
  %n = not(%g) : bool[2]
  %h = exp(%x) : f32[2,3]
}
)"),
              text(R"(
func @main(%x: f32[2,3] input "x", %p: bool[2] input "p") -> (%x, %p, %h) {
  %h = exp(%x) : f32[2,3]
}
)"));
}

TEST(Simplify, NeutralElementsThatChangeTheShapeStay) {
    constexpr const char* ir = R"(
func @main(%x: f32[3] input "x") -> (%a, %b) {
  %zero = constant() {value = <f32[2,3] splat 0.0>} : f32[2,3]
  %a = add(%x, %zero) : f32[2,3]
  %b = sub(%zero, %x) : f32[2,3]
}
)";
    EXPECT_EQ(simplified(ir), text(ir));
}

TEST(Simplify, ViewsOfViews) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[2,4,3,8] input "x") -> (%b, %d, %f, %h, %j) {
  %a = transpose(%x) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
  %b = transpose(%a) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %c = reshape(%x) {dims = [8, 3, 8]} : f32[8,3,8]
  %d = reshape(%c) {dims = [2, 4, 24]} : f32[2,4,24]
  %e = transpose(%x) {permutation = [1, 0, 2, 3]} : f32[4,2,3,8]
  %f = transpose(%e) {permutation = [0, 1, 3, 2]} : f32[4,2,8,3]
  %g = slice(%x) {axis = 3, begin = 2, end = 8, step = 1} : f32[2,4,3,6]
  %h = slice(%g) {axis = -1, begin = 1, end = 5, step = 2} : f32[2,4,3,2]
  %i = slice(%x) {axis = 0, begin = 0, end = 2, step = 1} : f32[2,4,3,8]
  %j = exp(%i) : f32[2,4,3,8]
}
)"),
              text(R"(
func @main(%x: f32[2,4,3,8] input "x") -> (%x, %d, %f, %h, %j) {
  %d = reshape(%x) {dims = [2, 4, 24]} : f32[2,4,24]
  %f = transpose(%x) {permutation = [1, 0, 3, 2]} : f32[4,2,8,3]
  %h = slice(%x) {axis = 3, begin = 3, end = 7, step = 2} : f32[2,4,3,2]
  %j = exp(%x) : f32[2,4,3,8]
}
)"));
}

TEST(Simplify, ATransposeOfOneElementDimensionsIsAReshape) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[2,1,3,8] input "x") -> (%b) {
  %a = transpose(%x) {permutation = [0, 2, 1, 3]} : f32[2,3,1,8]
  %b = reshape(%a) {dims = [6, 8]} : f32[6,8]
}
)"),
              text(R"(
func @main(%x: f32[2,1,3,8] input "x") -> (%b) {
  %b = reshape(%x) {dims = [6, 8]} : f32[6,8]
}
)"));
}

// A slice has a gradient in all of its rows, a table has none in the one that pads.
TEST(Simplify, RowsOfATableThatPadAreNoSlice) {
    const auto taken = [](const std::string& ids, const std::string& padding) {
        const std::string dims = std::to_string(std::count(ids.begin(), ids.end(), ',') + 1);
        return simplified("\nfunc @main(%w: f32[5,2] parameter \"w\") -> (%y) {\n  %ids = constant() {value = <i64[" +
                          dims + "] dense [" + ids + "]>} : i64[" + dims + "]\n  %y = gather(%w, %ids) {axis = 0" +
                          padding + "} : f32[" + dims + ",2]\n}\n");
    };
    const auto is_gather = [](const std::string& text) { return text.find("gather(") != std::string::npos; };
    for (const char* ids : {"0, 1, 2", "0, 1, 2, 3, 4", "-5, -4", "2", "0, 0, 0", "3, -2"}) {
        EXPECT_FALSE(is_gather(taken(ids, ""))) << ids;
        for (int padding = 0; padding < 5; ++padding) {
            const std::string text = taken(ids, ", padding_idx = " + std::to_string(padding));
            std::istringstream numbers(ids);
            bool pads = false;
            for (std::string number; std::getline(numbers, number, ',');)
                pads = pads || (std::stoi(number) + 5) % 5 == padding;
            EXPECT_EQ(is_gather(text), pads) << ids << " " << padding;
            EXPECT_EQ(text.find("padding_idx") != std::string::npos, pads) << ids << " " << padding;
        }
    }
}

// BERT's token types, all 0: what such a row has to do with the batch is seen, and its gradient is a sum.
TEST(Simplify, TheSameRowOfATableEachTime) {
    EXPECT_EQ(simplified(R"(
func @main(%w: f32[3,5,4] parameter "w", %x: f32[3,2,6,4] input "x") -> (%y) {
  %ids = constant() {value = <i64[2,6] splat 2.0>} : i64[2,6]
  %g = gather(%w, %ids) {axis = 1} : f32[3,2,6,4]
  %y = add(%x, %g) : f32[3,2,6,4]
}
)"),
              text(R"(
func @main(%w: f32[3,5,4] parameter "w", %x: f32[3,2,6,4] input "x") -> (%y) {
  %g = slice(%w) {axis = 1, begin = 2, end = 3, step = 1} : f32[3,1,4]
  %g_1 = reshape(%g) {dims = [3, 1, 1, 4]} : f32[3,1,1,4]
  %y = add(%x, %g_1) : f32[3,2,6,4]
}
)"));
    // Rows that are neither the same nor side by side stay looked up.
    for (const char* ids : {"0, 0, 1", "1, 0, 0", "0, 2, 4"})
        EXPECT_NE(
            simplified(std::string("\nfunc @main(%w: f32[5,2] parameter \"w\") -> (%y) {\n  %ids = constant() {value = "
                                   "<i64[3] dense [") +
                       ids + "]>} : i64[3]\n  %y = gather(%w, %ids) {axis = 0} : f32[3,2]\n}\n")
                .find("gather("),
            std::string::npos)
            << ids;
}

// Where the loss is still to be found, what is known of the rows of a batch is kept, whatever looks shorter.
TEST(Simplify, TheRowsOfABatchOfOneStayKnown) {
    const auto share = [](const Module& m) {
        const BatchShare s = batch_shares(m.main())[m.main().results[0].index];
        return std::tuple(s.kind, s.axis, s.outer);
    };
    const struct {
        const char* ops;
        std::size_t model, otherwise;  // how many ops are left
    } cases[] = {
        {"%y = transpose(%x) {permutation = [1, 0, 2, 3]} : f32[3,1,1,4]", 1, 1},
        {"%y = transpose(%x) {permutation = [0, 2, 1, 3]} : f32[1,1,3,4]", 1, 1},  // a reshape
        {"%t = transpose(%x) {permutation = [1, 0, 2, 3]} : f32[3,1,1,4]\n"
         "%y = reduce_sum(%t) {axes = [0], keep_dims = false} : f32[1,1,4]",
         2, 2},
        {"%s = slice(%x) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,3,1,4]\n%y = neg(%s) : f32[1,3,1,4]", 2, 1},
        {"%s = slice(%x) {axis = 2, begin = 0, end = 1, step = 1} : f32[1,3,1,4]\n%y = neg(%s) : f32[1,3,1,4]", 1, 1},
        {"%f = reshape(%x) {dims = [3, 4]} : f32[3,4]\n%y = reshape(%f) {dims = [1, 3, 2, 2]} : f32[1,3,2,2]", 1, 1},
    };
    for (const auto& c : cases) {
        const std::string ir = c.ops;
        const std::size_t type = ir.rfind(" : ");
        const Module module = parse_module(
            "module \"m\" values\nfunc @main(%x: f32[1,3,1,4] input \"x\" {batched}) -> (%y) {\n" + ir + "\n}\n");
        verify(module);
        Report report;
        const Module out = simplify_model(module, report), shorter = simplify(module, report);
        verify(out);
        expect_same_values(module, out);
        EXPECT_EQ(share(out), share(module)) << ir.substr(0, type);
        EXPECT_EQ(out.main().ops.size(), c.model) << ir;
        EXPECT_EQ(shorter.main().ops.size(), c.otherwise) << ir;
    }
    // Of a larger batch nothing looks alike.
    const std::string two =
        "\nfunc @main(%x: f32[2,1,3] input \"x\" {batched}) -> (%y) {\n  %y = transpose(%x) {permutation = [1, 0, 2]} "
        ": "
        "f32[1,2,3]\n}\n";
    Report report;
    EXPECT_EQ(after_pass(simplify_model, two, report), simplified(two));
}

TEST(Simplify, ElementwiseOpsBroadcastByThemselves) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[3] input "x", %y: f32[2,3] input "y") -> (%a, %c) {
  %b = broadcast_to(%x) {dims = [2, 3]} : f32[2,3]
  %a = mul(%b, %y) : f32[2,3]
  %c = mul(%b, %x) : f32[2,3]
}
)"),
              text(R"(
func @main(%x: f32[3] input "x", %y: f32[2,3] input "y") -> (%a, %c) {
  %b = broadcast_to(%x) {dims = [2, 3]} : f32[2,3]
  %a = mul(%x, %y) : f32[2,3]
  %c = mul(%b, %x) : f32[2,3]
}
)"));
}

TEST(Simplify, SlicesOfAConcatenationAndBack) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[2,3] input "x", %y: f32[2,5] input "y") -> (%b, %e, %g) {
  %a = concat(%x, %y) {axis = 1} : f32[2,8]
  %b = slice(%a) {axis = 1, begin = 3, end = 8, step = 1} : f32[2,5]
  %c = slice(%y) {axis = 1, begin = 0, end = 2, step = 1} : f32[2,2]
  %d = slice(%y) {axis = 1, begin = 2, end = 5, step = 1} : f32[2,3]
  %e = concat(%c, %d) {axis = -1} : f32[2,5]
  %g = concat(%d, %c) {axis = -1} : f32[2,5]
}
)"),
              text(R"(
func @main(%x: f32[2,3] input "x", %y: f32[2,5] input "y") -> (%y, %y, %g) {
  %c = slice(%y) {axis = 1, begin = 0, end = 2, step = 1} : f32[2,2]
  %d = slice(%y) {axis = 1, begin = 2, end = 5, step = 1} : f32[2,3]
  %g = concat(%d, %c) {axis = -1} : f32[2,5]
}
)"));
}

TEST(Simplify, MembersOfAFamilyAndBack) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[3] input "x", %w: 2 x f32[3] parameter "w.{0..1}") -> (%b, %all, %turned, %some) {
  %y = exp(%x) : f32[3]
  %f = family(%x, %y) : 2 x f32[3]
  %a = member(%f) {index = 1} : f32[3]
  %b = neg(%a) : f32[3]
  %w0 = member(%w) {index = 0} : f32[3]
  %w1 = member(%w) {index = 1} : f32[3]
  %all = family(%w0, %w1) : 2 x f32[3]
  %turned = family(%w1, %w0) : 2 x f32[3]
  %some = family(%w0) : 1 x f32[3]
}
)"),
              text(R"(
func @main(%x: f32[3] input "x", %w: 2 x f32[3] parameter "w.{0..1}") -> (%b, %w, %turned, %some) {
  %y = exp(%x) : f32[3]
  %b = neg(%y) : f32[3]
  %w0 = member(%w) {index = 0} : f32[3]
  %w1 = member(%w) {index = 1} : f32[3]
  %turned = family(%w1, %w0) : 2 x f32[3]
  %some = family(%w0) : 1 x f32[3]
}
)"));
}

TEST(Simplify, EqualOpsAreComputedOnce) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[3] input "x") -> (%c, %f) {
  %a = constant() {value = <f32[3] dense [1.0, 2.5, 7.0]>} : f32[3]
  %b = constant() {value = <f32[3] dense [1.0, 2.5, 7.0]>} : f32[3]
  %c = mul(%x, %a) : f32[3]
  %d = mul(%x, %b) : f32[3]
  %e = constant() {value = <f32[3] dense [1.0, 2.5, 7.5]>} : f32[3]
  %g = mul(%d, %e) : f32[3]
  %f = add(%c, %g) : f32[3]
}
)"),
              text(R"(
func @main(%x: f32[3] input "x") -> (%c, %f) {
  %a = constant() {value = <f32[3] dense [1.0, 2.5, 7.0]>} : f32[3]
  %c = mul(%x, %a) : f32[3]
  %e = constant() {value = <f32[3] dense [1.0, 2.5, 7.5]>} : f32[3]
  %g = mul(%c, %e) : f32[3]
  %f = add(%c, %g) : f32[3]
}
)"));
}

TEST(Simplify, WhatNothingReadsGoes) {
    EXPECT_EQ(simplified(R"(
func @main(%x: f32[3] input "x") -> (%b) {
  %a = exp(%x) : f32[3]
  %b = call(%x) {callee = "used"} : f32[3]
}

func @used(%x: f32[3]) -> (%x) {
}

func @unused(%x: f32[3]) -> (%y) {
  %y = call(%x) {callee = "used"} : f32[3]
}
)"),
              text(R"(
func @main(%x: f32[3] input "x") -> (%b) {
  %b = call(%x) {callee = "used"} : f32[3]
}

func @used(%x: f32[3]) -> (%x) {
}
)"));
}

TEST(Simplify, NarrowingCastsStay) {
    constexpr const char* ir = R"(
func @main(%x: f32[3] input "x") -> (%b) {
  %a = cast(%x) {dtype = bf16} : bf16[3]
  %b = cast(%a) {dtype = f32} : f32[3]
}
)";
    EXPECT_EQ(simplified(ir), text(ir));
    EXPECT_EQ(simplified(R"(
func @main(%x: bf16[3] input "x") -> (%b) {
  %a = cast(%x) {dtype = f32} : f32[3]
  %b = cast(%a) {dtype = bf16} : bf16[3]
}
)"),
              text(R"(
func @main(%x: bf16[3] input "x") -> (%x) {
}
)"));
}

TEST(Simplify, IsDoneAfterOneRun) {
    constexpr const char* ir = R"(
func @main(%x: f32[2,4,3,8] input "x") -> (%e) {
  %a = transpose(%x) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
  %b = reshape(%a) {dims = [2, 3, 32]} : f32[2,3,32]
  %c = reshape(%b) {dims = [2, 3, 4, 8]} : f32[2,3,4,8]
  %d = transpose(%c) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %e = reshape(%d) {dims = [8, 24]} : f32[8,24]
}
)";
    Report first, second;
    Module m = simplify(parse_module(std::string("module \"m\" values\n") + ir), first);
    const std::string once = to_string(m);
    EXPECT_EQ(to_string(simplify(m, second)), once);
    EXPECT_EQ(m.main().ops.size(), 1u);
    EXPECT_TRUE(second.notes.empty());
}

}  // namespace simplify_test
}  // namespace thunderc
