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
    for (const char* name : {"", "mul", "product", "dmul", "dproduct", "reduce_sum", "total", "rms_norm"})
        EXPECT_TRUE(is_named_after_op(name)) << name;
    for (const char* name : {"normed", "g", "dgate", "d", "x", "dx"}) EXPECT_FALSE(is_named_after_op(name)) << name;
}

}  // namespace name_results_test
}  // namespace thunderc
