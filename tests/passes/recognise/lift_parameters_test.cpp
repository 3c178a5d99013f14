// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/lift_parameters.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "tests/passes/lift_test.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace lift_parameters_test {

// Parses main and gives each argument that is not an input data: 0.5, 1.0, 1.5, … or, by name, one number throughout.
Module with_data(std::string_view text, const std::map<std::string, float>& uniform = {}) {
    Module module = parse_module("module \"m\" values\n" + std::string(text));
    verify(module);
    Function& main = module.main();
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        ArgInfo& info = main.argument_info[k];
        if (info.kind == ArgInfo::Kind::input) continue;
        const Type& type = main.type(main.arguments[k]);
        std::vector<float> values(static_cast<std::size_t>(type.elements()));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5F * static_cast<float>(i * i + 1);
        if (const auto at = uniform.find(info.names.front()); at != uniform.end())
            values.assign(values.size(), at->second);
        info.sources = {source_of(type, std::move(values))};
    }
    return module;
}

std::string lifted(Module module, Report& report, const LiftOptions& options = {}) {
    module = lift_parameters(std::move(module), options, report);
    verify(module);
    return text_of(std::move(module));
}

std::string lifted(Module module, const LiftOptions& options = {}) {
    Report report;
    return lifted(std::move(module), report, options);
}

TEST(LiftParameters, AFoldedTransposeIsUndone) {
    Report report;
    const Module module = lift_parameters(with_data(R"(
func @main(%x: f32[4,3] input "x", %val_110: f32[3,2] value "val_110") -> (%y) {
  %y = matmul(%x, %val_110) {transpose_a = false, transpose_b = false} : f32[4,2] at "layers.0.up_proj" "Linear" [MatMul "n"]
}
)"),
                                          {}, report);
    verify(module);
    EXPECT_EQ(text_of(module), text(R"(
func @main(%x: f32[4,3] input "x", %layers.0.up_proj.weight: f32[2,3] parameter "layers.0.up_proj.weight") -> (%y) {
  %transpose = transpose(%layers.0.up_proj.weight) {permutation = [1, 0]} : f32[3,2]
  %y = matmul(%x, %transpose) {transpose_a = false, transpose_b = false} : f32[4,2]
}
)"));
    EXPECT_TRUE(module.main().argument_info[1].sources.front()->transposed);
    EXPECT_EQ(module.main().argument_info[1].sources.front()->type, Type::tensor(DType::f32, {3, 2}));
    EXPECT_EQ(notes(report), "done parameter at layers.0.up_proj.weight: from the initializer val_110, transposed\n");
}

// TorchScript's exporter renames what it transposes, and a ModuleDict, which is not called, has no scope: the bias
// knows. Another module's bias says nothing.
TEST(LiftParameters, AWeightIsNamedAfterTheBiasBesideIt) {
    const auto weight_beside = [](const std::string& bias, const std::string& scope_of_add) {
        Report report;
        const Module module = lift_parameters(
            with_data(
                "func @main(%x: f32[4,3] input \"x\", %w: f32[3,2] value \"onnx::MatMul_9\", %b: f32[2] value \"" +
                bias +
                "\") -> (%z) {\n"
                "  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,2] at \"a\" \"Linear\" "
                "[MatMul \"/a/MatMul\"]\n  %z = add(%b, %y) : f32[4,2] at \"" +
                scope_of_add + "\" \"Linear\" [Add \"/a/Add\"]\n}\n"),
            {}, report);
        return module.main().argument_info[1].names.front();
    };
    EXPECT_EQ(weight_beside("heads.a.bias", "a"), "heads.a.weight");
    EXPECT_EQ(weight_beside("a.in_proj_bias", "a"), "a.in_proj_weight");
    EXPECT_EQ(weight_beside("model.bias", "model"), "a.weight");
    EXPECT_EQ(weight_beside("heads.a.scale", "a"), "a.weight");
}

TEST(LiftParameters, AConv1DKeepsItsOrientation) {
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[4,3] input "x", %w: f32[3,2] value "val_1") -> (%y) {
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,2] at "h.0.c_attn" "Conv1D" [MatMul "n"]
}
)")),
              text(R"(
func @main(%x: f32[4,3] input "x", %h.0.c_attn.weight: f32[3,2] parameter "h.0.c_attn.weight") -> (%y) {
  %y = matmul(%x, %h.0.c_attn.weight) {transpose_a = false, transpose_b = false} : f32[4,2]
}
)"));
}

