// SPDX-License-Identifier: Apache-2.0
// What is compared with a maximum is in memory before the maximum is taken: see compiler/kernels/ties.h.
#include <gtest/gtest.h>

#include <string>

#include "tests/passes/fusion/fused.h"

namespace thunderc {
namespace ties_test {

using testing::fused;
using testing::fused_text;

// A kernel's loops compute the same formula each, and may round it differently: what equals a maximum is looked for in
// memory, where the maximum was taken of it.
TEST(Fuse, TakesAMaximumOfWhatIsInMemoryWhereTiesAreCounted) {
    for (const char* comparison : {"eq", "ge", "lt"}) {
        const std::string ties = "  %ties = " + std::string(comparison) + "(%level, %most) : bool[4,64]\n";
        const std::string text = fused_text(std::string(R"(module "m" values

func @main(%x: f32[4,64], %w: f32[64], %b: f32[64]) -> (%n) {
  %p = mul(%x, %w) : f32[4,64]
  %level = add(%p, %b) : f32[4,64]
  %most = reduce_max(%level) {axes = [1], keep_dims = true} : f32[4,1]
)") + ties + R"(  %ones = cast(%ties) {dtype = f32} : f32[4,64]
  %n = reduce_sum(%ones) {axes = [1], keep_dims = false} : f32[4]
}
)");
        EXPECT_NE(text.find("%level = fused(%x, %w, %b) {kernel = "), std::string::npos) << text;
        EXPECT_NE(text.find("fused(%level) {kernel = "), std::string::npos) << text;
    }
}

// The maximum of what is stored for somebody else, who may compare the two: forward and backward pass of a layer are
// two functions.
TEST(Fuse, TakesAMaximumOfWhatWasStoredBefore) {
    const std::string text = fused_text(R"(module "m" values

func @main(%x: f32[4,64], %w: f32[64], %b: f32[64]) -> (%level, %most) {
  %p = mul(%x, %w) : f32[4,64]
  %level = add(%p, %b) : f32[4,64]
  %most = reduce_max(%level) {axes = [1], keep_dims = true} : f32[4,1]
}
)");
    EXPECT_NE(text.find("%level = fused(%x, %w, %b) {kernel = "), std::string::npos) << text;
    EXPECT_NE(text.find("%most = fused(%level) {kernel = "), std::string::npos) << text;
}

// Must not change: in a function that has both passes, and compares it with nothing.
TEST(Fuse, StoresWhatNothingComparesBesideItsMaximum) {
    const std::string text = fused_text(R"(module "m" values

func @main(%x: f32[4,64] input "x", %w: f32[64] parameter "w", %b: f32[64] parameter "b") -> (%level "level", %most "most") {
  %p = mul(%x, %w) : f32[4,64]
  %level = add(%p, %b) : f32[4,64]
  %most = reduce_max(%level) {axes = [1], keep_dims = true} : f32[4,1]
}
)");
    EXPECT_NE(text.find("%level, %most = fused(%x, %w, %b) {kernel = "), std::string::npos) << text;
}

// Must not change: what softmax subtracts need not be the very maximum, and is compared with nothing; what was read is
// the same everywhere, also as its maximum; and numbers of one loop may be compared, with one another and with one that
// was read.
TEST(Fuse, TakesAMaximumOnTheWayWhereNothingIsComparedWithIt) {
    Report report;
    for (const char* text : {R"(module "m" values

func @main(%x: f32[4,64], %w: f32[64]) -> (%e) {
  %level = mul(%x, %w) : f32[4,64]
  %most = reduce_max(%level) {axes = [1], keep_dims = true} : f32[4,1]
  %d = sub(%level, %most) : f32[4,64]
  %e = exp(%d) : f32[4,64]
}
)",
                             R"(module "m" values

func @main(%y: f32[4,64]) -> (%ones) {
  %x = neg(%y) : f32[4,64]
  %most = reduce_max(%x) {axes = [1], keep_dims = true} : f32[4,1]
  %ties = eq(%x, %most) : bool[4,64]
  %ones = cast(%ties) {dtype = f32} : f32[4,64]
}
)",
                             R"(module "m" values

func @main(%x: f32[4,64], %y: f32[4,64]) -> (%ones) {
  %p = mul(%x, %x) : f32[4,64]
  %hit = eq(%p, %y) : bool[4,64]
  %ones = cast(%hit) {dtype = f32} : f32[4,64]
}
)",
                             R"(module "m" values

func @main(%x: f32[4,64], %y: f32[4,64]) -> (%ones) {
  %p = mul(%x, %x) : f32[4,64]
  %q = mul(%y, %y) : f32[4,64]
  %hit = eq(%p, %q) : bool[4,64]
  %ones = cast(%hit) {dtype = f32} : f32[4,64]
}
)"}) {
        EXPECT_EQ(fused(text, report).main().ops.size(), 1U) << text;
    }
}

// A value that is compared with its maximum is read where it is compared: computed again it could differ in its last
// bit, and nothing would be the maximum.
TEST(Fuse, ComparesTheVeryBits) {
    const std::string text = fused_text(R"(module "m" values

func @main(%x: f32[64,64], %s: f32[64,1], %w: f32[64,64]) -> (%z, %top) {
  %xn = mul(%x, %s) : f32[64,64]
  %top = reduce_max(%xn) {axes = [1], keep_dims = true} : f32[64,1]
  %hit = eq(%xn, %top) : bool[64,64]
  %share = cast(%hit) {dtype = f32} : f32[64,64]
  %y = mul(%share, %s) : f32[64,64]
  %p = matmul(%y, %w) {transpose_a = false, transpose_b = false} : f32[64,64]
  %z = mul(%p, %share) : f32[64,64]
}
)");
    EXPECT_NE(text.find("%xn = fused(%x, %s) {kernel = "), std::string::npos) << text;
    EXPECT_NE(text.find("%top, %y = fused(%xn, %s) {kernel = "), std::string::npos) << text;
    EXPECT_NE(text.find("%z = fused(%xn, %top, %p) {kernel = "), std::string::npos) << text;
}

}  // namespace ties_test
}  // namespace thunderc
