// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/merge_siblings.h"

#include "compiler/ops/linear.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace merge_siblings_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

Module merged(const std::string& text) {
    const Module m = module_of(text);
    Report report;
    Module out = merge_siblings(m, report);
    verify(out);
    expect_equal_programs(m, out);
    return out;
}

TEST(MergeSiblings, ProductsOfOneInputBecomeOne) {
    EXPECT_EQ(functions_of(merged(R"(
func @main(%x: f32[3,4], %wq: f32[4,4], %wk: f32[2,4]) -> (%q, %k) {
  %q = linear(%x, %wq) : f32[3,4] at "attn.q_proj" "Linear" [MatMul "a"]
  %k = linear(%x, %wk) : f32[3,2] at "attn.k_proj" "Linear" [MatMul "b"]
})")),
              functions_of(module_of(R"(
func @main(%x: f32[3,4], %wq: f32[4,4], %wk: f32[2,4]) -> (%q, %k) {
  %q_k = linear(%x, %wq, _, _, %wk, _) {adjacent_weights = true} : f32[3,6] at "attn.{q,k}_proj" "Linear" [MatMul "a", MatMul "b"]
  %q = slice(%q_k) {axis = 1, begin = 0, end = 4, step = 1} : f32[3,4] at "attn.q_proj" "Linear" [MatMul "a"]
  %k = slice(%q_k) {axis = 1, begin = 4, end = 6, step = 1} : f32[3,2] at "attn.k_proj" "Linear" [MatMul "b"]
})")));
}

// One of them is to stay in bf16.
TEST(MergeSiblings, WhatIsExemptStaysApart) {
    EXPECT_EQ(functions_of(merged(R"(
func @main(%x: f32[3,4], %wq: f32[4,4], %wk: f32[2,4]) -> (%q, %k) {
  %q = linear(%x, %wq) {exempt = true} : f32[3,4]
  %k = linear(%x, %wk) : f32[3,2]
})")),
              functions_of(module_of(R"(
func @main(%x: f32[3,4], %wq: f32[4,4], %wk: f32[2,4]) -> (%q, %k) {
  %q = linear(%x, %wq) {exempt = true} : f32[3,4]
  %k = linear(%x, %wk) : f32[3,2]
})")));
}

// The module is named after all of them where they are neighbours.
TEST(MergeSiblings, NamesTheModulesOfAProduct) {
    auto scope = [](const std::string& a, const std::string& b) {
        return merged(
                   "\nfunc @main(%x: f32[3,4], %v: f32[4,4], %w: f32[2,4]) -> (%y, %z) {\n"
                   "  %y = linear(%x, %v) : f32[3,4] at \"" +
                   a +
                   "\" [MatMul \"a\"]\n"
                   "  %z = linear(%x, %w) : f32[3,2] at \"" +
                   b + "\" [MatMul \"b\"]\n}")
            .main()
            .ops[0]
            .provenance.scope;
    };
    EXPECT_EQ(scope("mlp.gate_proj", "mlp.up_proj"), "mlp.{gate,up}_proj");
    EXPECT_EQ(scope("h.fc_a", "h.fc_b"), "h.{fc_a,fc_b}");
    EXPECT_EQ(scope("a", "b"), "{a,b}");
    EXPECT_EQ(scope("attn.proj", "mlp.proj"), "{attn,mlp}.proj");
    EXPECT_EQ(scope("attn.q_proj.lora_A", "attn.k_proj.lora_A"), "attn.{q,k}_proj.lora_A");
    EXPECT_EQ(scope("attn.proj", "mlp.fc"), "");
    EXPECT_EQ(scope("attn.proj", "attn.proj.lora_A"), "attn.proj");
}

// Attention and MLP side by side, as Phi has them: the module that encloses both is no Linear.
TEST(MergeSiblings, TheClassIsThatOfTheModulesThatAreNamed) {
    auto class_of = [](const std::string& other) {
        return merged(
                   "\nfunc @main(%x: f32[3,4], %v: f32[4,4], %w: f32[2,4]) -> (%y, %z) {\n"
                   "  %y = linear(%x, %v) : f32[3,4] at \"layers.0.attn.q_proj\" \"Linear\" [MatMul \"a\"]\n"
                   "  %z = linear(%x, %w) : f32[3,2] at \"" +
                   other + "\" \"Linear\" [MatMul \"b\"]\n}")
            .main()
            .ops[0]
            .provenance.module_class;
    };
    EXPECT_EQ(class_of("layers.0.attn.k_proj"), "Linear");
    EXPECT_EQ(class_of("layers.0.mlp.fc1"), "");
}

void expect_unchanged(const std::string& text) {
    EXPECT_EQ(functions_of(merged(text)), functions_of(module_of(text)));
}

TEST(MergeSiblings, LeavesAWeightThatIsReadTwice) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %a: f32[4,4], %b: f32[4,4]) -> (%y, %z, %t) {
  %y = linear(%x, %a) : f32[3,4]
  %z = linear(%y, %a) : f32[3,4]
  %t = linear(%x, %b) : f32[3,4]
})");
}

TEST(MergeSiblings, LeavesABiasThatIsReadTwice) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %a: f32[4,4], %b: f32[4,4], %c: f32[4]) -> (%y, %z) {
  %y = linear(%x, %a, %c) : f32[3,4]
  %z = linear(%x, %b, %c) : f32[3,4]
})");
}

