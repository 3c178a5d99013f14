// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/kernels/in_place.h"

namespace thunderc {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs pairs(const std::string& arguments, const std::string& ops, const std::string& results = "%y") {
    const Module m =
        parse_module("module \"m\" values\nfunc @k(" + arguments + ") -> (" + results + ") {\n" + ops + "}\n");
    verify(m);
    return in_place_pairs(describe_kernel(m.main()));
}

TEST(KernelInPlace, TakesTheElementThatIsReadForIt) {
    // a is read where y is written; b is read across, w in every row.
    EXPECT_EQ(pairs("%a: f32[4,4], %b: f32[4,4], %w: f32[4]", R"(
  %t = transpose(%b) {permutation = [1, 0]} : f32[4,4]
  %s = add(%a, %t) : f32[4,4]
  %m = reduce_max(%s) {axes = [1], keep_dims = true} : f32[4,1]
  %n = sub(%s, %m) : f32[4,4]
  %y = mul(%n, %w) : f32[4,4]
)"),
              (Pairs{{0, 0}}));
}

TEST(KernelInPlace, TakesASumOfAPaddedHalf) {
    // Two boxes of equal extents are one nest with two stores: each iteration reads and writes an element of each half.
    const std::string ops = R"(
  %p = pad(%d) {high = [4, 0], low = [0, 0], value = 0.0} : f32[8,3]
  %y = add(%a, %p) : f32[8,3]
)";
    EXPECT_EQ(pairs("%a: f32[8,3], %d: f32[4,3]", ops), (Pairs{{0, 0}}));
}

TEST(KernelInPlace, TakesASumOfAPaddedPart) {
    // Boxes of different extents are nests of their own.
    const std::string ops = R"(
  %p = pad(%d) {high = [5, 0], low = [1, 0], value = 0.0} : f32[8,3]
  %y = add(%a, %p) : f32[8,3]
)";
    EXPECT_EQ(pairs("%a: f32[8,3], %d: f32[2,3]", ops), (Pairs{{0, 0}}));
}

// Halves of each head, in (B,T,C): the boxes of their indices overlap, their elements do not.
TEST(KernelInPlace, TakesHalvesThatAlternate) {
    const std::string ops = R"(
  %h = reshape(%a) {dims = [2, 3, 4]} : f32[2,3,4]
  %l = slice(%h) {axis = 2, begin = 0, end = 2, step = 1} : f32[2,3,2]
  %u = slice(%h) {axis = 2, begin = 2, end = 4, step = 1} : f32[2,3,2]
  %s = add(%l, %u) : f32[2,3,2]
  %d = sub(%l, %u) : f32[2,3,2]
  %c = concat(%s, %d) {axis = 2} : f32[2,3,4]
  %y = reshape(%c) {dims = [2, 12]} : f32[2,12]
)";
    EXPECT_EQ(pairs("%a: f32[2,12]", ops), (Pairs{{0, 0}}));
}

// The same with heads that overlap: what one iteration writes another one reads.
TEST(KernelInPlace, RefusesHalvesThatMeet) {
    const std::string ops = R"(
  %l = slice(%a) {axis = 1, begin = 0, end = 8, step = 1} : f32[2,8]
  %u = slice(%a) {axis = 1, begin = 4, end = 12, step = 1} : f32[2,8]
  %s = add(%l, %u) : f32[2,8]
  %e = slice(%a) {axis = 1, begin = 8, end = 12, step = 1} : f32[2,4]
  %y = concat(%s, %e) {axis = 1} : f32[2,12]
)";
    EXPECT_EQ(pairs("%a: f32[2,12]", ops), Pairs());
}

KernelDescription described(const std::string& arguments, const std::string& ops) {
    const Module m = parse_module("module \"m\" values\nfunc @k(" + arguments + ") -> (%y) {\n" + ops + "}\n");
    verify(m);
    return describe_kernel(m.main());
}

