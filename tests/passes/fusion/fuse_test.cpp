// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/fuse.h"

#include <gtest/gtest.h>

#include "compiler/analysis/views.h"
#include "compiler/ir/parse.h"
#include "compiler/kernels/costs.h"
#include "compiler/kernels/description.h"
#include "compiler/support/error.h"
#include "tests/passes/fusion/fused.h"

namespace thunderc {
namespace fuse_test {

using testing::fused;
using testing::fused_text;

TEST(Fuse, JoinsAPointwiseChain) {
    EXPECT_EQ(fused_text(R"(module "m" values

func @main(%x: f32[2,8], %w: f32[8]) -> (%b) {
  %a = mul(%x, %w) : f32[2,8] at "mlp"
  %b = tanh(%a) : f32[2,8] at "mlp"
}
)"),
              R"(module "m" values

func @main(%x: f32[2,8], %w: f32[8]) -> (%b) {
  %b = fused(%x, %w) {kernel = "mlp_tanh"} : f32[2,8]
}

func @mlp_tanh(%x: f32[2,8], %w: f32[8]) -> (%b) kind "kernel:pointwise" scope "mlp" {
  %a = mul(%x, %w) : f32[2,8]
  %b = tanh(%a) : f32[2,8]
}
)");
}

// A chain of thousands would be one kernel of thousands otherwise, described anew with each op that joins.
TEST(Fuse, CutsChainsThatAreTooLong) {
    std::string text = "module \"m\" values\n\nfunc @main(%v0: f32[2,8]) -> (%v300) {\n";
    for (int k = 0; k < 300; ++k)
        text += "  %v" + std::to_string(k + 1) + " = tanh(%v" + std::to_string(k) + ") : f32[2,8]\n";
    Report report;
    const Module module = fused(text + "}\n", report);
    EXPECT_EQ(module.main().ops.size(), 3U);
    for (const Function& f : module.functions) EXPECT_LE(f.ops.size(), 128U) << f.name;
}

TEST(Fuse, LeavesEachPrimitiveAloneWhenToldTo) {
    EXPECT_EQ(fused_text(R"(module "m" values

func @main(%x: f32[2,8], %w: f32[8]) -> (%b) {
  %a = mul(%x, %w) : f32[2,8] at "mlp"
  %b = tanh(%a) : f32[2,8] at "mlp"
}
)",
                         false),
              R"(module "m" values

func @main(%x: f32[2,8], %w: f32[8]) -> (%b) {
  %a = fused(%x, %w) {kernel = "mlp_mul"} : f32[2,8]
  %b = fused(%a) {kernel = "mlp_tanh"} : f32[2,8]
}

func @mlp_mul(%x: f32[2,8], %w: f32[8]) -> (%a) kind "kernel:pointwise" scope "mlp" {
  %a = mul(%x, %w) : f32[2,8]
}

func @mlp_tanh(%a: f32[2,8]) -> (%b) kind "kernel:pointwise" scope "mlp" {
  %b = tanh(%a) : f32[2,8]
}
)");
}

// The statistic of a row and what uses it are one kernel, and equal kernels of two layers are one function.
TEST(Fuse, SharesARowReduction) {
    EXPECT_EQ(fused_text(R"(module "m" values

func @main(%x: f32[4,64], %y: f32[4,64]) -> (%p, %q) {
  %most = reduce_max(%x) {axes = [1], keep_dims = true} : f32[4,1] at "layers.0.attn"
  %p = sub(%x, %most) : f32[4,64] at "layers.0.attn"
  %most_1 = reduce_max(%y) {axes = [1], keep_dims = true} : f32[4,1] at "layers.1.attn"
  %q = sub(%y, %most_1) : f32[4,64] at "layers.1.attn"
}
)"),
              R"(module "m" values

func @main(%x: f32[4,64], %y: f32[4,64]) -> (%p, %q) {
  %p = fused(%x) {kernel = "attn_sub_max"} : f32[4,64]
  %q = fused(%y) {kernel = "attn_sub_max"} : f32[4,64]
}

func @attn_sub_max(%x: f32[4,64]) -> (%p) kind "kernel:row_reduction" scope "layers.0.attn" {
  %most = reduce_max(%x) {axes = [1], keep_dims = true} : f32[4,1]
  %p = sub(%x, %most) : f32[4,64]
}
)");
}

// Slices of a merged product are read in place; a concatenation is written piece by piece.
TEST(Fuse, TakesViewsIntoTheKernel) {
    EXPECT_EQ(fused_text(R"(module "m" values

func @main(%gate_up: f32[4,16], %dy: f32[4,8]) -> (%d) {
  %gate = slice(%gate_up) {axis = 1, begin = 0, end = 8, step = 1} : f32[4,8]
  %up = slice(%gate_up) {axis = 1, begin = 8, end = 16, step = 1} : f32[4,8]
  %dgate = mul(%dy, %up) : f32[4,8]
  %dup = mul(%dy, %gate) : f32[4,8]
  %d = concat(%dgate, %dup) {axis = 1} : f32[4,16]
}
)"),
              R"(module "m" values

func @main(%gate_up: f32[4,16], %dy: f32[4,8]) -> (%d) {
  %d = fused(%dy, %gate_up) {kernel = "concat_elements"} : f32[4,16]
}

func @concat_elements(%dy: f32[4,8], %gate_up: f32[4,16]) -> (%d) kind "kernel:pointwise" {
  %up = slice(%gate_up) {axis = 1, begin = 8, end = 16, step = 1} : f32[4,8]
  %dgate = mul(%dy, %up) : f32[4,8]
  %gate = slice(%gate_up) {axis = 1, begin = 0, end = 8, step = 1} : f32[4,8]
  %dup = mul(%dy, %gate) : f32[4,8]
  %d = concat(%dgate, %dup) {axis = 1} : f32[4,16]
}
)");
}

TEST(Fuse, LeavesViewsThatCanStayWhereTheyAre) {
    const std::string text = R"(module "m" values

func @main(%x: f32[4,16]) -> (%y) {
  %y = reshape(%x) {dims = [8,8]} : f32[8,8]
}
)";
    EXPECT_EQ(fused_text(text), to_string(parse_module(text)));
}

