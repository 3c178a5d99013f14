// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/join_pieces.h"

#include <fmt/format.h>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace join_pieces_test {

using testing::after_pass;
using testing::functions_of;
using testing::module_of;

Module joined(const std::string& text) {
    return after_pass(text, join_pieces);
}
void expect_unchanged(const std::string& text) {
    EXPECT_EQ(functions_of(joined(text)), functions_of(module_of(text)));
}

// What a loop over rows leaves: `of_row` with {0} for the number of the row, {1} and {2} for where it begins and ends.
std::string rows(const std::string& arguments, const std::string& of_row, const std::string& concat, int count = 4,
                 int width = 3) {
    std::string ops, all;
    for (int k = 0; k < count; ++k) {
        ops += fmt::format(fmt::runtime(of_row), k, width * k, width * (k + 1));
        all += fmt::format("{}%b{}", k == 0 ? "" : ", ", k);
    }
    return fmt::format("\nfunc @main({}) -> (%all) {{\n{}  %all = concat({}) {}\n}}\n", arguments, ops, all, concat);
}

TEST(JoinPieces, BagsAreOneReduction) {
    EXPECT_EQ(functions_of(joined(rows("%x: f32[12,6]",
                                       "  %s{0} = slice(%x) {{axis = 0, begin = {1}, end = {2}, step = 1}} : f32[3,6]\n"
                                       "  %b{0} = reduce_sum(%s{0}) {{axes = [0], keep_dims = true}} : f32[1,6]\n",
                                       "{axis = 0} : f32[4,6]"))),
              R"(
func @main(%x: f32[12,6]) -> (%all) {
  %reshape = reshape(%x) {dims = [4, 3, 6]} : f32[4,3,6]
  %b0 = reduce_sum(%reshape) {axes = [1], keep_dims = true} : f32[4,1,6]
  %all = reshape(%b0) {dims = [4, 6]} : f32[4,6]
}
)");
}

// Ids are taken apart first, and each bag looks up its own; a row's numbers go along.
TEST(JoinPieces, RowsOfATableByTheirIds) {
    const std::string text =
        functions_of(joined(rows("%table: f32[4,6], %ids: i64[12], %weights: f32[4,1], %shift: f32[6]",
                                 "  %s{0} = slice(%ids) {{axis = 0, begin = {1}, end = {2}, step = 1}} : i64[3]\n"
                                 "  %e{0} = gather(%table, %s{0}) {{axis = 0}} : f32[3,6]\n"
                                 "  %r{0} = reduce_mean(%e{0}) {{axes = [0], keep_dims = false}} : f32[6]\n"
                                 "  %t{0} = add(%r{0}, %shift) : f32[6]\n  %u{0} = tanh(%t{0}) : f32[6]\n"
                                 "  %b{0} = reshape(%u{0}) {{dims = [1, 6]}} : f32[1,6]\n",
                                 "{axis = 0} : f32[4,6]")));
    EXPECT_NE(text.find("gather(%table, %reshape) {axis = 0} : f32[4,3,6]"), std::string::npos) << text;
    EXPECT_NE(text.find("reduce_mean(%e0) {axes = [1], keep_dims = false} : f32[4,6]"), std::string::npos) << text;
    EXPECT_EQ(text.find("concat"), std::string::npos) << text;
}

// Side by side along another axis; an operand of fewer dimensions, broadcast within each piece.
TEST(JoinPieces, AlongAnotherAxis) {
    for (int count : {4, 7}) {
        const std::string text =
            functions_of(joined(rows(fmt::format("%x: f32[2,{0}], %w: f32[{0}]", 5 * count),
                                     "  %s{0} = slice(%x) {{axis = 1, begin = {1}, end = {2}, step = 1}} : f32[2,5]\n"
                                     "  %v{0} = slice(%w) {{axis = 0, begin = {1}, end = {2}, step = 1}} : f32[5]\n"
                                     "  %m{0} = mul(%s{0}, %v{0}) : f32[2,5]\n"
                                     "  %b{0} = reduce_max(%m{0}) {{axes = [-1], keep_dims = true}} : f32[2,1]\n",
                                     fmt::format("{{axis = 1}} : f32[2,{}]", count), count, 5)));
        EXPECT_EQ(text.find("concat"), std::string::npos) << text;
        EXPECT_EQ(text.find("slice"), std::string::npos) << text;
    }
}