// Queries, keys and values, of which the kernel turns one and hands the others on.
TEST(KernelWithin, PiecesLieWhereWhatBecomesOfThemIsStored) {
    const KernelDescription k = described("%q: f32[2,2,4], %k: f32[2,1,4], %v: f32[2,1,4]", R"(
  %e = exp(%q) : f32[2,2,4]
  %c = concat(%e, %k, %v) {axis = 1} : f32[2,4,4]
  %y = reshape(%c) {dims = [2, 16]} : f32[2,16]
)");
    EXPECT_EQ(place_within(k, 0, 0), (ViewLayout{{16, 4, 1}, 0}));
    EXPECT_EQ(place_within(k, 1, 0), (ViewLayout{{16, 4, 1}, 8}));
    EXPECT_EQ(place_within(k, 2, 0), (ViewLayout{{16, 4, 1}, 12}));
    EXPECT_FALSE(hands_on(k, 0, 0));
    EXPECT_TRUE(hands_on(k, 1, 0));
    // Where the same iteration stores the values it could lie too; anywhere else another iteration writes there before
    // it is read, or it hangs over the end.
    for (std::int64_t offset = 0; offset < 16; ++offset)
        EXPECT_EQ(may_lie_within(k, 1, 0, {{16, 4, 1}, offset}), offset == 8 || offset == 12) << offset;
}

TEST(KernelWithin, WhatIsReadAcrossHasNoPlace) {
    // The second half is stored as it is, and its rows are summed for the first.
    const KernelDescription k = described("%a: f32[3,4], %b: f32[3,4]", R"(
  %t = slice(%b) {axis = 1, begin = 0, end = 1, step = 1} : f32[3,1]
  %s = add(%a, %t) : f32[3,4]
  %y = concat(%s, %b) {axis = 1} : f32[3,8]
)");
    EXPECT_TRUE(place_within(k, 0, 0));
    EXPECT_FALSE(may_lie_within(k, 1, 0, {{8, 1}, 0}));
    // Another type has no place either.
    const KernelDescription cast = described("%a: f32[3,4], %b: bf16[3,4]", R"(
  %w = cast(%b) {dtype = f32} : f32[3,4]
  %y = concat(%a, %w) {axis = 1} : f32[3,8]
)");
    EXPECT_TRUE(place_within(cast, 0, 0));
    EXPECT_FALSE(place_within(cast, 1, 0));
}

TEST(KernelInPlace, TakesHalvesThatChangePlaces) {
    // Each iteration reads its two elements before it writes them.
    const std::string ops = R"(
  %l = slice(%a) {axis = 0, begin = 0, end = 4, step = 1} : f32[4,3]
  %h = slice(%a) {axis = 0, begin = 4, end = 8, step = 1} : f32[4,3]
  %c = concat(%h, %l) {axis = 0} : f32[8,3]
  %y = exp(%c) : f32[8,3]
)";
    EXPECT_EQ(pairs("%a: f32[8,3]", ops), (Pairs{{0, 0}}));
}

TEST(KernelInPlace, RefusesWhatAnotherIterationOfTheNestHasWritten) {
    // Rows 0 to 3 are made of rows 2 to 5, half of which the same loop writes.
    const std::string ops = R"(
  %l = slice(%a) {axis = 0, begin = 2, end = 6, step = 1} : f32[4,3]
  %h = slice(%a) {axis = 0, begin = 4, end = 8, step = 1} : f32[4,3]
  %c = concat(%l, %h) {axis = 0} : f32[8,3]
  %y = exp(%c) : f32[8,3]
)";
    EXPECT_EQ(pairs("%a: f32[8,3]", ops), (Pairs{}));
}

TEST(KernelInPlace, RefusesWhatAnEarlierNestHasWritten) {
    // Rows 2 to 7 need row 0 and 1, which the first nest writes.
    const std::string ops = R"(
  %l = slice(%a) {axis = 0, begin = 0, end = 2, step = 1} : f32[2,3]
  %h = slice(%a) {axis = 0, begin = 0, end = 6, step = 1} : f32[6,3]
  %c = concat(%l, %h) {axis = 0} : f32[8,3]
  %y = exp(%c) : f32[8,3]
)";
    EXPECT_EQ(pairs("%a: f32[8,3]", ops), (Pairs{}));
}

TEST(KernelInPlace, RefusesWhatAnotherResultReadsLater) {
    // z is of other extents and comes second.
    const std::string ops = R"(
  %y = exp(%a) : f32[4,3]
  %t = slice(%a) {axis = 0, begin = 1, end = 3, step = 1} : f32[2,3]
  %z = neg(%t) : f32[2,3]
)";
    EXPECT_EQ(pairs("%a: f32[4,3]", ops, "%y, %z"), (Pairs{}));
    EXPECT_EQ(pairs("%a: f32[4,3]", ops, "%z, %y"), (Pairs{{1, 0}}));
}