TEST(Fuse, MakesAKernelOfATransposeThatMustBeMemory) {
    EXPECT_EQ(fused_text(R"(module "m" values

func @main(%x: f32[4,16]) -> (%y) {
  %y = transpose(%x) {permutation = [1, 0]} : f32[16,4]
}
)"),
              R"(module "m" values

func @main(%x: f32[4,16]) -> (%y) {
  %y = fused(%x) {kernel = "transpose_elements"} : f32[16,4]
}

func @transpose_elements(%x: f32[4,16]) -> (%y) kind "kernel:transpose" {
  %y = transpose(%x) {permutation = [1, 0]} : f32[16,4]
}
)");
}

// Between the two stands a product: it reads the one and gives what the other reads.
TEST(Fuse, DoesNotJoinAcrossAnotherOp) {
    Report report;
    const Module module = fused(R"(module "m" values

func @main(%x: f32[64,64], %w: f32[64,64]) -> (%y) {
  %a = exp(%x) : f32[64,64]
  %b = matmul(%a, %w) {transpose_a = false, transpose_b = false} : f32[64,64]
  %y = add(%a, %b) : f32[64,64]
}
)",
                                report);
    EXPECT_EQ(module.functions.size(), 3U);
    ASSERT_FALSE(report.notes.empty());
    bool said = false;
    for (const Note& note : report.notes) {
        said = said || (note.kind == Note::Kind::declined &&
                        note.text == "not with the kernel of a that it reads: another op stands between them");
    }
    EXPECT_TRUE(said);
}

// The table would be computed again in every row of every sequence.
TEST(Fuse, DoesNotRecomputeWhatIsCostly) {
    Report report;
    const Module module = fused(R"(module "m" values

func @main(%angle: f32[32,64], %x: f32[64,32,64]) -> (%y) {
  %cos = cos(%angle) : f32[32,64]
  %y = mul(%x, %cos) : f32[64,32,64]
}
)",
                                report);
    EXPECT_EQ(module.functions.size(), 3U);
    bool said = false;
    for (const Note& note : report.notes) {
        said = said || note.text ==
                           "not with the kernel of cos that it reads: it would cost more in recomputation than "
                           "it saves in memory traffic";
    }
    EXPECT_TRUE(said);
}

