// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/widen_kernel.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace widen_kernel_test {

using testing::functions_of;
using testing::module_of;

std::string widened(const std::string& text) {
    Module m = module_of(text);
    m.main() = widen_kernel(m.main());
    verify(m);
    return functions_of(m);
}

std::string as_printed(const std::string& text) {
    return functions_of(module_of(text));
}

TEST(WidenKernel, OnlyWhatLeavesAKernelIsRounded) {
    EXPECT_EQ(widened(R"(
func @k(%x: bf16[4], %w: f32[4]) -> (%y, %sum) {
  %a = exp(%x) : bf16[4]
  %a_1 = cast(%a) {dtype = f32} : f32[4]
  %b = mul(%a_1, %w) : f32[4]
  %b_1 = cast(%b) {dtype = bf16} : bf16[4]
  %y = neg(%b_1) : bf16[4]
  %sum = reduce_sum(%b) {axes = [0], keep_dims = false} : f32[]
})"),
              as_printed(R"(
func @k(%x: bf16[4], %w: f32[4]) -> (%y_1, %sum) {
  %x_1 = cast(%x) {dtype = f32} : f32[4]
  %a = exp(%x_1) : f32[4]
  %b = mul(%a, %w) : f32[4]
  %y = neg(%b) : f32[4]
  %sum = reduce_sum(%b) {axes = [0], keep_dims = false} : f32[]
  %y_1 = cast(%y) {dtype = bf16} : bf16[4]
})"));
}

// The backward pass reads %a as it is stored, and would compute another %y.
TEST(WidenKernel, WhatIsStoredIsReadAsItIsStored) {
    EXPECT_EQ(widened(R"(
func @k(%x: bf16[4]) -> (%a, %y) {
  %a = exp(%x) : bf16[4]
  %y = sin(%a) : bf16[4]
})"),
              as_printed(R"(
func @k(%x: bf16[4]) -> (%a_1, %y_1) {
  %x_1 = cast(%x) {dtype = f32} : f32[4]
  %a = exp(%x_1) : f32[4]
  %a_1 = cast(%a) {dtype = bf16} : bf16[4]
  %a_2 = cast(%a_1) {dtype = f32} : f32[4]
  %y = sin(%a_2) : f32[4]
  %y_1 = cast(%y) {dtype = bf16} : bf16[4]
})"));
}

// What is rounded is another value than what it was rounded from, which stays whole for those that read that.
TEST(WidenKernel, AValueInF32IsNotRoundedWhereItsCastIsStored) {
    EXPECT_EQ(widened(R"(
func @k(%w: f32[4]) -> (%s, %y, %z) {
  %a = exp(%w) : f32[4]
  %s = cast(%a) {dtype = bf16} : bf16[4]
  %y = sin(%a) : f32[4]
  %z = neg(%s) : bf16[4]
})"),
              as_printed(R"(
func @k(%w: f32[4]) -> (%s, %y, %z_1) {
  %a = exp(%w) : f32[4]
  %s = cast(%a) {dtype = bf16} : bf16[4]
  %s_1 = cast(%s) {dtype = f32} : f32[4]
  %y = sin(%a) : f32[4]
  %z = neg(%s_1) : f32[4]
  %z_1 = cast(%z) {dtype = bf16} : bf16[4]
})"));
}

// Some element has to be the maximum, even where the maximum is read and the elements are computed again.
TEST(WidenKernel, AComparisonReadsWhatTypesPromise) {
    EXPECT_EQ(widened(R"(
func @k(%x: bf16[2,4], %most: bf16[2,1]) -> (%hits) {
  %a = exp(%x) : bf16[2,4]
  %a_1 = cast(%a) {dtype = f32} : f32[2,4]
  %a_2 = reshape(%a_1) {dims = [4, 2]} : f32[4,2]
  %most_1 = cast(%most) {dtype = f32} : f32[2,1]
  %most_2 = reshape(%most_1) {dims = [1, 2]} : f32[1,2]
  %hit = eq(%a_2, %most_2) : bool[4,2]
  %hits = cast(%hit) {dtype = f32} : f32[4,2]
})"),
              as_printed(R"(
func @k(%x: bf16[2,4], %most: bf16[2,1]) -> (%hits) {
  %x_1 = cast(%x) {dtype = f32} : f32[2,4]
  %most_1 = cast(%most) {dtype = f32} : f32[2,1]
  %a = exp(%x_1) : f32[2,4]
  %a_2 = reshape(%a) {dims = [4, 2]} : f32[4,2]
  %most_2 = reshape(%most_1) {dims = [1, 2]} : f32[1,2]
  %a_2_1 = cast(%a_2) {dtype = bf16} : bf16[4,2]
  %a_2_2 = cast(%a_2_1) {dtype = f32} : f32[4,2]
  %hit = eq(%a_2_2, %most_2) : bool[4,2]
  %hits = cast(%hit) {dtype = f32} : f32[4,2]
})"));
}

TEST(WidenKernel, LeavesAloneWhatOnlyMovesAndWhatHasNoBf16) {
    const std::string moves = R"(
func @k(%x: bf16[2,4], %y: bf16[2,4]) -> (%z) {
  %t = transpose(%y) {permutation = [1, 0]} : bf16[4,2]
  %r = reshape(%t) {dims = [2, 4]} : bf16[2,4]
  %z = concat(%x, %r) {axis = 0} : bf16[4,4]
})";
    EXPECT_EQ(widened(moves), as_printed(moves));
    const std::string plain = R"(
func @k(%x: f32[4]) -> (%y) {
  %a = exp(%x) : f32[4]
  %y = sin(%a) : f32[4]
})";
    EXPECT_EQ(widened(plain), as_printed(plain));
}

}  // namespace widen_kernel_test
}  // namespace thunderc
