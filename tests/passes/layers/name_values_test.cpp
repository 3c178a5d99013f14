// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/name_values.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace name_values_test {

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

// Of several ops of one kind in a module each is told by what it works on.
TEST(NameValues, AfterWhatTheyWorkOnWhereTheModuleHasSeveral) {
    EXPECT_EQ(named(R"(
func @main(%q_proj: f32[1,3,2,4], %k_proj: f32[1,3,2,4], %cos: f32[1,3,4], %sin: f32[1,3,4]) -> (%add, %mul) {
  %add = rotary(%q_proj, %cos, %sin) : f32[1,3,2,4] at "layers.0.attn"
  %mul = rotary(%k_proj, %cos, %sin) : f32[1,3,2,4] at "layers.0.attn"
})"),
              functions_of(module_of(R"(
func @main(%q_proj: f32[1,3,2,4], %k_proj: f32[1,3,2,4], %cos: f32[1,3,4], %sin: f32[1,3,4]) -> (%q_proj_rotary, %k_proj_rotary) {
  %q_proj_rotary = rotary(%q_proj, %cos, %sin) : f32[1,3,2,4] at "layers.0.attn"
  %k_proj_rotary = rotary(%k_proj, %cos, %sin) : f32[1,3,2,4] at "layers.0.attn"
})")));
}

// What an op that tells its operands apart reads, also behind views: the q and k of attention; its v has a module's
// name.
TEST(NameValues, AfterWhatTheyAreToTheirReader) {
    EXPECT_EQ(named(R"(
func @main(%x: f32[1,3,2,4], %y: f32[1,3,8], %cos: f32[1,3,4], %sin: f32[1,3,4], %v_proj: f32[1,3,2,4]) -> (%sdpa) {
  %rotary = rotary(%x, %cos, %sin) : f32[1,3,2,4] at "layers.0.attn"
  %exp = exp(%y) : f32[1,3,8] at "layers.0.attn"
  %view = reshape(%exp) {dims = [1, 3, 2, 4]} : f32[1,3,2,4] at "layers.0.attn"
  %sdpa, %lse = sdpa(%rotary, %view, %v_proj) {causal = true, scale = 0.5} : f32[1,3,2,4], f32[1,2,3] at "layers.0.attn"
})"),
              functions_of(module_of(R"(
func @main(%x: f32[1,3,2,4], %y: f32[1,3,8], %cos: f32[1,3,4], %sin: f32[1,3,4], %v_proj: f32[1,3,2,4]) -> (%sdpa) {
  %q = rotary(%x, %cos, %sin) : f32[1,3,2,4] at "layers.0.attn"
  %k = exp(%y) : f32[1,3,8] at "layers.0.attn"
  %view = reshape(%k) {dims = [1, 3, 2, 4]} : f32[1,3,2,4] at "layers.0.attn"
  %sdpa, %sdpa_lse = sdpa(%q, %view, %v_proj) {causal = true, scale = 0.5} : f32[1,3,2,4], f32[1,2,3] at "layers.0.attn"
})")));
}

// A value that another op reads as well is not the q of the one alone; and x says nothing.
TEST(NameValues, NotAfterOneOfTwoReaders) {
    EXPECT_EQ(named(R"(
func @main(%x: f32[1,3,2,4], %s: f32[4]) -> (%sdpa, %log, %norm) {
  %exp = exp(%x) : f32[1,3,2,4]
  %neg = neg(%exp) : f32[1,3,2,4]
  %norm, %r = rms_norm(%neg, %s) {eps = 1e-05} : f32[1,3,2,4], f32[1,3,2]
  %log = log(%exp) : f32[1,3,2,4]
  %sdpa, %lse = sdpa(%exp, %x, %x) {causal = true, scale = 0.5} : f32[1,3,2,4], f32[1,2,3]
})"),
              functions_of(module_of(R"(
func @main(%x: f32[1,3,2,4], %s: f32[4]) -> (%sdpa, %log, %norm) {
  %exp = exp(%x) : f32[1,3,2,4]
  %neg = neg(%exp) : f32[1,3,2,4]
  %norm, %norm_rstd = rms_norm(%neg, %s) {eps = 1e-05} : f32[1,3,2,4], f32[1,3,2]
  %log = log(%exp) : f32[1,3,2,4]
  %sdpa, %sdpa_lse = sdpa(%exp, %x, %x) {causal = true, scale = 0.5} : f32[1,3,2,4], f32[1,2,3]
})")));
}

// Experts have no modules of their own: their products are called as the parameter that holds all of their matrices.
TEST(NameValues, AfterTheMatricesOfExperts) {
    EXPECT_EQ(named(R"(
func @main(%x: f32[3,2] input "x", %i: i64[3] input "i", %u: f32[2,4,2] parameter "mlp.experts.up_proj", %d: f32[2,2,4] parameter "mlp.experts.down_proj") -> (%mul) {
  %grouped_linear = grouped_linear(%x, %u, %i) {transpose = false} : f32[3,4] at "mlp.experts"
  %mul = grouped_linear(%grouped_linear, %d, %i) {transpose = false} : f32[3,2] at "mlp.experts"
})"),
              functions_of(module_of(R"(
func @main(%x: f32[3,2] input "x", %i: i64[3] input "i", %u: f32[2,4,2] parameter "mlp.experts.up_proj", %d: f32[2,2,4] parameter "mlp.experts.down_proj") -> (%down_proj) {
  %up_proj = grouped_linear(%x, %u, %i) {transpose = false} : f32[3,4] at "mlp.experts"
  %down_proj = grouped_linear(%up_proj, %d, %i) {transpose = false} : f32[3,2] at "mlp.experts"
})")));
}

// A sum of things that no layer computes is no residual.
TEST(NameValues, LeavesOtherSums) {
    const std::string text = R"(
func @main(%x: f32[3], %y: f32[3]) -> (%add) {
  %exp = exp(%x) : f32[3]
  %add = add(%exp, %y) : f32[3]
})";
    EXPECT_EQ(named(text), functions_of(module_of(text)));
}

TEST(NameValues, LeavesNamesThatSomebodyGave) {
    const std::string text = R"(
func @main(%x: f32[3]) -> (%logits) {
  %logits = exp(%x) : f32[3] at "model.head"
})";
    EXPECT_EQ(named(text), functions_of(module_of(text)));
}

}  // namespace name_values_test
}  // namespace thunderc