TEST(KernelInPlace, RefusesARowThatEveryRowReads) {
    const std::string ops = "  %z = mul(%b, %w) : f32[4,3]\n  %y = add(%a, %w) : f32[1,3]\n";
    EXPECT_EQ(pairs("%a: f32[1,3], %w: f32[1,3], %b: f32[4,3]", ops, "%z, %y"), (Pairs{{0, 2}, {1, 0}, {1, 1}}));
    EXPECT_EQ(pairs("%a: f32[1,3], %w: f32[1,3], %b: f32[4,3]", ops, "%y, %z"), (Pairs{{0, 0}, {1, 2}}));
}

TEST(KernelInPlace, RefusesARowSumOverWhatIsReadWithinTheRows) {
    // dw is known when all rows are done; before, each row reads w.
    const std::string ops = R"(
  %p = mul(%x, %w) : f32[64,3]
  %s = reduce_sum(%p) {axes = [0], keep_dims = false} : f32[3]
)";
    EXPECT_EQ(pairs("%x: f32[64,3], %w: f32[3]", ops, "%s"), (Pairs{}));
    // A gradient before is read when all rows are done, where it is written.
    EXPECT_EQ(pairs("%x: f32[64,3], %w: f32[3], %g: f32[3]", ops + "  %h = add(%g, %s) : f32[3]\n", "%h"),
              (Pairs{{0, 2}}));
}

TEST(KernelInPlace, RefusesASumOverWhatAnotherSumReads) {
    // Each is finished by itself: what the one has written the other would read.
    const std::string columns = R"(
  %q = mul(%x, %x) : f32[64,3]
  %s = reduce_sum(%x) {axes = [0], keep_dims = false} : f32[3]
  %t = reduce_sum(%q) {axes = [0], keep_dims = false} : f32[3]
  %y = add(%g, %s) : f32[3]
)";
    EXPECT_EQ(pairs("%x: f32[64,3], %g: f32[3], %h: f32[3]", columns + "  %z = add(%h, %t) : f32[3]\n", "%y, %z"),
              (Pairs{{0, 1}, {1, 2}}));
    EXPECT_EQ(pairs("%x: f32[64,3], %g: f32[3], %h: f32[3]", columns + "  %z = add(%g, %t) : f32[3]\n", "%y, %z"),
              (Pairs{}));
    const std::string whole = R"(
  %s = reduce_sum(%x) {axes = [0], keep_dims = false} : f32[3]
  %t = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[]
  %y = add(%g, %t) : f32[]
)";
    EXPECT_EQ(pairs("%x: f32[64,3], %g: f32[], %h: f32[]", whole + "  %z = mul(%s, %h) : f32[3]\n", "%y, %z"),
              (Pairs{{0, 1}}));
    EXPECT_EQ(pairs("%x: f32[64,3], %g: f32[], %h: f32[]", whole + "  %z = mul(%s, %g) : f32[3]\n", "%y, %z"),
              (Pairs{}));
}

bool together(const std::string& arguments, const std::string& ops) {
    const Module m = parse_module("module \"m\" values\nfunc @k(" + arguments + ") -> (%y) {\n" + ops + "}\n");
    verify(m);
    const KernelDescription kernel = describe_kernel(m.main());
    EXPECT_EQ(kernel.nests.size(), 2U);
    EXPECT_EQ(in_place_pairs(kernel).size(), 1U);
    return nests_may_run_together(kernel);
}

TEST(NestsRunTogether, WhereEachReadsWhatItStores) {
    EXPECT_TRUE(together("%a: f32[8,3]", R"(
  %h = slice(%a) {axis = 0, begin = 3, end = 8, step = 1} : f32[5,3]
  %e = exp(%h) : f32[5,3]
  %g = slice(%a) {axis = 0, begin = 0, end = 3, step = 1} : f32[3,3]
  %y = concat(%g, %e) {axis = 0} : f32[8,3]
)"));
}

TEST(NestsRunTogether, NotWhereOneStoresWhatAnEarlierOneReads) {
    // The first six rows are done before the seventh is written, one after another only.
    EXPECT_FALSE(together("%a: f32[8,3]", R"(
  %l = slice(%a) {axis = 0, begin = 0, end = 6, step = 1} : f32[6,3]
  %m = slice(%a) {axis = 0, begin = 6, end = 7, step = 1} : f32[1,3]
  %s = mul(%l, %m) : f32[6,3]
  %h = slice(%a) {axis = 0, begin = 6, end = 8, step = 1} : f32[2,3]
  %e = exp(%h) : f32[2,3]
  %y = concat(%s, %e) {axis = 0} : f32[8,3]
)"));
}

}  // namespace
}  // namespace thunderc