// What two functions read, or one in two places, can lie in one place only; one function that is called twice is as
// good as one call.
TEST(MergeSiblings, LeavesWhatAnotherFunctionReads) {
    const auto text = [](const std::string& first, const std::string& second) {
        return R"(
func @main(%x: f32[3,4], %a: f32[4,4], %b: f32[4,4], %c: f32[4,4]) -> (%t) {
  %y = call(%x, )" +
               first +
               R"() {callee = "f"} : f32[3,4]
  %t = )" + second +
               R"( : f32[3,4]
}
func @f(%x: f32[3,4], %v: f32[4,4], %w: f32[4,4]) -> (%t) {
  %y = linear(%x, %v) : f32[3,4]
  %z = linear(%x, %w) : f32[3,4]
  %t = add(%y, %z) : f32[3,4]
})";
    };
    const auto products = [&](const std::string& first, const std::string& second) {
        const Module m = merged(text(first, second));
        return linear_products(m.find("f")->ops[0].operands.size());
    };
    EXPECT_EQ(products("%a, %b", "call(%y, %a, %b) {callee = \"f\"}"), 2U);
    EXPECT_EQ(products("%a, %b", "linear(%y, %c)"), 2U);
    EXPECT_EQ(products("%a, %b", "linear(%y, %b)"), 1U);
    EXPECT_EQ(products("%a, %b", "call(%y, %b, %c) {callee = \"f\"}"), 1U);
    EXPECT_EQ(products("%a, %a", "linear(%y, %c)"), 1U);
}

// One product has one gradient: of three of which one is frozen, two are merged.
TEST(MergeSiblings, LeavesWhatIsFrozenBesideWhatIsNot) {
    Module m = module_of(R"(
func @main(%x: f32[3,4] input "x", %a: f32[4,4] parameter "a", %b: f32[4,4] parameter "b", %c: f32[4,4] parameter "c") -> (%y, %z, %t) {
  %y = linear(%x, %a) : f32[3,4]
  %z = linear(%x, %b) : f32[3,4]
  %t = linear(%x, %c) : f32[3,4]
})");
    m.main().argument_info[2].trainable = false;
    Report report;
    m = merge_siblings(std::move(m), report);
    verify(m);
    std::vector<std::size_t> products;  // of each linear
    for (const Op& op : m.main().ops)
        if (op.name == "linear") products.push_back(linear_products(op.operands.size()));
    EXPECT_EQ(products, (std::vector<std::size_t>{2, 1}));
}

TEST(MergeSiblings, LeavesProductsOfDifferentInputs) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %z: f32[3,4], %a: f32[4,4], %b: f32[4,4]) -> (%y, %t) {
  %y = linear(%x, %a) : f32[3,4]
  %t = linear(%z, %b) : f32[3,4]
})");
}

TEST(MergeSiblings, LeavesABiasBesideNone) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %a: f32[4,4], %b: f32[4,4], %c: f32[4]) -> (%y, %t) {
  %y = linear(%x, %a) : f32[3,4]
  %t = linear(%x, %b, %c) : f32[3,4]
})");
}

}  // namespace merge_siblings_test
}  // namespace thunderc