// What has its framework's name already is only brought into the order of use.
TEST(LiftParameters, NamedParametersAreUnchanged) {
    constexpr const char* ir = R"(
func @main(%x: f32[4,3] input "x", %l.weight: f32[2,3] parameter "l.weight", %l.bias: f32[2] parameter "l.bias") -> (%z) {
  %t = transpose(%l.weight) {permutation = [1, 0]} : f32[3,2]
  %y = matmul(%x, %t) {transpose_a = false, transpose_b = false} : f32[4,2]
  %z = add(%y, %l.bias) : f32[4,2]
}
)";
    Report report;
    EXPECT_EQ(lifted(with_data(ir), report), text(ir));
    EXPECT_EQ(notes(report), "done modules at main: the graph names none: they are called after what they compute\n");
}

TEST(LiftParameters, BuffersBecomeConstants) {
    Report report;
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[3] input "x", %f: f32[3] value "rotary_emb.inv_freq", %t: f32[3] value "mul_7", %b: f32[] constant "embed.embed_scale") -> (%d) {
  %a = mul(%x, %f) : f32[3] at "model.rotary_emb" "RotaryEmbedding" [Mul "n"]
  %c = mul(%a, %t) : f32[3] at "model.layers.0.self_attn" "Attention" [Mul "n"]
  %d = mul(%c, %b) : f32[3]
}
)"),
                     report),
              text(R"(
func @main(%x: f32[3] input "x") -> (%d) {
  %f = constant() {value = <f32[3] dense [0.5, 1.0, 2.5]>} : f32[3]
  %t = constant() {value = <f32[3] dense [0.5, 1.0, 2.5]>} : f32[3]
  %b = constant() {value = <f32[] splat 0.5>} : f32[]
  %a = mul(%x, %f) : f32[3]
  %c = mul(%a, %t) : f32[3]
  %d = mul(%c, %b) : f32[3]
}
)"));
    EXPECT_EQ(notes(report),
              "done constant at rotary_emb.inv_freq: a buffer, by its name\n"
              "done constant at mul_7: used in model.layers.0.self_attn (Attention), which is no layer with parameters "
              "of its own\n"
              "done constant at embed.embed_scale: a buffer, as the exporter says\n");
}

constexpr const char* two_norms = R"(
func @main(%x: f32[4,3] input "x", %w: f32[3] value "layers.0.norm.weight") -> (%b) {
  %a = mul(%x, %w) : f32[4,3] at "layers.0.norm" "RMSNorm" [Mul "n"]
  %b = mul(%a, %w) : f32[4,3] at "layers.1.norm" "RMSNorm" [Mul "m"]
}
)";