// What the backward pass needs of the forward pass is computed again where its operands are in memory anyway.
TEST(Fuse, ComputesCheapValuesAgain) {
    const std::string text = fused_text(R"(module "m" values

func @main(%x: f32[64,64], %s: f32[64,1], %w: f32[64,64]) -> (%z) {
  %xn = mul(%x, %s) : f32[64,64]
  %y = exp(%xn) : f32[64,64]
  %p = matmul(%y, %w) {transpose_a = false, transpose_b = false} : f32[64,64]
  %z = mul(%p, %xn) : f32[64,64]
}
)");
    EXPECT_EQ(text, R"(module "m" values

func @main(%x: f32[64,64], %s: f32[64,1], %w: f32[64,64]) -> (%z) {
  %y = fused(%x, %s) {kernel = "exp_elements"} : f32[64,64]
  %p = matmul(%y, %w) {transpose_a = false, transpose_b = false} : f32[64,64]
  %z = fused(%x, %s, %p) {kernel = "mul_elements"} : f32[64,64]
}

func @exp_elements(%x: f32[64,64], %s: f32[64,1]) -> (%y) kind "kernel:pointwise" {
  %xn = mul(%x, %s) : f32[64,64]
  %y = exp(%xn) : f32[64,64]
}

func @mul_elements(%x: f32[64,64], %s: f32[64,1], %p: f32[64,64]) -> (%z) kind "kernel:pointwise" {
  %xn = mul(%x, %s) : f32[64,64]
  %z = mul(%p, %xn) : f32[64,64]
}
)");
}

// The kernel is named after the composite, its parameters after what they are to it.
TEST(Fuse, NamesKernelsAfterComposites) {
    const std::string text = fused_text(R"(module "m" values

func @main(%hidden: f32[8,64], %norm.weight: f32[64]) -> (%norm) {
  %mul = mul(%hidden, %hidden) {part_of = "rms_norm", operand_roles = ["x", "x"]} : f32[8,64] at "model.norm"
  %sum = reduce_sum(%mul) {axes = [1], keep_dims = true, part_of = "rms_norm"} : f32[8,1] at "model.norm"
  %xs = mul(%hidden, %sum) {part_of = "rms_norm", operand_roles = ["x", ""]} : f32[8,64] at "model.norm"
  %norm = mul(%xs, %norm.weight) {part_of = "rms_norm", operand_roles = ["", "weight"], result_role = "y"} : f32[8,64] at "model.norm"
}
)");
    EXPECT_NE(text.find("%norm = fused(%hidden, %norm.weight) {kernel = \"rms_norm_forward\"}"), std::string::npos)
        << text;
    EXPECT_NE(text.find("func @rms_norm_forward(%x: f32[8,64], %weight: f32[64]) -> (%y)"), std::string::npos) << text;
}

// Besides its own the kernel of a backward pass computes y again, and adds what goes by on the residual stream.
TEST(Fuse, NamesWhatAWayBackDoesBesides) {
    const std::string text = fused_text(R"(module "m" values

func @main(%hidden: f32[8,64], %s: f32[64], %r: f32[8,1], %dnorm: f32[8,64], %dstream: f32[8,64]) -> (%norm, %dhidden) {
  %t = mul(%hidden, %r) : f32[8,64] at "norm"
  %norm = mul(%t, %s) : f32[8,64] at "norm"
  %g = mul(%dnorm, %s) {part_of = "rms_norm_backward", operand_roles = ["dy", "weight"]} : f32[8,64] at "norm"
  %p = mul(%g, %hidden) {part_of = "rms_norm_backward", operand_roles = ["", "x"]} : f32[8,64] at "norm"
  %q = mul(%p, %r) {part_of = "rms_norm_backward", operand_roles = ["", "rstd"], result_role = "dx"} : f32[8,64] at "norm"
  %dhidden = add(%dstream, %q) : f32[8,64]
}
)");
    EXPECT_NE(text.find("-> (%y, %dx)"), std::string::npos) << text;
    EXPECT_NE(text.find("%dx = add(%dresidual_in, %dx_own)"), std::string::npos) << text;
    EXPECT_NE(text.find("func @rms_norm_backward_add("), std::string::npos) << text;
}

