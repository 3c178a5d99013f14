// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/name_results.h"

#include "compiler/analysis/result_names.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace name_results_test {

using testing::functions_of;
using testing::module_of;

std::string named(const std::string& text) {
    Report report;
    return functions_of(name_results(module_of(text), report));
}

TEST(NameResults, ByWhatTheyAre) {
    EXPECT_EQ(named(R"(
func @main(%x: f32[3], %y: f32[3]) -> (%dmul) {
  %mul = mul(%x, %y) : f32[3]
  %log = log(%mul) : f32[3]
  %tanh = tanh(%log) : f32[3]
  %dmul = div(%tanh, %mul) : f32[3]
})"),
              functions_of(module_of(R"(
func @main(%x: f32[3], %y: f32[3]) -> (%dproduct) {
  %product = mul(%x, %y) : f32[3]
  %logarithm = log(%product) : f32[3]
  %tanh = tanh(%logarithm) : f32[3]
  %dproduct = div(%tanh, %product) : f32[3]
})")));
}

TEST(NameResults, LeavesNamesThatSomebodyGave) {
    const std::string text = R"(
func @main(%x: f32[3], %y: f32[3]) -> (%gate) {
  %normed = mul(%x, %y) : f32[3]
  %gate = log(%normed) : f32[3]
})";
    EXPECT_EQ(named(text), functions_of(module_of(text)));
}

// A cotangent has the number of its value, which need not be there any more, and what nothing names leaves no gap.
TEST(NameResults, NumbersAValueAndItsCotangentAlike) {
    EXPECT_EQ(named(R"(
func @main(%x: f32[3], %y: f32[3]) -> (%dmul_4) {
  %mul_3 = mul(%x, %y) : f32[3]
  %dmul_7_part = fused(%mul_3) {kernel = "f"} : f32[3]
  %dmul_4 = mul(%dmul_7_part, %mul_3) : f32[3]
}

func @f(%mul_3: f32[3]) -> (%dmul_7_part) kind "kernel:pointwise" {
  %mul_5 = mul(%mul_3, %mul_3) : f32[3]
  %mul_6 = mul(%mul_5, %mul_3) : f32[3]
  %dmul_7_part = mul(%mul_6, %mul_6) : f32[3]
})"),
              functions_of(module_of(R"(
func @main(%x: f32[3], %y: f32[3]) -> (%dproduct_2) {
  %product = mul(%x, %y) : f32[3]
  %dproduct_3_part = fused(%product) {kernel = "f"} : f32[3]
  %dproduct_2 = mul(%dproduct_3_part, %product) : f32[3]
}

func @f(%product: f32[3]) -> (%dproduct_3_part) kind "kernel:pointwise" {
  %product_4 = mul(%product, %product) : f32[3]
  %product_5 = mul(%product_4, %product) : f32[3]
  %dproduct_3_part = mul(%product_5, %product_5) : f32[3]
})")));
}

// The numbers of modules are the author's.
TEST(NameResults, LeavesNumbersThatSomebodyGave) {
    const std::string text = R"(
func @main(%x: f32[3]) -> (%dfc_4) {
  %fc_2 = exp(%x) : f32[3]
  %fc_4 = exp(%fc_2) : f32[3]
  %dfc_4 = exp(%fc_4) : f32[3]
})";
    EXPECT_EQ(named(text), functions_of(module_of(text)));
}

// The tables of a rotation are called cos and sin by everybody.
TEST(NameResults, LeavesTables) {
    const std::string text = R"(
func @main(%sin: f32[3]) -> (%y) {
  %cos = constant() {value = <f32[3] splat 0.5>} : f32[3]
  %y = fused(%sin, %cos) {kernel = "turn"} : f32[3]
}

func @turn(%sin: f32[3], %cos: f32[3]) -> (%y) kind "kernel:pointwise" {
  %y = mul(%sin, %cos) : f32[3]
})";
    Module module = module_of(text);
    module.functions[0].argument_info.resize(1);
    Report report;
    const Module out = name_results(std::move(module), report);
    EXPECT_EQ(out.functions[1].info(out.functions[1].arguments[0]).name, "sin");
    EXPECT_EQ(out.functions[1].info(out.functions[1].arguments[1]).name, "cos");
}

TEST(NameResults, TellsTheNamesOfOpsFromOthers) {
    for (const char* name : {"", "mul", "product", "dmul", "dproduct", "reduce_sum", "total", "rms_norm", "mul_2",
                             "dreduce_sum_12", "dmul_2_part", "dtotal_terms_2", "dgate_part", "dw_terms"})
        EXPECT_TRUE(is_named_after_op(name)) << name;
    for (const char* name : {"normed", "g", "dgate", "d", "x", "dx", "mul_of_2", "add_norm", "part", "gate_part",
                             "product_part", "dpart", "fc_2", "mul_", "mul__2"})
        EXPECT_FALSE(is_named_after_op(name)) << name;
}

}  // namespace name_results_test
}  // namespace thunderc