TEST(LiftParameters, MergedEqualParametersAreUntied) {
    Report report;
    EXPECT_EQ(lifted(with_data(two_norms, {{"layers.0.norm.weight", 1.0F}}), report), text(R"(
func @main(%x: f32[4,3] input "x", %layers.0.norm.weight: f32[3] parameter "layers.0.norm.weight", %layers.1.norm.weight: f32[3] parameter "layers.1.norm.weight") -> (%b) {
  %a = mul(%x, %layers.0.norm.weight) : f32[4,3]
  %b = mul(%a, %layers.1.norm.weight) : f32[4,3]
}
)"));
    EXPECT_EQ(
        notes(report),
        "done parameter at layers.1.norm.weight: from the initializer layers.0.norm.weight\n"
        "done untied at layers.0.norm.weight: one initializer of equal numbers was 2 parameters: layers.0.norm.weight, "
        "layers.1.norm.weight\n");
}

// Layers that were copied from one another: any numbers. The graph does not say so, thus aloud.
TEST(LiftParameters, CopiedLayersAreUntied) {
    Report report;
    EXPECT_EQ(lifted(with_data(two_norms), report), text(R"(
func @main(%x: f32[4,3] input "x", %layers.0.norm.weight: f32[3] parameter "layers.0.norm.weight", %layers.1.norm.weight: f32[3] parameter "layers.1.norm.weight") -> (%b) {
  %a = mul(%x, %layers.0.norm.weight) : f32[4,3]
  %b = mul(%a, %layers.1.norm.weight) : f32[4,3]
}
)"));
    EXPECT_NE(notes(report).find("warning untied at layers.0.norm.weight"), std::string::npos) << notes(report);
}

// As exporters merge what is equal, one of them may have begun as a copy of the other: said aloud.
TEST(LiftParameters, ModulesOfDifferentKindsAreATie) {
    Report report;
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[4,3] input "x", %w: f32[3] value "layers.0.norm.weight") -> (%b) {
  %a = mul(%x, %w) : f32[4,3] at "layers.0.norm" "RMSNorm" [Mul "n"]
  %b = mul(%a, %w) : f32[4,3] at "head.norm" "RMSNorm" [Mul "m"]
}
)"),
                     report),
              text(R"(
func @main(%x: f32[4,3] input "x", %layers.0.norm.weight: f32[3] parameter "layers.0.norm.weight" {alias 0 = ["head.norm.weight"]}) -> (%b) {
  %a = mul(%x, %layers.0.norm.weight) : f32[4,3]
  %b = mul(%a, %layers.0.norm.weight) : f32[4,3]
}
)"));
    EXPECT_NE(notes(report).find("warning tied at 1 parameter: layers.0.norm.weight also head.norm.weight: one "
                                 "initializer each, trained as one parameter. The graph does not say that"),
              std::string::npos)
        << notes(report);
}

// Must not change: one module that is called twice.
TEST(LiftParameters, OneModuleCalledTwiceIsOneParameter) {
    constexpr const char* ir = R"(
func @main(%x: f32[4,3] input "x", %layer.norm.weight: f32[3] parameter "layer.norm.weight") -> (%b) {
  %a = mul(%x, %layer.norm.weight) : f32[4,3] at "layer.norm" "RMSNorm" [Mul "n"]
  %b = mul(%a, %layer.norm.weight) : f32[4,3] at "layer.norm" "RMSNorm" [Mul "m"]
}
)";
    Report report;
    EXPECT_EQ(lifted(with_data(ir), report), text(ir));
    EXPECT_EQ(notes(report), "");
}

// The exporter says which parameter each traced node took: a layer that stands in a list twice is one, whatever its
// numbers are.
TEST(LiftParameters, ALayerThatIsListedTwiceStaysTied) {
    Report report;
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[4,3] input "x", %w: f32[3] value "layers.1.norm.weight") -> (%b) {
  %a = mul(%x, %w) : f32[4,3] at "layers.0.norm" "RMSNorm" [Mul "n"] reads "layers.1.norm.weight"
  %b = mul(%a, %w) : f32[4,3] at "layers.1.norm" "RMSNorm" [Mul "m"] reads "layers.1.norm.weight"
}
)",
                               {{"layers.1.norm.weight", 1.0F}}),
                     report),
              text(R"(
func @main(%x: f32[4,3] input "x", %layers.1.norm.weight: f32[3] parameter "layers.1.norm.weight" {alias 0 = ["layers.0.norm.weight"]}) -> (%b) {
  %a = mul(%x, %layers.1.norm.weight) : f32[4,3]
  %b = mul(%a, %layers.1.norm.weight) : f32[4,3]
}
)"));
    EXPECT_EQ(notes(report).find("warning"), std::string::npos) << notes(report);
}

