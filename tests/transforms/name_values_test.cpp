#include "compiler/transforms/name_values.h"

#include "tests/transforms/equal_programs.h"

namespace thunderc {
namespace {

using testing::functions_of;
using testing::module_of;

std::string named(const std::string& text) {
    Report report;
    return functions_of(name_values(module_of(text), report));
}

TEST(NameValues, AfterTheModuleThatComputesThem) {
    EXPECT_EQ(named(R"(
func @main(%x: f32[3,4], %s: f32[4], %wq: f32[4,4], %wk: f32[4,4]) -> (%matmul_1, %matmul_2, %mul_1) {
  %mul, %r = rms_norm(%x, %s) {eps = 1e-05} : f32[3,4], f32[3] at "layers.0.input_layernorm"
  %matmul = linear(%mul, %wq, _, _, %wk, _) {adjacent_weights = true} : f32[3,8] at "layers.0.attn"
  %matmul_1 = slice(%matmul) {axis = 1, begin = 0, end = 4, step = 1} : f32[3,4] at "layers.0.attn.q_proj"
  %matmul_2 = slice(%matmul) {axis = 1, begin = 4, end = 8, step = 1} : f32[3,4] at "layers.0.attn.k_proj"
  %add = add(%x, %mul) : f32[3,4] at "layers.0"
  %mul_1 = reshape(%add) {dims = [12]} : f32[12] at "layers.0"
})"),
              functions_of(module_of(R"(
func @main(%x: f32[3,4], %s: f32[4], %wq: f32[4,4], %wk: f32[4,4]) -> (%q_proj, %k_proj, %mul_1) {
  %input_layernorm, %input_layernorm_rstd = rms_norm(%x, %s) {eps = 1e-05} : f32[3,4], f32[3] at "layers.0.input_layernorm"
  %qk_proj = linear(%input_layernorm, %wq, _, _, %wk, _) {adjacent_weights = true} : f32[3,8] at "layers.0.attn"
  %q_proj = slice(%qk_proj) {axis = 1, begin = 0, end = 4, step = 1} : f32[3,4] at "layers.0.attn.q_proj"
  %k_proj = slice(%qk_proj) {axis = 1, begin = 4, end = 8, step = 1} : f32[3,4] at "layers.0.attn.k_proj"
  %residual = add(%x, %input_layernorm) : f32[3,4] at "layers.0"
  %mul_1 = reshape(%residual) {dims = [12]} : f32[12] at "layers.0"
})")));
}

TEST(NameValues, LeavesNamesThatSomebodyGave) {
    const std::string text = R"(
func @main(%x: f32[3]) -> (%logits) {
  %logits = exp(%x) : f32[3] at "model.head"
})";
    EXPECT_EQ(named(text), functions_of(module_of(text)));
}

}  // namespace
}  // namespace thunderc