// The names of the kernels that these functions call, beside a main that calls none.
std::string kernels_of(const std::string& functions) {
    const std::string text = fused_text("module \"m\" values\n\nfunc @main(%x: f32[2]) -> (%x) {\n}\n" + functions);
    std::string out;
    const std::string head = "{kernel = \"";
    for (std::size_t at = text.find(head); at != std::string::npos; at = text.find(head, at + 1)) {
        const std::size_t begin = at + head.size();
        out += (out.empty() ? "" : " ") + text.substr(begin, text.find('"', begin) - begin);
    }
    return out;
}

TEST(Fuse, NamesKernelsAfterModuleAndDirection) {
    EXPECT_EQ(kernels_of(R"(
func @layer_forward(%x: f32[2,8], %w: f32[8]) -> (%b) {
  %a = mul(%x, %w) : f32[2,8] at "layers.0.mlp" "MLP" [Mul "n1"]
  %b = tanh(%a) : f32[2,8] at "layers.0.mlp.act.0" "Tanh" [Tanh "n2"]
}

func @layer_backward(%db: f32[2,8], %x: f32[2,8], %w: f32[8]) -> (%da) {
  %t = exp(%db) : f32[2,8] at "layers.0.mlp.act.0" "Tanh" [Tanh "n2"]
  %s = mul(%t, %x) : f32[2,8] at "layers.0.mlp" "MLP" [Mul "n1"]
  %da = mul(%s, %w) : f32[2,8] at "layers.0.gate" "Gate" [Mul "n3"]
}
)"),
              "mlp_forward mlp_and_gate_backward");
}

// One operator says more than the module does, three modules nothing, and what is in main has no direction here.
TEST(Fuse, NamesOtherKernelsAfterTheirOps) {
    EXPECT_EQ(kernels_of(R"(
func @f_forward(%x: f32[2,8]) -> (%b) {
  %a = tanh(%x) : f32[2,8] at "mlp" "MLP" [Tanh "n1"]
  %b = tanh(%a) : f32[2,8] at "mlp" "MLP" [Tanh "n2"]
}

func @g_forward(%x: f32[2,8]) -> (%c) {
  %a = tanh(%x) : f32[2,8] at "a" "A" [Tanh "n1"]
  %b = exp(%a) : f32[2,8] at "b" "B" [Exp "n2"]
  %c = mul(%b, %b) : f32[2,8] at "c" "C" [Mul "n3"]
}

func @other(%x: f32[2,8]) -> (%b) {
  %a = exp(%x) : f32[2,8] at "mlp" "MLP" [Exp "n1"]
  %b = tanh(%a) : f32[2,8] at "mlp" "MLP" [Tanh "n2"]
}
)"),
              "mlp_tanh mul_exp_elements mlp_tanh_2");
}

// What is a small part of its module is no pass through it.
TEST(Fuse, NamesPartsOfModulesAfterTheirOps) {
    EXPECT_EQ(kernels_of(R"(
func @layer_forward(%x: f32[8,8]) -> (%f) {
  %a = exp(%x) : f32[8,8] at "mlp" "MLP" [Exp "n1"]
  %b = tanh(%a) : f32[8,8] at "mlp" "MLP" [Tanh "n2"]
  %p = matmul(%b, %x) {transpose_a = false, transpose_b = false} : f32[8,8] at "mlp" "MLP" [MatMul "n3"]
  %c = exp(%p) : f32[8,8] at "mlp" "MLP" [Exp "n4"]
  %d = tanh(%c) : f32[8,8] at "mlp" "MLP" [Tanh "n5"]
  %e = exp(%d) : f32[8,8] at "mlp" "MLP" [Exp "n6"]
  %f = mul(%e, %d) : f32[8,8] at "mlp" "MLP" [Mul "n7"]
}
)"),
              "mlp_tanh mlp_forward");
}

// One kernel of two modules is called after neither.
TEST(Fuse, NamesWhatTwoModulesShareAfterItsOps) {
    EXPECT_EQ(kernels_of(R"(
func @f_forward(%x: f32[2,8]) -> (%b) {
  %a = exp(%x) : f32[2,8] at "gate" "Gate" [Exp "n1"]
  %b = tanh(%a) : f32[2,8] at "gate" "Gate" [Tanh "n2"]
}

func @g_forward(%x: f32[2,8]) -> (%b) {
  %a = exp(%x) : f32[2,8] at "up" "Up" [Exp "n1"]
  %b = tanh(%a) : f32[2,8] at "up" "Up" [Tanh "n2"]
}
)"),
              "tanh_elements tanh_elements");
}