// What the traced nodes took also tells the framework's names: of a module that has its weights itself, and of a weight
// and a bias that are the same zeros.
TEST(LiftParameters, TracedNamesAreTheFrameworks) {
    Report report;
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[4,3] input "x", %w: f32[3,3] value "val_2", %b: f32[3] parameter "a.0.attn.in_proj_bias") -> (%f) {
  %c = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,3] at "a.0.attn" "MultiheadAttention" [MatMul "n"] reads "a.0.attn.in_proj_weight", "a.0.attn.in_proj_bias"
  %d = add(%c, %b) : f32[4,3] at "a.0.attn" "MultiheadAttention" [Add "n"] reads "a.0.attn.in_proj_weight", "a.0.attn.in_proj_bias"
  %e = add(%d, %b) : f32[4,3] at "a.1.attn" "MultiheadAttention" [Add "m"] reads "a.1.attn.in_proj_weight", "a.1.attn.in_proj_bias"
  %f = mul(%e, %b) : f32[4,3] at "a.1.norm" "LayerNorm" [Mul "k"] reads "a.1.norm.weight", "a.1.norm.bias"
}
)"),
                     report),
              text(R"(
func @main(%x: f32[4,3] input "x", %a.0.attn.in_proj_weight: f32[3,3] parameter "a.0.attn.in_proj_weight", %a.0.attn.in_proj_bias: f32[3] parameter "a.0.attn.in_proj_bias", %a.1.attn.in_proj_bias: f32[3] parameter "a.1.attn.in_proj_bias", %a.1.norm.weight: f32[3] parameter "a.1.norm.weight") -> (%f) {
  %transpose = transpose(%a.0.attn.in_proj_weight) {permutation = [1, 0]} : f32[3,3]
  %c = matmul(%x, %transpose) {transpose_a = false, transpose_b = false} : f32[4,3]
  %d = add(%c, %a.0.attn.in_proj_bias) : f32[4,3]
  %e = add(%d, %a.1.attn.in_proj_bias) : f32[4,3]
  %f = mul(%e, %a.1.norm.weight) : f32[4,3]
}
)"));
    EXPECT_EQ(notes(report).find("warning"), std::string::npos) << notes(report);
}

