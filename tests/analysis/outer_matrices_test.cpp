// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/outer_matrices.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"

namespace thunderc {
namespace {

std::vector<std::string> outer_of(const std::string& arguments, const std::string& ops) {
    const Module module = parse_module(
        "module \"m\" values\nfunc @main(%ids: i64[4] input \"ids\", %labels: i64[4] input \"labels\", " + arguments +
        ") -> (%loss \"loss\") {\n" + ops + "  %loss, %lse = cross_entropy(%z, %labels) : f32[], f32[4]\n}\n");
    verify(module);
    return outer_matrices(module);
}

using Names = std::vector<std::string>;
const std::string parameters = R"(%e: f32[6,3] parameter "embed", %w: f32[3,3] parameter "hidden", )"
                               R"(%h: f32[6,3] parameter "head")",
                  hidden = "  %x = embedding(%e, %ids) : f32[4,3]\n  %y = linear(%x, %w) : f32[4,3]\n";

TEST(OuterMatrices, AreTheTableAndTheHead) {
    EXPECT_EQ(outer_of(parameters, hidden + "  %z = linear(%y, %h) : f32[4,6]\n"), (Names{"embed", "head"}));
}

// What is done to logits, by constants or by parameters alone, makes no other head.
TEST(OuterMatrices, LogitsMayBeScaledAndCapped) {
    EXPECT_EQ(outer_of(parameters + R"(, %s: f32[] parameter "scale")", hidden + R"(  %l = linear(%y, %h) : f32[4,6]
  %t = tanh(%l) : f32[4,6]
  %p = exp(%s) : f32[]
  %z = mul(%p, %t) : f32[4,6]
)"),
              (Names{"embed", "head"}));
}

// A weight that is tied is both, and a table is one wherever it is looked up.
TEST(OuterMatrices, OneTensorMayBeBoth) {
    EXPECT_EQ(outer_of(R"(%e: f32[6,3] parameter "embed", %w: f32[3,3] parameter "hidden")",
                       hidden + "  %z = linear(%y, %e) : f32[4,6]\n"),
              Names{"embed"});
}

// Where logits are a sum of products, as a residual stream is, none of them is the last.
TEST(OuterMatrices, OfSeveralProductsNoneIsTheHead) {
    EXPECT_EQ(outer_of(parameters + R"(, %g: f32[6,3] parameter "other")", hidden + R"(  %a = linear(%y, %h) : f32[4,6]
  %b = linear(%x, %g) : f32[4,6]
  %z = add(%a, %b) : f32[4,6]
)"),
              Names{"embed"});
}

}  // namespace
}  // namespace thunderc