// Two values with one role keep their own names, and so does one value with two.
TEST(Fuse, RolesThatAreSharedNameNothing) {
    const std::string text = fused_text(R"(module "m" values

func @main(%a: f32[8,64], %b: f32[8,64]) -> (%p, %q) {
  %p = mul(%a, %b) {part_of = "rotary", operand_roles = ["x", "cos"], result_role = "y"} : f32[8,64]
  %q = mul(%a, %b) {part_of = "rotary", operand_roles = ["x", "sin"], result_role = "y"} : f32[8,64]
}
)");
    EXPECT_NE(text.find("func @rotary(%x: f32[8,64], %b: f32[8,64]) -> (%p, %q)"), std::string::npos) << text;
}

// A parameter of nn.Sequential is called 1.beta, and no function of C++ begins with a number.
TEST(Fuse, NamesOfKernelsBeginWithALetter) {
    const std::string text = fused_text(R"(module "m" values

func @main(%dy: f32[8,64], %old: f32[8,64], %first: bool[]) -> (%new) {
  %d1.beta = mul(%dy, %dy) : f32[8,64]
  %sum = add(%old, %d1.beta) {part_of = "accumulate_gradient", operand_roles = ["before", "gradient"]} : f32[8,64]
  %new = select(%first, %d1.beta, %sum) {part_of = "accumulate_gradient", operand_roles = ["first", "gradient", ""], result_role = "after"} : f32[8,64]
}
)");
    EXPECT_NE(text.find("func @x1_beta_gradient("), std::string::npos) << text;
}

// first ? gradient : before + gradient: the kernel speaks of the gradient, before and after.
TEST(Fuse, NamesWhatIsAccumulatedAfterTheGradient) {
    const std::string text = fused_text(R"(module "m" values

func @main(%dy: f32[8,64], %old: f32[8,64], %first: bool[]) -> (%new) {
  %dweight = mul(%dy, %dy) : f32[8,64]
  %sum = add(%old, %dweight) {part_of = "accumulate_gradient", operand_roles = ["before", "gradient"]} : f32[8,64]
  %new = select(%first, %dweight, %sum) {part_of = "accumulate_gradient", operand_roles = ["first", "gradient", ""], result_role = "after"} : f32[8,64]
}
)");
    EXPECT_NE(text.find("(%dy: f32[8,64], %dweight_before: f32[8,64], %first: bool[]) -> (%dweight)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("%dweight_step = mul(%dy, %dy)"), std::string::npos) << text;
}

// A kernel would be given, and whoever calls it would keep, what no result shows; what makes it is dead as well.
TEST(Fuse, ReadsNoPartsThatNobodySees) {
    Report report;
    const Module module = fused(R"(module "m" values

func @main(%x: f32[4], %z: f32[4]) -> (%y) {
  %dead = tanh(%z) : f32[4]
  %all = concat(%x, %z, %dead) {axis = 0} : f32[12]
  %window = slice(%all) {axis = 0, begin = 0, end = 3, step = 1} : f32[3]
  %y = tanh(%window) : f32[3]
}
)",
                                report);
    const Function& main = module.main();
    ASSERT_EQ(main.ops.size(), 1U) << to_string(module);
    EXPECT_EQ(main.ops[0].operands, std::vector<Value>{main.arguments[0]});
    EXPECT_EQ(describe_kernel(*module.find(main.ops[0].attributes.string("kernel"))).inputs.size(), 1U);
}

// The sum is the same in each column, and stands in none of them.
TEST(Fuse, KeepsSumsOfAllApartFromWhatEachColumnMakesOfThem) {
    Report report;
    const Module module = fused(R"(module "m" values

func @main(%dl: f32[], %dr: f32[1,17,1], %p: f32[64]) -> (%dp) {
  %wide = broadcast_to(%dr) {dims = [1,17,64]} : f32[1,17,64]
  %sum = reduce_sum(%wide) {axes = [0,1], keep_dims = false} : f32[64]
  %own = mul(%dl, %p) : f32[64]
  %dp = add(%own, %sum) : f32[64]
}
)",
                                report);
    for (const Function& f : module.functions) {
        if (f.kind.empty()) continue;
        for (const KernelNest& nest : describe_kernel(f).nests) {
            for (const KernelStore& store : nest.stores) {
                EXPECT_FALSE(nest.nodes[store.node].finish) << to_string(f);
            }
        }
    }
}

