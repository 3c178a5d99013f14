// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_rotary.h"

#include "compiler/passes/simplify/simplify.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_rotary_test {

Module raise_and_simplify(Module module, Report& report) {
    Report ignored;
    return simplify(raise_rotary(std::move(module), report), ignored);
}

// As all exporters write Llama's: on (B,NH,T,HS), between the transposes of the projection and of the attention.
TEST(RaiseRotary, HeadsBeforePositions) {
    Report report;
    EXPECT_EQ(after_pass(raise_and_simplify, R"(
func @main(%q: f32[2,3,2,4] input "q", %cos: f32[1,1,3,4] constant "cos", %sin: f32[1,1,3,4] constant "sin") -> (%z) {
  %x = transpose(%q) {permutation = [0, 2, 1, 3]} : f32[2,2,3,4]
  %a = mul(%x, %cos) : f32[2,2,3,4] at "layers.0.self_attn" [Mul "m"]
  %x1 = slice(%x) {axis = 3, begin = 0, end = 2, step = 1} : f32[2,2,3,2] at "layers.0.self_attn" [Slice "s1"]
  %x2 = slice(%x) {axis = 3, begin = 2, end = 4, step = 1} : f32[2,2,3,2] at "layers.0.self_attn" [Slice "s2"]
  %n = neg(%x2) : f32[2,2,3,2] at "layers.0.self_attn" [Neg "n"]
  %r = concat(%n, %x1) {axis = -1} : f32[2,2,3,4] at "layers.0.self_attn" [Concat "c"]
  %b = mul(%r, %sin) : f32[2,2,3,4] at "layers.0.self_attn" [Mul "m2"]
  %y = add(%a, %b) : f32[2,2,3,4] at "layers.0.self_attn" [Add "a"]
  %z = transpose(%y) {permutation = [0, 2, 1, 3]} : f32[2,3,2,4]
}
)",
                         report),
              text(R"(
func @main(%q: f32[2,3,2,4] input "q", %cos: f32[1,1,3,4] constant "cos", %sin: f32[1,1,3,4] constant "sin") -> (%rotary) {
  %reshape = reshape(%cos) {dims = [1, 3, 4]} : f32[1,3,4]
  %reshape_1 = reshape(%sin) {dims = [1, 3, 4]} : f32[1,3,4]
  %rotary = rotary(%q, %reshape, %reshape_1) : f32[2,3,2,4]
}
)"));
    EXPECT_EQ(notes(report), "done rotary at layers.0.self_attn: from Mul, Slice, Slice, Neg, Concat, Mul, Add\n");
}

// Complex numbers that are multiplied, as Meta's Llama has them: pairs of neighbours.
const char* const complex_product = R"(
func @main(%q: f32[2,3,2,4] input "q", %cos: f32[1,3,1,2] constant "cos", %sin: f32[1,3,1,2] constant "sin") -> (%z) {
  %x = reshape(%q) {dims = [2, 3, 2, 2, 2]} : f32[2,3,2,2,2]
  %s0 = slice(%x) {axis = 4, begin = 0, end = 1, step = 1} : f32[2,3,2,2,1]
  %re = reshape(%s0) {dims = [2, 3, 2, 2]} : f32[2,3,2,2]
  %s1 = slice(%x) {axis = 4, begin = 1, end = 2, step = 1} : f32[2,3,2,2,1]
  %im = reshape(%s1) {dims = [2, 3, 2, 2]} : f32[2,3,2,2]
  %a = mul(%re, %cos) : f32[2,3,2,2]
  %b = mul(%im, %sin) : f32[2,3,2,2]
  %c = sub(%a, %b) : f32[2,3,2,2]
  %d = mul(%re, %sin) : f32[2,3,2,2]
  %e = mul(%im, %cos) : f32[2,3,2,2]
  %f = add(%e, %d) : f32[2,3,2,2]
  %c1 = reshape(%c) {dims = [2, 3, 2, 2, 1]} : f32[2,3,2,2,1]
  %f1 = reshape(%f) {dims = [2, 3, 2, 2, 1]} : f32[2,3,2,2,1]
  %y = concat(%c1, %f1) {axis = 4} : f32[2,3,2,2,2]
  %z = reshape(%y) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
}
)";