TEST(LiftParameters, ATieIsNamedAfterTheEmbedding) {
    EXPECT_EQ(lifted(with_data(R"(
func @main(%ids: i64[2] input "ids", %w: f32[5,3] parameter "lm_head.weight") -> (%y) {
  %e = gather(%w, %ids) {axis = 0} : f32[2,3] at "model.embed_tokens" "Embedding" [Gather "g"]
  %t = transpose(%w) {permutation = [1, 0]} : f32[3,5] at "lm_head" "Linear" [Transpose "t"]
  %y = matmul(%e, %t) {transpose_a = false, transpose_b = false} : f32[2,5] at "lm_head" "Linear" [MatMul "m"]
}
)")),
              text(R"(
func @main(%ids: i64[2] input "ids", %model.embed_tokens.weight: f32[5,3] parameter "model.embed_tokens.weight" {alias 0 = ["lm_head.weight"]}) -> (%y) {
  %e = gather(%model.embed_tokens.weight, %ids) {axis = 0} : f32[2,3]
  %t = transpose(%model.embed_tokens.weight) {permutation = [1, 0]} : f32[3,5]
  %y = matmul(%e, %t) {transpose_a = false, transpose_b = false} : f32[2,5]
}
)"));
}

// The table is named after a head of which nothing is left in its own scope.
TEST(LiftParameters, ATableNamedAfterAnotherModuleIsATie) {
    EXPECT_EQ(lifted(with_data(R"(
func @main(%ids: i64[2] input "ids", %w: f32[5,3] parameter "lm_head.weight") -> (%e) {
  %e = gather(%w, %ids) {axis = 0} : f32[2,3] at "model.embed_tokens" "Embedding" [Gather "g"]
}
)")),
              text(R"(
func @main(%ids: i64[2] input "ids", %model.embed_tokens.weight: f32[5,3] parameter "model.embed_tokens.weight" {alias 0 = ["lm_head.weight"]}) -> (%e) {
  %e = gather(%model.embed_tokens.weight, %ids) {axis = 0} : f32[2,3]
}
)"));
}

constexpr const char* two_copies = R"(
func @main(%ids: i64[2] input "ids", %w: f32[5,3] parameter "embed.weight", %v: f32[3,5] value "val_9") -> (%y) {
  %e = gather(%w, %ids) {axis = 0} : f32[2,3] at "embed" "Embedding" [Gather "g"]
  %y = matmul(%e, %v) {transpose_a = false, transpose_b = false} : f32[2,5] at "lm_head" "Linear" [MatMul "m"]
}
)";

TEST(LiftParameters, TwoCopiesOfOneMatrixAreATie) {
    Module module = with_data(two_copies);
    std::vector<float> table(15), turned(15);
    for (std::size_t k = 0; k < 15; ++k) table[k] = static_cast<float>(k * k);
    for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 3; ++c) turned[c * 5 + r] = table[r * 3 + c];
    module.main().argument_info[1].sources = {source_of(Type::tensor(DType::f32, {5, 3}), table)};
    module.main().argument_info[2].sources = {source_of(Type::tensor(DType::f32, {3, 5}), turned)};
    const Module copy = module;
    Report report;
    EXPECT_EQ(lifted(std::move(module), report), text(R"(
func @main(%ids: i64[2] input "ids", %embed.weight: f32[5,3] parameter "embed.weight" {alias 0 = ["lm_head.weight"]}) -> (%y) {
  %e = gather(%embed.weight, %ids) {axis = 0} : f32[2,3]
  %transpose = transpose(%embed.weight) {permutation = [1, 0]} : f32[3,5]
  %y = matmul(%e, %transpose) {transpose_a = false, transpose_b = false} : f32[2,5]
}
)"));
    // A head that began as a copy looks the same.
    EXPECT_NE(
        notes(report).find("warning tied at embed.weight: also lm_head.weight: two initializers of equal content. "
                           "The graph does not say that they are one parameter"),
        std::string::npos)
        << notes(report);
    // Two that the model gave names of their own are two, whatever their numbers.
    Module named = copy;
    named.main().argument_info[2].names = {"lm_head.weight"};
    Report apart;
    const std::string two = lifted(std::move(named), apart);
    EXPECT_NE(two.find("parameter \"embed.weight\",\n"), std::string::npos) << two;
    EXPECT_NE(two.find("parameter \"lm_head.weight\")"), std::string::npos) << two;
    EXPECT_NE(notes(apart).find("warning untied at lm_head.weight: holds the numbers of embed.weight, and is trained "
                                "apart from it"),
              std::string::npos)
        << notes(apart);
}

// The traced nodes say which parameter they read, whatever the numbers: without any it is a tie, and equal ones of two
// parameters are none.
TEST(LiftParameters, TracedNodesSayWhatIsATie) {
    const auto traced = [](const std::string& of_head) {
        std::string ir = two_copies;
        ir.replace(ir.find("[Gather \"g\"]"), 12, "[Gather \"g\"] reads \"embed.weight\"");
        ir.replace(ir.find("[MatMul \"m\"]"), 12, "[MatMul \"m\"] reads \"" + of_head + "\"");
        return ir;
    };
    const std::string tied = text(R"(
func @main(%ids: i64[2] input "ids", %embed.weight: f32[5,3] parameter "embed.weight" {alias 0 = ["lm_head.weight"]}) -> (%y) {
  %e = gather(%embed.weight, %ids) {axis = 0} : f32[2,3]
  %transpose = transpose(%embed.weight) {permutation = [1, 0]} : f32[3,5]
  %y = matmul(%e, %transpose) {transpose_a = false, transpose_b = false} : f32[2,5]
}
)");
    EXPECT_EQ(lifted(with_data(traced("embed.weight"))), tied);  // which have other numbers
    EXPECT_EQ(lifted(parse_module("module \"m\" values\n" + traced("embed.weight"))), tied);
    Module module = with_data(traced("lm_head.weight"));
    std::vector<float> table(15), turned(15);
    for (std::size_t k = 0; k < 15; ++k) table[k] = static_cast<float>(k * k);
    for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 3; ++c) turned[c * 5 + r] = table[r * 3 + c];
    module.main().argument_info[1].sources = {source_of(Type::tensor(DType::f32, {5, 3}), table)};
    module.main().argument_info[2].sources = {source_of(Type::tensor(DType::f32, {3, 5}), turned)};
    EXPECT_EQ(lifted(std::move(module)), text(R"(
func @main(%ids: i64[2] input "ids", %embed.weight: f32[5,3] parameter "embed.weight", %lm_head.weight: f32[5,3] parameter "lm_head.weight") -> (%y) {
  %e = gather(%embed.weight, %ids) {axis = 0} : f32[2,3]
  %transpose = transpose(%lm_head.weight) {permutation = [1, 0]} : f32[3,5]
  %y = matmul(%e, %transpose) {transpose_a = false, transpose_b = false} : f32[2,5]
}
)"));
}

TEST(LiftParameters, DifferentOrUniformCopiesAreNoTie) {
    const std::string apart = text(R"(
func @main(%ids: i64[2] input "ids", %embed.weight: f32[5,3] parameter "embed.weight", %lm_head.weight: f32[5,3] parameter "lm_head.weight") -> (%y) {
  %e = gather(%embed.weight, %ids) {axis = 0} : f32[2,3]
  %transpose = transpose(%lm_head.weight) {permutation = [1, 0]} : f32[3,5]
  %y = matmul(%e, %transpose) {transpose_a = false, transpose_b = false} : f32[2,5]
}
)");
    EXPECT_EQ(lifted(with_data(two_copies)), apart);
    EXPECT_EQ(lifted(with_data(two_copies, {{"embed.weight", 0.0F}, {"val_9", 0.0F}})), apart);
}

TEST(LiftParameters, FoldedArithmeticIsNamedAsSuch) {
    Report report;
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[4,3] input "x", %v: f32[3] value "add_4", %w: f32[3] value "add_7", %b: f32[3] value "onnx::Mul_9") -> (%z) {
  %y = mul(%x, %v) : f32[4,3] at "layers.0.norm" "GemmaRMSNorm" [Mul "n"]
  %y1 = mul(%y, %w) : f32[4,3] at "layers.1.norm" "GemmaRMSNorm" [Mul "m"]
  %z = mul(%y1, %b) : f32[4,3] at "norm" [Mul "k"]
}
)"),
                     report),
              text(R"(
func @main(%x: f32[4,3] input "x", %layers.0.norm.weight_folded_add: f32[3] parameter "layers.0.norm.weight_folded_add" {note = "the exporter evaluated add over the parameter; this is not the checkpoint's tensor"}, %layers.1.norm.weight_folded_add: f32[3] parameter "layers.1.norm.weight_folded_add" {note = "the exporter evaluated add over the parameter; this is not the checkpoint's tensor"}, %norm.weight_folded: f32[3] parameter "norm.weight_folded" {note = "the exporter evaluated something over the parameter; this is not the checkpoint's tensor"}) -> (%z) {
  %y = mul(%x, %layers.0.norm.weight_folded_add) : f32[4,3]
  %y1 = mul(%y, %layers.1.norm.weight_folded_add) : f32[4,3]
  %z = mul(%y1, %norm.weight_folded) : f32[4,3]
}
)"));
    EXPECT_EQ(
        notes(report),
        "done parameter at layers.0.norm.weight_folded_add: from the initializer add_4\n"
        "done parameter at layers.1.norm.weight_folded_add: from the initializer add_7\n"
        "done parameter at norm.weight_folded: from the initializer onnx::Mul_9\n"
        "warning folded at layers.{0..1}.norm.weight_folded_add: holds what the exporter evaluated (add), not the "
        "parameter. Loading and saving it under the checkpoint's name would be wrong. Export with optimize=False "
        "to keep the parameter.\n"
        "warning folded at norm.weight_folded: holds what the exporter evaluated (something), not the parameter. "
        "Loading and saving it under the checkpoint's name would be wrong. Export with optimize=False to keep the "
        "parameter.\n");
}