// The last one is written in another way: the others are one, and it stays beside them.
TEST(JoinPieces, AllButTheLast) {
    const std::string text = functions_of(joined(R"(
func @main(%x: f32[10,6]) -> (%all) {
  %s0 = slice(%x) {axis = 0, begin = 0, end = 2, step = 1} : f32[2,6]
  %b0 = reduce_mean(%s0) {axes = [0], keep_dims = true} : f32[1,6]
  %s1 = slice(%x) {axis = 0, begin = 2, end = 4, step = 1} : f32[2,6]
  %b1 = reduce_mean(%s1) {axes = [0], keep_dims = true} : f32[1,6]
  %s2 = slice(%x) {axis = 0, begin = 4, end = 6, step = 1} : f32[2,6]
  %b2 = reduce_mean(%s2) {axes = [0], keep_dims = true} : f32[1,6]
  %s3 = slice(%x) {axis = 0, begin = 6, end = 8, step = 1} : f32[2,6]
  %b3 = reduce_mean(%s3) {axes = [0], keep_dims = true} : f32[1,6]
  %s4 = slice(%x) {axis = 0, begin = 8, end = 10, step = 1} : f32[2,6]
  %b4 = reduce_sum(%s4) {axes = [0], keep_dims = true} : f32[1,6]
  %all = concat(%b0, %b1, %b2, %b3, %b4) {axis = 0} : f32[5,6]
}
)"));
    EXPECT_NE(text.find("slice(%x) {axis = 0, begin = 0, end = 8, step = 1} : f32[8,6]"), std::string::npos) << text;
    EXPECT_NE(text.find(", %b4) {axis = 0} : f32[5,6]"), std::string::npos) << text;
}

// ---- what must stay -------------------------------------------------------------------------------------------------

const std::string slice = "  %s{0} = slice(%x) {{axis = 0, begin = {1}, end = {2}, step = 1}} : f32[3,6]\n";

TEST(JoinPieces, ThreeStay) {
    expect_unchanged(rows("%x: f32[12,6]",
                          slice + "  %b{0} = reduce_sum(%s{0}) {{axes = [0], keep_dims = true}} : f32[1,6]\n",
                          "{axis = 0} : f32[3,6]", 3));
}

// Each product would be one of a batch of products.
TEST(JoinPieces, OtherOpsStay) {
    expect_unchanged(
        rows("%x: f32[12,6], %w: f32[2,3]",
             slice + "  %b{0} = matmul(%w, %s{0}) {{transpose_a = false, transpose_b = false}} : f32[2,6]\n",
             "{axis = 0} : f32[8,6]"));
}

// What one row gives goes into the next.
TEST(JoinPieces, RowsThatDependOnOneAnotherStay) {
    expect_unchanged(R"(
func @main(%x: f32[4,6], %b: f32[1,6]) -> (%all) {
  %s0 = slice(%x) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,6]
  %b0 = add(%s0, %b) : f32[1,6]
  %s1 = slice(%x) {axis = 0, begin = 1, end = 2, step = 1} : f32[1,6]
  %b1 = add(%s1, %b0) : f32[1,6]
  %s2 = slice(%x) {axis = 0, begin = 2, end = 3, step = 1} : f32[1,6]
  %b2 = add(%s2, %b1) : f32[1,6]
  %s3 = slice(%x) {axis = 0, begin = 3, end = 4, step = 1} : f32[1,6]
  %b3 = add(%s3, %b2) : f32[1,6]
  %all = concat(%b0, %b1, %b2, %b3) {axis = 0} : f32[4,6]
}
)");
}

// One of them is seen with other dimensions, and is broadcast the other way.
TEST(JoinPieces, PiecesOfOtherDimensionsStay) {
    std::string ops;
    for (int k = 0; k < 4; ++k)
        ops += fmt::format(
            "  %s{0} = slice(%x) {{axis = 0, begin = {0}, end = {1}, step = 1}} : f32[1,2]\n"
            "  %r{0} = reshape(%s{0}) {{dims = [{2}]}} : f32[{3}]\n  %b{0} = mul(%r{0}, %t) : f32[2,2]\n",
            k, k + 1, k == 1 ? "1, 2" : "2, 1", k == 1 ? "1,2" : "2,1");
    expect_unchanged("\nfunc @main(%x: f32[4,2], %t: f32[2,2]) -> (%all) {\n" + ops +
                     "  %all = concat(%b0, %b1, %b2, %b3) {axis = 0} : f32[8,2]\n}\n");
}

// A value that is read twice is built once, however often that goes on.
TEST(JoinPieces, WhatIsReadTwiceIsBuiltOnce) {
    std::string of_row = "  %s{0} = slice(%x) {{axis = 0, begin = {1}, end = {2}, step = 1}} : f32[1,2]\n";
    std::string last = "s";
    for (int k = 0; k < 14; ++k) {
        const std::string next = k == 13 ? "b" : fmt::format("y{}_", k);
        of_row += fmt::format("  %{0}{{0}} = mul(%{1}{{0}}, %{1}{{0}}) : f32[1,2]\n", next, last);
        last = next;
    }
    const Module m = joined(rows("%x: f32[4,2]", of_row, "{axis = 0} : f32[4,2]", 4, 1));
    std::size_t products = 0;
    for (const Op& op : m.main().ops) products += op.name == "mul" ? 1 : 0;
    EXPECT_EQ(products, 14u);
}

TEST(JoinPieces, PiecesThatOverlapStay) {
    expect_unchanged(R"(
func @main(%x: f32[12,6]) -> (%all) {
  %s0 = slice(%x) {axis = 0, begin = 0, end = 3, step = 1} : f32[3,6]
  %b0 = reduce_sum(%s0) {axes = [0], keep_dims = true} : f32[1,6]
  %s1 = slice(%x) {axis = 0, begin = 2, end = 5, step = 1} : f32[3,6]
  %b1 = reduce_sum(%s1) {axes = [0], keep_dims = true} : f32[1,6]
  %s2 = slice(%x) {axis = 0, begin = 4, end = 7, step = 1} : f32[3,6]
  %b2 = reduce_sum(%s2) {axes = [0], keep_dims = true} : f32[1,6]
  %s3 = slice(%x) {axis = 0, begin = 6, end = 9, step = 1} : f32[3,6]
  %b3 = reduce_sum(%s3) {axes = [0], keep_dims = true} : f32[1,6]
  %all = concat(%b0, %b1, %b2, %b3) {axis = 0} : f32[4,6]
}
)");
}

}  // namespace join_pieces_test
}  // namespace thunderc