TEST(RaiseRotary, ProductOfComplexNumbers) {
    EXPECT_EQ(after_pass(raise_and_simplify, complex_product), text(R"(
func @main(%q: f32[2,3,2,4] input "q", %cos: f32[1,3,1,2] constant "cos", %sin: f32[1,3,1,2] constant "sin") -> (%rotary) {
  %reshape = reshape(%cos) {dims = [1, 3, 2, 1]} : f32[1,3,2,1]
  %broadcast_to = broadcast_to(%reshape) {dims = [1, 3, 2, 2]} : f32[1,3,2,2]
  %reshape_1 = reshape(%broadcast_to) {dims = [1, 3, 4]} : f32[1,3,4]
  %reshape_2 = reshape(%sin) {dims = [1, 3, 2, 1]} : f32[1,3,2,1]
  %broadcast_to_1 = broadcast_to(%reshape_2) {dims = [1, 3, 2, 2]} : f32[1,3,2,2]
  %reshape_3 = reshape(%broadcast_to_1) {dims = [1, 3, 4]} : f32[1,3,4]
  %rotary = rotary(%q, %reshape_1, %reshape_3) {style = "interleaved"} : f32[2,3,2,4]
}
)"));
}

// With a conjugate, with another table, or with a row for each head it is another rotation, or none.
TEST(RaiseRotary, OtherProductsOfComplexNumbersStay) {
    const std::pair<const char*, const char*> changes[] = {
        {"%c = sub(%a, %b)", "%c = add(%a, %b)"}, {"%f = add(%e, %d)", "%f = sub(%e, %d)"},
        {"%c = sub(%a, %b)", "%c = sub(%b, %a)"}, {"%d = mul(%re, %sin)", "%d = mul(%re, %cos)"},
        {"concat(%c1, %f1)", "concat(%f1, %c1)"}, {"%e = mul(%im, %cos)", "%e = mul(%re, %cos)"},
    };
    for (const auto& [from, to] : changes) {
        std::string changed = complex_product;
        changed.replace(changed.find(from), std::string(from).size(), to);
        EXPECT_EQ(after_pass(raise_and_simplify, changed).find("rotary"), std::string::npos) << to;
    }
    std::string heads = complex_product;
    for (std::size_t at = heads.find("f32[1,3,1,2]"); at != std::string::npos; at = heads.find("f32[1,3,1,2]"))
        heads.replace(at, 12, "f32[1,3,2,2]");
    EXPECT_EQ(after_pass(raise_and_simplify, heads).find("rotary"), std::string::npos);
}

TEST(RaiseRotary, PositionsBeforeHeadsAndFactorsSwapped) {
    EXPECT_EQ(after_pass(raise_and_simplify, R"(
func @main(%x: f32[2,3,2,4] input "x", %cos: f32[2,3,1,4] constant "cos", %sin: f32[2,3,1,4] constant "sin") -> (%y) {
  %x1 = slice(%x) {axis = 3, begin = 0, end = 2, step = 1} : f32[2,3,2,2]
  %x2 = slice(%x) {axis = 3, begin = 2, end = 4, step = 1} : f32[2,3,2,2]
  %n = neg(%x2) : f32[2,3,2,2]
  %r = concat(%n, %x1) {axis = 3} : f32[2,3,2,4]
  %b = mul(%sin, %r) : f32[2,3,2,4]
  %a = mul(%cos, %x) : f32[2,3,2,4]
  %y = add(%b, %a) : f32[2,3,2,4]
}
)"),
              text(R"(
func @main(%x: f32[2,3,2,4] input "x", %cos: f32[2,3,1,4] constant "cos", %sin: f32[2,3,1,4] constant "sin") -> (%rotary) {
  %reshape = reshape(%cos) {dims = [2, 3, 4]} : f32[2,3,4]
  %reshape_1 = reshape(%sin) {dims = [2, 3, 4]} : f32[2,3,4]
  %rotary = rotary(%x, %reshape, %reshape_1) : f32[2,3,2,4]
}
)"));
}

// Falcon repeats the key heads before it rotates them; one of each group is enough.
TEST(RaiseRotary, RepeatedHeadsAreRotatedOnce) {
    EXPECT_EQ(after_pass(raise_and_simplify, R"(
func @main(%k: f32[2,3,2,1,4] input "k", %cos: f32[1,1,3,4] constant "cos", %sin: f32[1,1,3,4] constant "sin") -> (%y) {
  %e = broadcast_to(%k) {dims = [2, 3, 2, 3, 4]} : f32[2,3,2,3,4]
  %f = reshape(%e) {dims = [2, 3, 6, 4]} : f32[2,3,6,4]
  %x = transpose(%f) {permutation = [0, 2, 1, 3]} : f32[2,6,3,4]
  %a = mul(%x, %cos) : f32[2,6,3,4]
  %x1 = slice(%x) {axis = 3, begin = 0, end = 2, step = 1} : f32[2,6,3,2]
  %x2 = slice(%x) {axis = 3, begin = 2, end = 4, step = 1} : f32[2,6,3,2]
  %n = neg(%x2) : f32[2,6,3,2]
  %r = concat(%n, %x1) {axis = 3} : f32[2,6,3,4]
  %b = mul(%r, %sin) : f32[2,6,3,4]
  %y = add(%a, %b) : f32[2,6,3,4]
}
)"),
              text(R"(
func @main(%k: f32[2,3,2,1,4] input "k", %cos: f32[1,1,3,4] constant "cos", %sin: f32[1,1,3,4] constant "sin") -> (%transpose) {
  %reshape = reshape(%k) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
  %reshape_1 = reshape(%cos) {dims = [1, 3, 4]} : f32[1,3,4]
  %reshape_2 = reshape(%sin) {dims = [1, 3, 4]} : f32[1,3,4]
  %rotary = rotary(%reshape, %reshape_1, %reshape_2) : f32[2,3,2,4]
  %reshape_3 = reshape(%rotary) {dims = [2, 3, 2, 1, 4]} : f32[2,3,2,1,4]
  %broadcast_to = broadcast_to(%reshape_3) {dims = [2, 3, 2, 3, 4]} : f32[2,3,2,3,4]
  %reshape_4 = reshape(%broadcast_to) {dims = [2, 3, 6, 4]} : f32[2,3,6,4]
  %transpose = transpose(%reshape_4) {permutation = [0, 2, 1, 3]} : f32[2,6,3,4]
}
)"));
}

TEST(RaiseRotary, AQuarterOfTheDimensions) {
    EXPECT_EQ(after_pass(raise_and_simplify, R"(
func @main(%x: f32[2,3,2,8] input "x", %cos: f32[1,3,1,2] constant "cos", %sin: f32[1,3,1,2] constant "sin") -> (%y) {
  %t = slice(%x) {axis = 3, begin = 0, end = 2, step = 1} : f32[2,3,2,2]
  %p = slice(%x) {axis = 3, begin = 2, end = 8, step = 1} : f32[2,3,2,6]
  %a = mul(%t, %cos) : f32[2,3,2,2]
  %x1 = slice(%t) {axis = 3, begin = 0, end = 1, step = 1} : f32[2,3,2,1]
  %x2 = slice(%t) {axis = 3, begin = 1, end = 2, step = 1} : f32[2,3,2,1]
  %n = neg(%x2) : f32[2,3,2,1]
  %r = concat(%n, %x1) {axis = 3} : f32[2,3,2,2]
  %b = mul(%r, %sin) : f32[2,3,2,2]
  %s = add(%a, %b) : f32[2,3,2,2]
  %y = concat(%s, %p) {axis = 3} : f32[2,3,2,8]
}
)"),
              text(R"(
func @main(%x: f32[2,3,2,8] input "x", %cos: f32[1,3,1,2] constant "cos", %sin: f32[1,3,1,2] constant "sin") -> (%rotary) {
  %reshape = reshape(%cos) {dims = [1, 3, 2]} : f32[1,3,2]
  %reshape_1 = reshape(%sin) {dims = [1, 3, 2]} : f32[1,3,2]
  %rotary = rotary(%x, %reshape, %reshape_1) : f32[2,3,2,8]
}
)"));
}

TEST(RaiseRotary, TablesThatAreNoRowsOfPositionsAreSaid) {
    Report report;
    constexpr const char* ir = R"(
func @main(%x: f32[2,2,3,4] input "x", %cos: f32[1,2,3,4] constant "cos", %sin: f32[1,2,3,4] constant "sin") -> (%y) {
  %a = mul(%x, %cos) : f32[2,2,3,4]
  %x1 = slice(%x) {axis = 3, begin = 0, end = 2, step = 1} : f32[2,2,3,2]
  %x2 = slice(%x) {axis = 3, begin = 2, end = 4, step = 1} : f32[2,2,3,2]
  %n = neg(%x2) : f32[2,2,3,2]
  %r = concat(%n, %x1) {axis = 3} : f32[2,2,3,4]
  %b = mul(%r, %sin) : f32[2,2,3,4]
  %y = add(%a, %b) : f32[2,2,3,4] at "attn" [Add "a"]
}
)";
    EXPECT_EQ(after_pass(raise_rotary, ir, report), text(ir));
    EXPECT_EQ(notes(report),
              "declined rotary at attn: the tables are f32[1,2,3,4] for f32[2,2,3,4], not one row for each position\n");
}

// Halves in the other order rotate the other way.
TEST(RaiseRotary, TheOtherHalfNegatedStays) {
    constexpr const char* ir = R"(
func @main(%x: f32[2,3,2,4] input "x", %cos: f32[1,3,1,4] constant "cos", %sin: f32[1,3,1,4] constant "sin") -> (%y) {
  %a = mul(%x, %cos) : f32[2,3,2,4]
  %x1 = slice(%x) {axis = 3, begin = 0, end = 2, step = 1} : f32[2,3,2,2]
  %x2 = slice(%x) {axis = 3, begin = 2, end = 4, step = 1} : f32[2,3,2,2]
  %n = neg(%x1) : f32[2,3,2,2]
  %r = concat(%n, %x2) {axis = 3} : f32[2,3,2,4]
  %b = mul(%r, %sin) : f32[2,3,2,4]
  %y = add(%a, %b) : f32[2,3,2,4]
}
)";
    EXPECT_EQ(after_pass(raise_rotary, ir), text(ir));
}

}  // namespace raise_rotary_test
}  // namespace thunderc