TEST(Fuse, ReadsLazyConstantsAsFormulas) {
    EXPECT_EQ(fused_text(R"(module "m" values

func @main(%x: f32[8,8]) -> (%y) {
  %mask = constant() {value = <f32[8,8] splat 2.0>} : f32[8,8]
  %y = mul(%x, %mask) : f32[8,8]
}
)"),
              R"(module "m" values

func @main(%x: f32[8,8]) -> (%y) {
  %y = fused(%x) {kernel = "mul_elements"} : f32[8,8]
}

func @mul_elements(%x: f32[8,8]) -> (%y) kind "kernel:pointwise" {
  %mask = constant() {value = <f32[8,8] splat 2.0>} : f32[8,8]
  %y = mul(%x, %mask) : f32[8,8]
}
)");
}

// ---- descriptions ---------------------------------------------------------------------------------------------------

TEST(KernelDescription, OfAPieceHasOneBoxForEachPart) {
    const Module module = parse_module(R"(module "m" values

func @k(%a: f32[4,3], %b: f32[4,3]) -> (%y) {
  %y = concat(%a, %b) {axis = 1} : f32[4,6]
}
)");
    const KernelDescription kernel = describe_kernel(module.main());
    ASSERT_EQ(kernel.nests.size(), 1U);
    EXPECT_EQ(kernel.nests[0].extents, (Dims{4, 3}));
    ASSERT_EQ(kernel.nests[0].stores.size(), 2U);
    EXPECT_EQ(kernel.nests[0].stores[1].index[1].offset, 3);
    EXPECT_EQ(bytes_moved(kernel), 2 * 4 * 24);
}

TEST(KernelDescription, RefusesWhatIsNotAffine) {
    const Module module = parse_module(R"(module "m" values

func @k(%a: f32[4,6]) -> (%y) {
  %t = transpose(%a) {permutation = [1, 0]} : f32[6,4]
  %r = reshape(%t) {dims = [8,3]} : f32[8,3]
  %y = exp(%r) : f32[8,3]
}
)");
    std::string why;
    EXPECT_FALSE(try_describe_kernel(module.main(), &why).has_value());
    EXPECT_EQ(why, "a reshape cuts a dimension of the index space unevenly");
    EXPECT_THROW(describe_kernel(module.main()), InternalError);
}

// ---- views ----------------------------------------------------------------------------------------------------------

TEST(Views, FollowStrides) {
    const Module module = parse_module(R"(module "m" values

func @main(%qkv: f32[2,3,24]) -> (%t) {
  %q = slice(%qkv) {axis = 2, begin = 8, end = 16, step = 1} : f32[2,3,8]
  %h = reshape(%q) {dims = [2,3,4,2]} : f32[2,3,4,2]
  %r = reshape(%q) {dims = [6,8]} : f32[6,8]
  %n = reshape(%q) {dims = [2,24]} : f32[2,24]
  %t = transpose(%h) {permutation = [0, 2, 1, 3]} : f32[2,4,3,2]
}
)");
    const Function& f = module.main();
    const ViewLayout base = dense_layout({2, 3, 24});
    const ViewLayout q = *view_layout(f, f.ops[0], base);
    EXPECT_EQ(q, (ViewLayout{{72, 24, 1}, 8}));
    EXPECT_FALSE(is_dense(q, {2, 3, 8}));
    EXPECT_EQ(row_stride(q, {2, 3, 8}, 2), 24);
    const ViewLayout h = *view_layout(f, f.ops[1], q);
    EXPECT_EQ(h, (ViewLayout{{72, 24, 2, 1}, 8}));
    EXPECT_EQ(row_stride(h, {2, 3, 4, 2}, 2), 24);
    EXPECT_EQ(view_layout(f, f.ops[2], q), (ViewLayout{{24, 1}, 8}));
    EXPECT_EQ(view_layout(f, f.ops[3], q), std::nullopt);  // its rows have gaps
    const ViewLayout t = *view_layout(f, f.ops[4], h);
    EXPECT_EQ(t, (ViewLayout{{72, 2, 24, 1}, 8}));
    EXPECT_EQ(row_stride(t, {2, 4, 3, 2}, 3), std::nullopt);
}

}  // namespace fuse_test
}  // namespace thunderc
