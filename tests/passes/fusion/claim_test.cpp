// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/claim.h"

#include "compiler/executors/executor.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace claim_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

Module claimed(const std::string& text, const std::vector<std::string>& executors, Report& report) {
    const Module m = module_of(text);
    Module out = claim(m, executors, report);
    verify(out);
    expect_equal_programs(m, out);
    return out;
}

std::string notes(const Report& report) {
    std::string out;
    for (const Note& n : report.notes)
        out += std::string(n.kind == Note::Kind::done ? "done " : "declined ") + n.what + " at " + n.where + ": " +
               n.text + "\n";
    return out;
}

const char* mlp = R"(
func @main(%x: f32[3,4], %s: f32[4], %w: f32[5,4]) -> (%y) {
  %n, %rstd = rms_norm(%x, %s) {eps = 1e-05} : f32[3,4], f32[3]
  %u = linear(%n, %w) : f32[3,5]
  %y = silu(%u) : f32[3,5]
})";

TEST(Claim, ProductsStayAndTheRestIsDecomposed) {
    Report report;
    const Module out = claimed(mlp, default_executors(), report);
    EXPECT_EQ(functions_of(out), functions_of(module_of(R"(
func @main(%x: f32[3,4], %s: f32[4], %w: f32[5,4]) -> (%y) {
  %mul = mul(%x, %x) {operand_roles = ["x", "x"], part_of = "rms_norm"} : f32[3,4]
  %reduce_sum = reduce_sum(%mul) {axes = [1], keep_dims = true, part_of = "rms_norm"} : f32[3,1]
  %constant = constant() {value = <f32[] splat 4>} : f32[]
  %mean_square = div(%reduce_sum, %constant) {part_of = "rms_norm"} : f32[3,1]
  %constant_1 = constant() {value = <f32[] splat 1e-05>} : f32[]
  %add = add(%mean_square, %constant_1) {part_of = "rms_norm"} : f32[3,1]
  %rstd = rsqrt(%add) {part_of = "rms_norm", result_role = "rstd"} : f32[3,1]
  %normed = mul(%x, %rstd) {operand_roles = ["x", ""], part_of = "rms_norm"} : f32[3,4]
  %n = mul(%normed, %s) {operand_roles = ["", "weight"], part_of = "rms_norm", result_role = "y"} : f32[3,4]
  %u = linear(%n, %w) {executor = "products"} : f32[3,5]
  %sigmoid = sigmoid(%u) {operand_roles = ["x"], part_of = "silu"} : f32[3,5]
  %y = mul(%u, %sigmoid) {operand_roles = ["x", ""], part_of = "silu", result_role = "y"} : f32[3,5]
})")));
    EXPECT_EQ(notes(report), "done linear at @main: products\n");
}

TEST(Claim, TheReferenceClaimsNothing) {
    Report report;
    const Module out = claimed(mlp, {"reference"}, report);
    for (const Op& op : out.main().ops) EXPECT_NE(op_def(op.name).level, OpLevel::composite) << op.name;
    EXPECT_EQ(notes(report), "");
    Report ended;
    EXPECT_EQ(functions_of(claimed(mlp, {"reference", "products"}, ended)), functions_of(out));
}

TEST(Claim, OtherTypesAreDeclinedWithAReason) {
    Report report;
    const Module out = claimed(R"(
func @main(%x: f64[3,4], %w: f64[5,4]) -> (%y) {
  %y = linear(%x, %w) : f64[3,5]
})",
                               {"products", "fused"}, report);
    EXPECT_EQ(functions_of(out), functions_of(module_of(R"(
func @main(%x: f64[3,4], %w: f64[5,4]) -> (%y) {
  %y = matmul(%x, %w) {part_of = "linear", result_role = "y", transpose_a = false, transpose_b = true} : f64[3,5]
})")));
    EXPECT_EQ(notes(report),
              "declined linear at @main: products: f64 operands: the runtime API's calls are of f32, f16, bf16\n");
}

TEST(Claim, EveryFunctionOfTheProgramIsClaimedAndNoKernel) {
    Report report;
    const std::string text = R"(
func @main(%x: f32[3,4], %w: f32[4,4]) -> (%z) {
  %y = call(%x, %w) {callee = "layer"} : f32[3,4]
  %z = fused(%y) {kernel = "k"} : f32[3,4]
}

func @layer(%x: f32[3,4], %w: f32[4,4]) -> (%y) {
  %y = linear(%x, %w) : f32[3,4]
}

func @k(%x: f32[3,4]) -> (%y) kind "kernel:pointwise" {
  %y = silu(%x) : f32[3,4]
})";
    std::string expected = text;
    const std::string product = "%y = linear(%x, %w) :";
    expected.replace(expected.find(product), product.size(), "%y = linear(%x, %w) {executor = \"products\"} :");
    EXPECT_EQ(functions_of(claimed(text, default_executors(), report)), functions_of(module_of(expected)));
}

TEST(Claim, AProductThatRepeatsInPartIsMadeExplicit) {
    Report report;
    const Module out = claimed(R"(
func @main(%x: f32[2,3,4,5], %w: f32[3,5,6]) -> (%y) {
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[2,3,4,6]
})",
                               default_executors(), report);
    EXPECT_EQ(functions_of(out), functions_of(module_of(R"(
func @main(%x: f32[2,3,4,5], %w: f32[3,5,6]) -> (%y) {
  %broadcast_to = broadcast_to(%w) {dims = [2, 3, 5, 6]} : f32[2,3,5,6]
  %y = matmul(%x, %broadcast_to) {transpose_a = false, transpose_b = false} : f32[2,3,4,6]
})")));
}

TEST(Claim, AnUnknownExecutorIsAUsageError) {
    Report report;
    try {
        claim(module_of(mlp), {"prodcts"}, report);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_EQ(error.diagnostic().message, "there is no executor prodcts");
        EXPECT_EQ(
            error.diagnostic().help,
            "executors are products, convolutions, attention, cross_entropy, embedding, optimizer, fused, reference");
    }
}

// No kernel adds by index, and the runtime API adds floats: integers are not left over for somebody to forget.
TEST(Claim, WhatNobodyComputesIsRefused) {
    Report report;
    try {
        claim(module_of(R"(
func @main(%i: i64[4], %x: i64[4]) -> (%y) {
  %y = scatter_add(%i, %x) {axis = 0, entries = 5} : i64[5]
})"),
              default_executors(), report);
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: a program cannot compute scatter_add of these types\n"
                  "  found: i64[4], i64[4]\n"
                  "help: cast its operands to float32 in the model\n");
    }
}

// Whatever claims an op needs the call that the op becomes.
TEST(Claim, EveryCompositeOfAnExecutorHasACall) {
    for (const OpDef* def : all_ops()) {
        if (def->level != OpLevel::composite || def->samples.empty()) continue;
        Function f;
        std::vector<Value> operands;
        for (const SampleOperand& o : def->samples[0].operands)
            operands.push_back(o.absent ? Value{} : f.add_argument(o.type, "x"));
        Builder(f).emit(def->name, operands, def->samples[0].attributes);
        for (const Executor& e : all_executors())
            if (e.name != "optimizer" && !e.declines(f.ops[0], f)) {
                EXPECT_FALSE(def->call(f.ops[0], f).function.empty()) << def->name << " by " << e.name;
            }
    }
}

TEST(Claim, AttentionSaysWhoComputesItOnGpus) {
    const auto note = [](const std::string& type, const std::string& more = "", const std::string& argument = "") {
        const Module m = module_of("func @main(%q: " + type + argument + ") -> (%y) {\n  %y, %lse = sdpa(%q, %q, %q" +
                                   more + ") {causal = true, scale = 0.5} : " + type + ", f32[2,4,16]\n}");
        Report report;
        claim(m, default_executors(), report);
        return notes(report);
    };
    EXPECT_EQ(note("bf16[2,16,4,64]"), "done sdpa at @main: attention; on GPUs by cuDNN\n");
    EXPECT_EQ(note("f32[2,16,4,64]"),
              "done sdpa at @main: attention; on GPUs by the runtime's own blocks: cuDNN's takes no f32\n");
    EXPECT_EQ(note("bf16[2,16,4,64]", ", %p", ", %p: bool[2,16]"),
              "done sdpa at @main: attention; on GPUs by the runtime's own blocks: cuDNN's has no mask of single "
              "positions\n");
    for (const char* type : {"bf16[2,16,4,12]", "bf16[2,16,4,136]"})
        EXPECT_NE(note(type).find("cuDNN's heads have a multiple of 8 elements up to 128, and these "),
                  std::string::npos)
            << note(type);
}

}  // namespace claim_test
}  // namespace thunderc