constexpr const char* nameless = R"(
func @main(%x: f32[4,3] input "x", %w: f32[3,3] value "val_1", %c: f32[4,3] value "val_2") -> (%z) {
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,3]
  %z = sub(%y, %c) : f32[4,3]
}
)";

TEST(LiftParameters, WhatNothingDecidesIsAskedFor) {
    EXPECT_EQ(message_of(with_data(nameless)),
              "error: nothing says whether val_2 is a parameter or a constant\n"
              "  found: val_2 [4,3], operand of sub\n"
              "help: --trainable '^val_2$' if it is to be trained, --constant '^val_2$' if not\n");
    EXPECT_EQ(message_of(with_data(R"(
func @main(%x: f32[4,3] input "x", %a: f32[4,3] value "t_1", %b: f32[3] value "t_2", %w: f32[3,3] value "t_3") -> (%z) {
  %y = div(%x, %a) : f32[4,3]
  %e = mul(%y, %b) : f32[4,3]
  %z = matmul(%e, %w) {transpose_a = false, transpose_b = false} : f32[4,3]
}
)")),
              "error: nothing says whether 2 tensors are parameters or constants\n"
              "  found: t_1 [4,3], operand of div; t_2 [3], operand of mul\n"
              "help: --trainable '^(t_1|t_2)$' if they are to be trained, --constant '^(t_1|t_2)$' if not\n");
}

TEST(LiftParameters, TheUserDecides) {
    Report report;
    EXPECT_EQ(lifted(with_data(nameless, {{"val_1", 0.25F}}), report, {{"^val_2$"}, {"^val_1$"}}), text(R"(
func @main(%x: f32[4,3] input "x", %sub.weight: f32[4,3] parameter "sub.weight") -> (%z) {
  %w = constant() {value = <f32[3,3] splat 0.25>} : f32[3,3]
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,3]
  %z = sub(%y, %sub.weight) : f32[4,3]
}
)"));
    EXPECT_EQ(
        notes(report),
        "done constant at val_1: by --constant\n"
        "done modules at main: the graph names none: they are called after what they compute\n"
        "done parameter at sub.weight: from the initializer val_2\n"
        "warning names at m: the graph names neither modules nor parameters: they are called after what they do, so "
        "no checkpoint of the framework fits without renaming\n");
}

TEST(LiftParameters, BadExpression) {
    Report report;
    try {
        lift_parameters(with_data(nameless), {{"("}, {}}, report);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: --trainable \"(\" is not a regular expression\n"
                  "help: for example: --trainable 'model\\.layers\\.[0-9]+\\..*'\n");
    }
}

