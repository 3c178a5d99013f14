// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/tieable_weights.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"

namespace thunderc {
namespace {

// "embed and head", or "" where there is no pair.
std::string pair_of(const std::string& arguments, const std::string& ops) {
    const Module module = parse_module(
        "module \"m\" values\nfunc @main(%ids: i64[4] input \"ids\", %labels: i64[4] input \"labels\", " + arguments +
        ") -> (%loss \"loss\") {\n" + ops + "  %loss, %lse = cross_entropy(%z, %labels) : f32[], f32[4]\n}\n");
    verify(module);
    const auto pair = tieable_weights(module);
    return pair ? pair->embedding + " and " + pair->logits : "";
}

const std::string embed = R"(%e: f32[6,3] parameter "embed")", head = R"(%w: f32[6,3] parameter "head")",
                  looked_up = "  %x = embedding(%e, %ids) : f32[4,3]\n",
                  multiplied = "  %z = linear(%x, %w) : f32[4,6]\n";

TEST(TieableWeights, AreTheTableAndWhatMakesTheLogits) {
    EXPECT_EQ(pair_of(embed + ", " + head, looked_up + multiplied), "embed and head");
}

TEST(TieableWeights, LogitsMayBeCappedAndCast) {
    EXPECT_EQ(pair_of(embed + ", " + head, looked_up + R"(  %y = linear(%x, %w) : f32[4,6]
  %c = constant() {value = <f32[4,6] splat 30.0>} : f32[4,6]
  %a = div(%y, %c) : f32[4,6]
  %t = tanh(%a) : f32[4,6]
  %z = mul(%c, %t) : f32[4,6]
)"),
              "embed and head");
}

TEST(TieableWeights, WithoutAHeadThereAreNone) {
    // Users and items, which a model compares: both are looked up, and no product makes logits of either.
    EXPECT_EQ(pair_of(R"(%e: f32[6,3] parameter "users", %f: f32[6,3] parameter "items", %m: f32[6,3] input "m")",
                      looked_up + R"(  %y = embedding(%f, %ids) : f32[4,3]
  %s = add(%x, %y) : f32[4,3]
  %z = linear(%s, %m) : f32[4,6]
)"),
              "");
}

TEST(TieableWeights, OfTwoTablesNobodyKnowsWhich) {
    EXPECT_EQ(pair_of(embed + ", " + head + R"(, %f: f32[6,3] parameter "items")",
                      looked_up + R"(  %y = embedding(%f, %ids) : f32[4,3]
  %s = add(%x, %y) : f32[4,3]
  %z = linear(%s, %w) : f32[4,6]
)"),
              "");
    // One of another shape, as of positions, is out of the question.
    EXPECT_EQ(pair_of(embed + ", " + head + R"(, %f: f32[9,3] parameter "positions")",
                      looked_up + R"(  %y = embedding(%f, %ids) : f32[4,3]
  %s = add(%x, %y) : f32[4,3]
  %z = linear(%s, %w) : f32[4,6]
)"),
              "embed and head");
}

TEST(TieableWeights, WhatTheProgramTiesIsOne) {
    EXPECT_EQ(pair_of(embed, looked_up + "  %z = linear(%x, %e) : f32[4,6]\n"), "");
}

}  // namespace
}  // namespace thunderc
