// SPDX-License-Identifier: Apache-2.0
// Which dimensions are the same, where all of them have the same number or chance made some equal.
#include "compiler/planned/dimensions.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace dimensions_test {

struct Found {
    Module module;
    Dimensions dimensions;

    explicit Found(const std::string& functions)
        : module(parse_module("module \"m\" values\n" + functions)), dimensions(module) {
        verify(module);
    }

    // "x.1" is axis 1 of %x of the first function that has it.
    Dimensions::Id of(const std::string& text) const {
        const std::size_t dot = text.rfind('.');
        for (const Function& f : module.functions)
            for (std::uint32_t k = 0; k < f.values.size(); ++k)
                if (f.values[k].name == text.substr(0, dot))
                    return dimensions.of(f, Value{k}, std::stoul(text.substr(dot + 1)));
        throw InternalError("no " + text);
    }
    bool same(const std::string& a, const std::string& b) const { return of(a) == of(b); }
    std::vector<Dimensions::Parts> made_of(const std::string& a) const { return dimensions.made_of(of(a)); }
};

TEST(Dimensions, AProductTellsRowsFromColumns) {
    const Found d(R"(
func @main(%x: f32[4,4], %w: f32[4,4], %b: f32[4]) -> (%y) {
  %y = linear(%x, %w, %b) : f32[4,4]
})");
    EXPECT_TRUE(d.same("x.0", "y.0"));
    EXPECT_TRUE(d.same("x.1", "w.1"));
    EXPECT_TRUE(d.same("w.0", "y.1"));
    EXPECT_TRUE(d.same("b.0", "y.1"));
    EXPECT_FALSE(d.same("x.0", "x.1"));
    EXPECT_FALSE(d.same("y.0", "y.1"));
    EXPECT_FALSE(d.same("x.1", "y.1"));
}

TEST(Dimensions, ACallKnowsItsSizes) {
    const Found d(R"(
func @main(%x: f32[4,4], %w: f32[4,4]) -> (%y) {
  %y = linear(%x, %w) : f32[4,4]
})");
    const Op& op = d.module.main().ops[0];
    EXPECT_EQ(d.dimensions.of_call(d.module.main(), op, "in"), d.of("x.1"));
    EXPECT_EQ(d.dimensions.of_call(d.module.main(), op, "out"), d.of("y.1"));
    EXPECT_EQ(d.dimensions.of_call(d.module.main(), op, "rows"), d.of("x.0"));
    EXPECT_EQ(d.dimensions.of_call(d.module.main(), op, "classes"), Dimensions::none);
}

TEST(Dimensions, AReshapeFoldsWhatLiesBetween) {
    const Found d(R"(
func @main(%x: f32[2,3,6]) -> (%y, %z) {
  %y = reshape(%x) {dims = [6, 6]} : f32[6,6]
  %z = reshape(%y) {dims = [6, 2, 3]} : f32[6,2,3]
})");
    EXPECT_TRUE(d.same("x.2", "y.1"));
    EXPECT_TRUE(d.same("y.0", "z.0"));
    EXPECT_FALSE(d.same("y.0", "y.1"));
    ASSERT_EQ(d.made_of("y.0").size(), 1U);
    EXPECT_TRUE(d.made_of("y.0")[0].product);
    EXPECT_EQ(d.made_of("y.0")[0].ids, (std::vector{d.of("x.0"), d.of("x.1")}));
    ASSERT_EQ(d.made_of("y.1").size(), 1U);
    EXPECT_EQ(d.made_of("y.1")[0].ids, (std::vector{d.of("z.1"), d.of("z.2")}));
    // (2,3) and (z.1,z.2) have the same numbers, and nothing else in common.
    EXPECT_FALSE(d.same("x.0", "z.1"));
}

// Neither of (2,6) and (3,4) is made of the other.
TEST(Dimensions, SaysNothingOfAReshapeAcross) {
    const Found d(R"(
func @main(%x: f32[2,6]) -> (%y) {
  %y = reshape(%x) {dims = [3, 4]} : f32[3,4]
})");
    for (const char* a : {"x.0", "x.1", "y.0", "y.1"}) EXPECT_TRUE(d.made_of(a).empty()) << a;
}

