// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/keep_rotated.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace keep_rotated_test {

using testing::after_pass;
using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

std::string layer(const std::string& ops, const std::string& results = "%y") {
    return R"(
func @main(%x: f32[2,3,8], %w: f32[16,8], %cos: f32[1,3,4], %sin: f32[1,3,4]) -> ()" +
           results + ") {\n" + ops + "}\n";
}

// Two query heads, one of keys and one of values.
const std::string pieces = R"(  %qkv = linear(%x, %w) : f32[2,3,16]
  %q = slice(%qkv) {axis = 2, begin = 0, end = 8, step = 1} : f32[2,3,8]
  %k = slice(%qkv) {axis = 2, begin = 8, end = 12, step = 1} : f32[2,3,4]
  %v = slice(%qkv) {axis = 2, begin = 12, end = 16, step = 1} : f32[2,3,4]
)";
const std::string rotations = R"(  %q_heads = reshape(%q) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
  %k_heads = reshape(%k) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
  %q_turned = rotary(%q_heads, %cos, %sin) : f32[2,3,2,4]
  %k_turned = rotary(%k_heads, %cos, %sin) : f32[2,3,1,4]
)";
const std::string attention = R"(  %v_heads = reshape(%v) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
  %y, %lse = sdpa(%q_turned, %k_turned, %v_heads) {causal = true, scale = 0.5} : f32[2,3,2,4], f32[2,2,3]
)";

Module kept(const std::string& text) {
    return after_pass(text, keep_rotated);
}
void expect_unchanged(const std::string& text) {
    EXPECT_EQ(functions_of(kept(text)), functions_of(module_of(text)));
}

TEST(KeepRotated, TheWholeIsMadeOfWhatIsRead) {
    const std::string text = layer(pieces + rotations + attention);
    EXPECT_EQ(functions_of(kept(text)), R"(
func @main(%x: f32[2,3,8], %w: f32[16,8], %cos: f32[1,3,4], %sin: f32[1,3,4]) -> (%y) {
  %qkv = linear(%x, %w) : f32[2,3,16]
  %q = slice(%qkv) {axis = 2, begin = 0, end = 8, step = 1} : f32[2,3,8]
  %k = slice(%qkv) {axis = 2, begin = 8, end = 12, step = 1} : f32[2,3,4]
  %v_before = slice(%qkv) {axis = 2, begin = 12, end = 16, step = 1} : f32[2,3,4]
  %q_heads = reshape(%q) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
  %k_heads = reshape(%k) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
  %q_turned = rotary(%q_heads, %cos, %sin) : f32[2,3,2,4]
  %k_turned = rotary(%k_heads, %cos, %sin) : f32[2,3,1,4]
  %reshape = reshape(%q_turned) {dims = [2, 3, 8]} : f32[2,3,8]
  %reshape_1 = reshape(%k_turned) {dims = [2, 3, 4]} : f32[2,3,4]
  %qkv_rotated = concat(%reshape, %reshape_1, %v_before) {axis = 2} : f32[2,3,16]
  %q_turned_rotated = slice(%qkv_rotated) {axis = 2, begin = 0, end = 8, step = 1} : f32[2,3,8]
  %q_turned_rotated_1 = reshape(%q_turned_rotated) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
  %k_turned_rotated = slice(%qkv_rotated) {axis = 2, begin = 8, end = 12, step = 1} : f32[2,3,4]
  %k_turned_rotated_1 = reshape(%k_turned_rotated) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
  %v = slice(%qkv_rotated) {axis = 2, begin = 12, end = 16, step = 1} : f32[2,3,4]
  %v_heads = reshape(%v) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
  %y, %lse = sdpa(%q_turned_rotated_1, %k_turned_rotated_1, %v_heads) {causal = true, scale = 0.5} : f32[2,3,2,4], f32[2,2,3]
}
)");
    expect_equal_programs(module_of(text), kept(text));
}

// The same where views of the values, or what is turned first, stand before the last rotation.
TEST(KeepRotated, ViewsThatStandBeforeComeLater) {
    const std::string first = R"(  %v_heads = reshape(%v) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
  %v_again = transpose(%v_heads) {permutation = [0, 2, 1, 3]} : f32[2,1,3,4]
)";
    const std::string read = R"(  %a = reduce_sum(%q_turned) {axes = [0, 1, 2, 3], keep_dims = false} : f32[]
  %b = mul(%v_again, %a) : f32[2,1,3,4]
  %y = exp(%b) : f32[2,1,3,4]
)";
    const std::string text = layer(pieces + first + rotations + read + R"(  %z = exp(%k_turned) : f32[2,3,1,4]
)",
                                   "%y, %z");
    const Module m = kept(text);
    EXPECT_NE(functions_of(m).find("%qkv_rotated = concat("), std::string::npos);
    expect_equal_programs(module_of(text), m);
}

TEST(KeepRotated, OtherReadersLeaveAllAsItIs) {
    // The values are read by a kernel before the keys are rotated.
    expect_unchanged(layer(pieces + "  %z = exp(%v) : f32[2,3,4]\n" + rotations + attention, "%y, %z"));
    // The product is read as a whole, or is a result.
    expect_unchanged(layer(pieces + rotations + attention + "  %z = exp(%qkv) : f32[2,3,16]\n", "%y, %z"));
    expect_unchanged(layer(pieces + rotations + attention, "%y, %qkv"));
    // The queries are also read as they were.
    expect_unchanged(layer(pieces + rotations + attention + "  %z = exp(%q) : f32[2,3,8]\n", "%y, %z"));
    // What is rotated is a result, which has a place of its own.
    expect_unchanged(layer(pieces + rotations + attention, "%y, %k_turned, %q_turned"));
}

// Queries are read before the slice of the values is there: they would have to be read as they were.
TEST(KeepRotated, AReaderBeforeTheLastPieceLeavesAllAsItIs) {
    const std::string slice = "  %v = slice(%qkv) {axis = 2, begin = 12, end = 16, step = 1} : f32[2,3,4]\n";
    std::string first = pieces;
    first.replace(first.find(slice), slice.size(), "");
    expect_unchanged(layer(first + rotations + "  %z = exp(%q_turned) : f32[2,3,2,4]\n" + slice + attention, "%y, %z"));
}

TEST(KeepRotated, PiecesThatAreNotAllLeaveItAsItIs) {
    expect_unchanged(layer(R"(  %qkv = linear(%x, %w) : f32[2,3,16]
  %q = slice(%qkv) {axis = 2, begin = 0, end = 8, step = 1} : f32[2,3,8]
  %v = slice(%qkv) {axis = 2, begin = 12, end = 16, step = 1} : f32[2,3,4]
  %q_heads = reshape(%q) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
  %y = rotary(%q_heads, %cos, %sin) : f32[2,3,2,4]
  %z = exp(%v) : f32[2,3,4]
)",
                           "%y, %z"));
}

TEST(KeepRotated, NothingIsRotated) {
    expect_unchanged(layer(pieces + R"(  %q_turned = reshape(%q) {dims = [2, 3, 2, 4]} : f32[2,3,2,4]
  %k_turned = reshape(%k) {dims = [2, 3, 1, 4]} : f32[2,3,1,4]
)" + attention));
}

}  // namespace keep_rotated_test
}  // namespace thunderc