TEST(LiftParameters, ExpressionsThatMatchNothingOrContradict) {
    EXPECT_EQ(message_of(with_data(nameless), {{"no_such"}, {}}),
              "error: --trainable no_such matches no tensor of the graph\n"
              "help: thunderc inspect lists parameters, and constants with the reason why they are\n");
    // Each of several, though another one finds what there is.
    EXPECT_EQ(message_of(with_data(nameless), {{}, {"^val_1$", "no_such"}}),
              "error: --constant no_such matches no tensor of the graph\n"
              "help: thunderc inspect lists parameters, and constants with the reason why they are\n");
    EXPECT_EQ(message_of(with_data(nameless), {{"^val_1$"}, {"val_[12]"}}),
              "error: both --constant and --trainable match val_1\n"
              "help: make one of the two expressions narrower\n");
}

TEST(LiftParameters, AConstantWhoseDataIsMissing) {
    Report report;
    Module module = with_data(nameless);
    auto missing = std::make_shared<WeightSource>(*module.main().argument_info[2].sources.front());
    missing->read = nullptr;
    missing->missing = "model.onnx.data";
    module.main().argument_info[2].sources = {missing};
    try {
        lift_parameters(std::move(module), {{}, {"^val_2$"}}, report);
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: the constant val_2 is in the external file model.onnx.data, which is missing\n"
                  "help: put the file beside the model: constants are compiled into the program\n");
    }
}

TEST(LiftParameters, UnusedInitializersGo) {
    Report report;
    EXPECT_EQ(lifted(with_data(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "pooler.weight") -> (%y) {
  %y = neg(%x) : f32[3]
}
)"),
                     report),
              text(R"(
func @main(%x: f32[3] input "x") -> (%y) {
  %y = neg(%x) : f32[3]
}
)"));
    EXPECT_EQ(notes(report), "done unused at pooler.weight: nothing reads it: left out\n");
}

}  // namespace lift_parameters_test
}  // namespace thunderc