TEST(Dimensions, WhatLiesSideBySideIsASum) {
    const Found d(R"(
func @main(%x: f32[3,4], %wq: f32[4,4], %wk: f32[2,4], %wv: f32[2,4]) -> (%q, %v, %odd) {
  %qkv = linear(%x, %wq, _, _, %wk, _, %wv, _) {adjacent_weights = true} : f32[3,8]
  %q = slice(%qkv) {axis = 1, begin = 0, end = 4, step = 1} : f32[3,4]
  %v = slice(%qkv) {axis = 1, begin = 6, end = 8, step = 1} : f32[3,2]
  %odd = slice(%qkv) {axis = 1, begin = 3, end = 5, step = 1} : f32[3,2]
})");
    ASSERT_EQ(d.made_of("qkv.1").size(), 1U);
    EXPECT_FALSE(d.made_of("qkv.1")[0].product);
    EXPECT_EQ(d.made_of("qkv.1")[0].ids, (std::vector{d.of("wq.0"), d.of("wk.0"), d.of("wv.0")}));
    EXPECT_TRUE(d.same("q.1", "wq.0"));
    EXPECT_TRUE(d.same("v.1", "wv.0"));
    EXPECT_TRUE(d.same("wk.1", "x.1"));
    EXPECT_FALSE(d.same("q.1", "x.1"));
    EXPECT_FALSE(d.same("v.1", "wk.0"));
    EXPECT_FALSE(d.same("odd.1", "wk.0"));
}

// The halves that a rotation exchanges, of rows and of their table.
TEST(Dimensions, WhatIsMadeOfTheSamePartsIsTheSame) {
    const Found d(R"(
func @main(%x: f32[3,4], %cos: f32[3,4], %z: f32[3,4]) -> (%y, %c) {
  %a = slice(%x) {axis = 1, begin = 0, end = 2, step = 1} : f32[3,2]
  %b = slice(%x) {axis = 1, begin = 2, end = 4, step = 1} : f32[3,2]
  %ca = slice(%cos) {axis = 1, begin = 0, end = 2, step = 1} : f32[3,2]
  %cb = slice(%cos) {axis = 1, begin = 2, end = 4, step = 1} : f32[3,2]
  %p = mul(%a, %ca) : f32[3,2]
  %q = mul(%b, %cb) : f32[3,2]
  %sum = add(%p, %q) : f32[3,2]
  %y = concat(%sum, %p) {axis = 1} : f32[3,4]
  %c = slice(%z) {axis = 1, begin = 1, end = 3, step = 1} : f32[3,2]
})");
    EXPECT_TRUE(d.same("x.1", "y.1"));
    EXPECT_TRUE(d.same("x.1", "cos.1"));
    EXPECT_FALSE(d.same("x.1", "z.1"));
    EXPECT_FALSE(d.same("a.1", "c.1"));
}

// An empty part leads from where it begins to the same place.
TEST(Dimensions, AnEmptySliceIsNoPart) {
    const Found d(R"(
func @main(%x: f32[3,4]) -> (%none, %a, %b) {
  %none = slice(%x) {axis = 1, begin = 0, end = 0, step = 1} : f32[3,0]
  %a = slice(%x) {axis = 1, begin = 0, end = 1, step = 1} : f32[3,1]
  %b = slice(%x) {axis = 1, begin = 1, end = 4, step = 1} : f32[3,3]
})");
    ASSERT_EQ(d.made_of("x.1").size(), 1U);
    EXPECT_EQ(d.made_of("x.1")[0].ids, (std::vector{d.of("a.1"), d.of("b.1")}));
}

TEST(Dimensions, OneThatIsSpreadIsNoOthersSize) {
    const Found d(R"(
func @main(%x: f32[3,1], %y: f32[3,4], %z: f32[1,1]) -> (%sum, %same) {
  %sum = add(%x, %y) : f32[3,4]
  %same = add(%z, %z) : f32[1,1]
})");
    EXPECT_TRUE(d.same("x.0", "sum.0"));
    EXPECT_FALSE(d.same("x.1", "sum.1"));
    EXPECT_TRUE(d.same("z.1", "same.1"));
    EXPECT_FALSE(d.same("z.0", "z.1"));
}

// Values that are given for arguments, also of a loop, where what goes in comes out again.
TEST(Dimensions, GoThroughCallsAndLoops) {
    const Found d(R"(
func @main(%x: f32[4,4], %ws: 3 x f32[4,4]) -> (%y) {
  %y = repeat(%x, %ws) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[4,4]
}

func @layer(%in: f32[4,4], %w: f32[4,4]) -> (%out) {
  %out = linear(%in, %w) : f32[4,4]
})");
    EXPECT_TRUE(d.same("x.0", "in.0"));
    EXPECT_TRUE(d.same("out.0", "y.0"));
    EXPECT_TRUE(d.same("x.0", "y.0"));
    EXPECT_TRUE(d.same("ws.1", "w.1"));
    EXPECT_TRUE(d.same("y.1", "ws.0"));
    EXPECT_FALSE(d.same("x.0", "x.1"));
}

}  // namespace dimensions_test
}  // namespace thunderc
