#include "compiler/transforms/lift_parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/support/error.h"
#include "tests/transforms/pass_test.h"

namespace thunderc {
namespace {

// What stands in for an exporter's file.
std::shared_ptr<const WeightSource> source_of(Type type, std::vector<float> values) {
    auto source = std::make_shared<WeightSource>();
    source->type = std::move(type);
    source->read = [values = std::move(values)] {
        std::vector<std::byte> bytes(values.size() * 4);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    };
    return source;
}

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

TEST(LiftParameters, DifferentNumbersInTwoScopesAreATie) {
    EXPECT_EQ(lifted(with_data(two_norms)), text(R"(
func @main(%x: f32[4,3] input "x", %layers.0.norm.weight: f32[3] parameter "layers.0.norm.weight" {alias 0 = ["layers.1.norm.weight"]}) -> (%b) {
  %a = mul(%x, %layers.0.norm.weight) : f32[4,3]
  %b = mul(%a, %layers.0.norm.weight) : f32[4,3]
}
)"));
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
    EXPECT_EQ(lifted(std::move(module)), text(R"(
func @main(%ids: i64[2] input "ids", %embed.weight: f32[5,3] parameter "embed.weight" {alias 0 = ["lm_head.weight"]}) -> (%y) {
  %e = gather(%embed.weight, %ids) {axis = 0} : f32[2,3]
  %transpose = transpose(%embed.weight) {permutation = [1, 0]} : f32[3,5]
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

std::string message_of(Module module, const LiftOptions& options = {}) {
    Report report;
    try {
        lift_parameters(std::move(module), options, report);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "no error";
}

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
    EXPECT_EQ(lifted(with_data(nameless, {{"val_1", 0.25F}}), report, {"^val_2$", "^val_1$"}), text(R"(
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

// ---- by structure, where names and scopes are gone
// ------------------------------------------------------------------------------------------------------------

// Numbers as somebody learned them: none of them equal, in no order.
std::vector<float> learned(std::int64_t n, unsigned seed = 1) {
    std::mt19937 bits(seed);
    std::vector<float> out(static_cast<std::size_t>(n));
    for (float& x : out) x = static_cast<float>(bits()) / 4294967296.0F - 0.5F;
    return out;
}

// Parses main and gives each initializer learned numbers, or by name others.
Module with_numbers(std::string_view text, const std::map<std::string, std::vector<float>>& given = {}) {
    Module module = parse_module("module \"m\" values\n" + std::string(text));
    verify(module);
    Function& main = module.main();
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        ArgInfo& info = main.argument_info[k];
        if (info.kind == ArgInfo::Kind::input) continue;
        const Type& type = main.type(main.arguments[k]);
        const auto at = given.find(info.names.front());
        info.sources = {
            source_of(type, at != given.end() ? at->second : learned(type.elements(), static_cast<unsigned>(k)))};
    }
    return module;
}

// "name: f32[2,3]" for each parameter, in order.
std::vector<std::string> parameters_of(const Module& module) {
    std::vector<std::string> out;
    for (std::size_t k = 0; k < module.main().arguments.size(); ++k)
        if (module.main().argument_info[k].kind == ArgInfo::Kind::parameter)
            out.push_back(module.main().argument_info[k].names.front() + ": " +
                          to_string(module.main().type(module.main().arguments[k])));
    return out;
}

std::vector<std::string> lifted_names(Module module, Report& report, const LiftOptions& options = {}) {
    module = lift_parameters(std::move(module), options, report);
    verify(module);
    return parameters_of(module);
}

std::vector<std::string> lifted_names(Module module, const LiftOptions& options = {}) {
    Report report;
    return lifted_names(std::move(module), report, options);
}

using Names = std::vector<std::string>;

// An embedding, a norm, a product that the exporter transposed, one that it did not, a bias, an MLP, a head.
constexpr const char* language = R"(
func @main(%ids: i64[2,3] input "ids", %t0: f32[9,4] value "t_0", %t1: f32[4] value "t_1", %t2: f32[4,6] value "t_2", %t3: f32[6] value "t_3", %t4: f32[4,6] value "t_4", %t5: f32[9,4] value "t_5") -> (%y) {
  %x = gather(%t0, %ids) {axis = 0} : f32[2,3,4]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %q = pow(%x, %two) : f32[2,3,4]
  %m = reduce_mean(%q) {axes = [-1], keep_dims = true} : f32[2,3,1]
  %e = add(%m, %eps) : f32[2,3,1]
  %r = rsqrt(%e) : f32[2,3,1]
  %n = mul(%x, %r) : f32[2,3,4]
  %s = mul(%t1, %n) : f32[2,3,4]
  %u = matmul(%s, %t2) {transpose_a = false, transpose_b = false} : f32[2,3,6]
  %b = add(%u, %t3) : f32[2,3,6]
  %a = relu(%b) : f32[2,3,6]
  %t = transpose(%t4) {permutation = [1, 0]} : f32[6,4]
  %d = matmul(%a, %t) {transpose_a = false, transpose_b = false} : f32[2,3,4]
  %h = add(%x, %d) : f32[2,3,4]
  %o = transpose(%t5) {permutation = [1, 0]} : f32[4,9]
  %y = matmul(%h, %o) {transpose_a = false, transpose_b = false} : f32[2,3,9]
}
)";

TEST(LiftByStructure, WhatItIsAnOperandOfMakesAParameter) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(language), report),
              (Names{"embedding.weight: f32[9,4]", "norm.weight: f32[4]", "mlp.up.weight: f32[6,4]",
                     "mlp.up.bias: f32[6]", "mlp.down.weight: f32[4,6]", "head.weight: f32[9,4]"}));
    EXPECT_EQ(notes(report),
              "done modules at main: the graph names none: they are called after what they compute\n"
              "done parameter at embedding.weight: table of an embedding, by structure; from the initializer t_0\n"
              "done parameter at norm.weight: scale of a norm, by structure; from the initializer t_1\n"
              "done parameter at mlp.up.weight: weight of a product, by structure; from the initializer t_2, "
              "transposed\n"
              "done parameter at mlp.up.bias: bias of a product, by structure; from the initializer t_3\n"
              "done parameter at mlp.down.weight: weight of a product, by structure; from the initializer t_4\n"
              "done parameter at head.weight: weight of a product, by structure; from the initializer t_5\n"
              "warning names at m: the graph names neither modules nor parameters: they are called after what they "
              "do, so no checkpoint of the framework fits without renaming\n");
}

// A name that is not of an exporter's making stays, and so does the orientation of what has it.
TEST(LiftByStructure, NamesThatSaySomethingStay) {
    std::string text = language;
    for (const auto& [from, to] : std::map<std::string, std::string>{
             {"\"t_0\"", "\"tokens\""}, {"\"t_2\"", "\"fc_in\""}, {"\"t_1\"", "\"ln_scale\""}})
        text.replace(text.find(from), from.size(), to);
    EXPECT_EQ(lifted_names(with_numbers(text)),
              (Names{"tokens: f32[9,4]", "ln_scale: f32[4]", "fc_in: f32[4,6]", "mlp.up.bias: f32[6]",
                     "mlp.down.weight: f32[4,6]", "head.weight: f32[9,4]"}));
}

TEST(LiftByStructure, EqualContentIsATie) {
    Module module = with_numbers(language, {{"t_5", learned(36)}, {"t_0", learned(36)}});
    Report report;
    module = lift_parameters(std::move(module), {}, report);
    EXPECT_EQ(parameters_of(module).front(), "embedding.weight: f32[9,4]");
    EXPECT_EQ(parameters_of(module).size(), 5U);
    EXPECT_EQ(module.main().argument_info[1].aliases.front(), Names{"head.weight"});
}

// The exporter keeps one initializer for all norms of a model as it was initialised.
TEST(LiftByStructure, EqualNormsAreUntiedAloud) {
    constexpr const char* text = R"(
func @main(%x: f32[2,4] input "x", %w: f32[4] value "t_0", %p: f32[4,4] value "t_1") -> (%z) {
  %a, %ra = rms_norm(%x, %w) {eps = 1e-05} : f32[2,4], f32[2]
  %b = matmul(%a, %p) {transpose_a = false, transpose_b = false} : f32[2,4]
  %z, %rz = rms_norm(%b, %w) {eps = 1e-05} : f32[2,4], f32[2]
}
)";
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(text, {{"t_0", {1, 1, 1, 1}}}), report),
              (Names{"norm_1.weight: f32[4]", "linear.weight: f32[4,4]", "norm_2.weight: f32[4]"}));
    EXPECT_NE(notes(report).find("warning untied at t_0: one initializer of equal numbers was 2 parameters: "
                                 "norm_1.weight, norm_2.weight. The graph does not say so"),
              std::string::npos);
    EXPECT_EQ(lifted_names(with_numbers(text)),  // different numbers: a tie
              (Names{"norm_1.weight: f32[4]", "linear.weight: f32[4,4]"}));
}

// Queries with a rotation and a mask, (B,NH,T,HS) = (1,1,T,4). The tables and the mask are what `given` says.
std::string attention(std::int64_t T) {
    return fmt::format(R"(
func @main(%x: f32[1,{0},4] input "x", %w: f32[4,4] value "t_0", %c: f32[1,1,{0},4] value "t_1", %s: f32[1,1,{0},4] value "t_2", %m: f32[1,1,{0},{0}] value "t_3") -> (%y) {{
  %p = matmul(%x, %w) {{transpose_a = false, transpose_b = false}} : f32[1,{0},4]
  %q = reshape(%p) {{dims = [1, 1, {0}, 4]}} : f32[1,1,{0},4]
  %qc = mul(%q, %c) : f32[1,1,{0},4]
  %q1 = slice(%q) {{axis = 3, begin = 0, end = 2, step = 1}} : f32[1,1,{0},2]
  %q2 = slice(%q) {{axis = 3, begin = 2, end = 4, step = 1}} : f32[1,1,{0},2]
  %qn = neg(%q2) : f32[1,1,{0},2]
  %qr = concat(%qn, %q1) {{axis = 3}} : f32[1,1,{0},4]
  %qs = mul(%qr, %s) : f32[1,1,{0},4]
  %r = add(%qc, %qs) : f32[1,1,{0},4]
  %k = transpose(%r) {{permutation = [0, 1, 3, 2]}} : f32[1,1,4,{0}]
  %a = matmul(%r, %k) {{transpose_a = false, transpose_b = false}} : f32[1,1,{0},{0}]
  %b = add(%a, %m) : f32[1,1,{0},{0}]
  %d = softmax(%b) {{axis = 3}} : f32[1,1,{0},{0}]
  %y = matmul(%d, %q) {{transpose_a = false, transpose_b = false}} : f32[1,1,{0},4]
}}
)",
                       T);
}

std::map<std::string, std::vector<float>> tables(std::int64_t T) {
    std::vector<float> cos, sin, mask;
    for (std::int64_t t = 0; t < T; ++t) {
        for (double frequency : {1.0, 0.01, 1.0, 0.01}) {
            cos.push_back(static_cast<float>(std::cos(frequency * static_cast<double>(t))));
            sin.push_back(static_cast<float>(std::sin(frequency * static_cast<double>(t))));
        }
        for (std::int64_t s = 0; s < T; ++s) mask.push_back(s <= t ? 0.0F : -std::numeric_limits<float>::infinity());
    }
    return {{"t_1", cos}, {"t_2", sin}, {"t_3", mask}};
}

TEST(LiftByStructure, RotaryTablesAndMasksDoNotTrain) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(attention(8), tables(8)), report),
              Names{"attention.query_key_value.weight: f32[4,4]"});
    EXPECT_NE(
        notes(report).find("done constant at t_1: sines and cosines of positions, by its numbers\n"
                           "done constant at t_2: sines and cosines of positions, by its numbers\n"
                           "done constant at t_3: holds -inf or the lowest number, as masks do, by its numbers\n"),
        std::string::npos)
        << notes(report);
}

// Of three positions, numbers say nothing; nor do they where they are missing, or where somebody has a rotation of
// his own. What the rotation is done with is no parameter all the same.
TEST(LiftByStructure, RotaryTablesAreKnownWithoutTheirNumbers) {
    auto given = tables(3);
    given["t_1"] = learned(12, 5);
    given["t_2"] = learned(12, 6);
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(attention(3), given), report),
              Names{"attention.query_key_value.weight: f32[4,4]"});
    EXPECT_NE(
        notes(report).find("done constant at t_1: nothing but tables of a rotation is made of it, by structure\n"),
        std::string::npos)
        << notes(report);
}

// A bias that depends on the distance, evaluated by the exporter, stands where a mask stands.
TEST(LiftByStructure, WhatIsAddedToScoresAndIsNoMaskIsAskedFor) {
    auto given = tables(8);
    given["t_3"] = learned(64, 7);
    EXPECT_EQ(message_of(with_numbers(attention(8), given)),
              "error: nothing says whether t_3 is a parameter or a constant\n"
              "  found: t_3 [1,1,8,8], operand of add\n"
              "help: --trainable '^t_3$' if it is to be trained, --constant '^t_3$' if not\n");
    EXPECT_EQ(lifted_names(with_numbers(attention(8), given), {"^t_3$", ""}).size(), 2U);
    EXPECT_EQ(lifted_names(with_numbers(attention(8), given), {"", "^t_3$"}).size(), 1U);
}

// cos(position * frequency), before it is folded: the positions come from an input.
TEST(LiftByStructure, WhatCosinesAreTakenOfDoesNotTrain) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(R"(
func @main(%x: f32[1,3,2] input "x", %positions: i64[1,3] input "positions", %f: f32[1,2] value "t_0") -> (%y) {
  %p = cast(%positions) {dtype = f32} : f32[1,3]
  %r = reshape(%p) {dims = [1, 3, 1]} : f32[1,3,1]
  %a = mul(%r, %f) : f32[1,3,2]
  %c = cos(%a) : f32[1,3,2]
  %y = mul(%x, %c) : f32[1,3,2]
}
)"),
                           report),
              Names{});
    EXPECT_EQ(notes(report), "done constant at t_0: nothing but tables of a rotation is made of it, by structure\n");
    // A frequency that is learned, of data: the same ops.
    EXPECT_EQ(message_of(with_numbers(R"(
func @main(%x: f32[1,3,2] input "x", %f: f32[1,2] value "t_0") -> (%y) {
  %a = mul(%x, %f) : f32[1,3,2]
  %y = sin(%a) : f32[1,3,2]
}
)")),
              "error: nothing says whether t_0 is a parameter or a constant\n"
              "  found: t_0 [1,2], operand of mul\n"
              "help: --trainable '^t_0$' if it is to be trained, --constant '^t_0$' if not\n");
}

// Rows looked up by positions and then turned with are no embedding, though ids of an input choose them.
TEST(LiftByStructure, RowsOfARotationAreNoEmbedding) {
    constexpr const char* text = R"(
func @main(%q: f32[1,1,3,4] input "q", %positions: i64[1,3] input "positions", %c: f32[9,4] value "t_1", %s: f32[9,4] value "t_2") -> (%r) {
  %c0 = gather(%c, %positions) {axis = 0} : f32[1,3,4]
  %s0 = gather(%s, %positions) {axis = 0} : f32[1,3,4]
  %c1 = reshape(%c0) {dims = [1, 1, 3, 4]} : f32[1,1,3,4]
  %s1 = reshape(%s0) {dims = [1, 1, 3, 4]} : f32[1,1,3,4]
  %qc = mul(%q, %c1) : f32[1,1,3,4]
  %q1 = slice(%q) {axis = 3, begin = 0, end = 2, step = 1} : f32[1,1,3,2]
  %q2 = slice(%q) {axis = 3, begin = 2, end = 4, step = 1} : f32[1,1,3,2]
  %qn = neg(%q2) : f32[1,1,3,2]
  %qr = concat(%qn, %q1) {axis = 3} : f32[1,1,3,4]
  %qs = mul(%qr, %s1) : f32[1,1,3,4]
  %r = add(%qc, %qs) : f32[1,1,3,4]
}
)";
    EXPECT_EQ(lifted_names(with_numbers(text)), Names{});
}

// Learned positions and sines of positions are looked up and added in the same way: the numbers tell them apart.
TEST(LiftByStructure, PositionsAddedToAnEmbedding) {
    constexpr const char* text = R"(
func @main(%ids: i64[1,8] input "ids", %e: f32[9,4] value "t_0", %p: f32[8,4] value "t_1") -> (%y) {
  %positions = constant() {value = <i64[8] affine 0.0 + [1.0]>} : i64[8]
  %a = gather(%e, %ids) {axis = 0} : f32[1,8,4]
  %b = gather(%p, %positions) {axis = 0} : f32[8,4]
  %y = add(%a, %b) : f32[1,8,4]
}
)";
    EXPECT_EQ(lifted_names(with_numbers(text)),
              (Names{"embedding.weight: f32[9,4]", "position_embedding.weight: f32[8,4]"}));
    EXPECT_EQ(lifted_names(with_numbers(text, {{"t_1", tables(8).at("t_2")}})), Names{"embedding.weight: f32[9,4]"});
    Module unread = with_numbers(text);
    auto missing = std::make_shared<WeightSource>(*unread.main().argument_info[2].sources.front());
    missing->read = nullptr;
    missing->missing = "model.onnx.data";
    unread.main().argument_info[2].sources = {missing};
    EXPECT_EQ(message_of(std::move(unread)).substr(0, 60),
              "error: nothing says whether t_1 is a parameter or a constant");
}

// A framework's name that is there stays, whatever the op that reads it would be called.
TEST(LiftByStructure, NamesOfTablesStay) {
    for (const char* positions :
         {"%b = gather(%p, %positions) {axis = 0} : f32[8,4]", "%b = gather(%p, %ids) {axis = 0} : f32[1,8,4]"})
        for (const char* rows : {"8", "12"}) {
            SCOPED_TRACE(fmt::format("{} rows, {}", rows, positions));
            EXPECT_EQ(lifted_names(with_numbers(fmt::format(R"(
func @main(%ids: i64[1,8] input "ids", %e: f32[9,4] value "t_0", %p: f32[{0},4] value "transformer.wpe.weight") -> (%y) {{
  %positions = constant() {{value = <i64[8] affine 0.0 + [1.0]>}} : i64[8]
  %a = gather(%e, %ids) {{axis = 0}} : f32[1,8,4]
  {1}
  %y = add(%a, %b) : f32[1,8,4]
}}
)",
                                                            rows, positions))),
                      (Names{"embedding.weight: f32[9,4]", fmt::format("transformer.wpe.weight: f32[{},4]", rows)}));
        }
}

// Nor does another op that reads the same tensor take it away, in whatever order they stand.
TEST(LiftByStructure, NamesOfTiesStay) {
    const std::vector<std::string> readers = {
        "%a = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,4]",
        "%b = gather(%w, %ids) {axis = 0} : f32[4,4]",
        "%c = gather(%w, %rows) {axis = 0} : f32[4,4]",
        "%d = slice(%w) {axis = 0, begin = 1, end = 5, step = 1} : f32[4,4]",
    };
    for (std::size_t one = 0; one < readers.size(); ++one)
        for (std::size_t two = 0; two < readers.size(); ++two) {
            if (one == two) continue;
            SCOPED_TRACE(readers[one] + "\n" + readers[two]);
            Report report;
            const Module m =
                lift_parameters(with_numbers(fmt::format(R"(
func @main(%x: f32[4,9] input "x", %ids: i64[4] input "ids", %w: f32[9,4] value "model.shared.weight") -> (%y) {{
  %rows = constant() {{value = <i64[4] affine 2.0 + [1.0]>}} : i64[4]
  {}
  {}
  %y = add({}, {}) : f32[4,4]
}}
)",
                                                         readers[one], readers[two], readers[one].substr(0, 2),
                                                         readers[two].substr(0, 2))),
                                {}, report);
            verify(m);
            const ArgInfo& weight = m.main().argument_info.back();
            EXPECT_EQ(weight.kind, ArgInfo::Kind::parameter);
            EXPECT_EQ(weight.names, std::vector<std::string>{"model.shared.weight"});
        }
}

// A triangle of ones that sums along positions is a matrix in a product, and learned by nobody; pruned weights look
// like it.
TEST(LiftByStructure, AMatrixOfZerosIsAskedFor) {
    std::vector<float> triangle;
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) triangle.push_back(c <= r ? 1.0F : 0.0F);
    constexpr const char* text = R"(
func @main(%x: f32[2,4] input "x", %w: f32[4,4] value "t_0") -> (%y) {
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[2,4]
}
)";
    EXPECT_EQ(message_of(with_numbers(text, {{"t_0", triangle}})),
              "error: nothing says whether t_0 is a parameter or a constant\n"
              "  found: t_0 [4,4], weight of a product, which holds two different numbers only in linear\n"
              "help: --trainable '^t_0$' if it is to be trained, --constant '^t_0$' if not\n");
    // What is zero throughout was initialised so.
    EXPECT_EQ(lifted_names(with_numbers(text, {{"t_0", std::vector<float>(16, 0.0F)}})),
              Names{"linear.weight: f32[4,4]"});
}

TEST(LiftByStructure, WhatNoGradientReachesIsAConstant) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(R"(
func @main(%x: f32[3] input "x", %t: f32[3] value "t_0") -> (%y) {
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %c = lt(%t, %zero) : bool[3]
  %y = select(%c, %x, %zero) : f32[3]
}
)"),
                           report),
              Names{});
    EXPECT_EQ(notes(report), "done constant at t_0: no gradient passes through lt, by structure\n");
}

// Three layers of a norm and an MLP; the norm of the second is called `name`.
std::string layers(const std::string& name) {
    std::string ops, arguments, x = "%x";
    for (int layer = 0; layer < 3; ++layer) {
        arguments += fmt::format(
            ", %n{0}: f32[4] value \"{1}\", %u{0}: f32[4,6] value \"val_{0}1\", %w{0}: f32[6,4] value \"val_{0}2\"",
            layer, layer == 1 ? name : fmt::format("val_{}0", layer));
        ops += fmt::format(R"(
  %a{0}, %r{0} = rms_norm({1}, %n{0}) {{eps = 1e-05}} : f32[2,4], f32[2]
  %b{0} = matmul(%a{0}, %u{0}) {{transpose_a = false, transpose_b = false}} : f32[2,6]
  %c{0} = relu(%b{0}) : f32[2,6]
  %d{0} = matmul(%c{0}, %w{0}) {{transpose_a = false, transpose_b = false}} : f32[2,4]
  %y{0} = add({1}, %d{0}) : f32[2,4])",
                           layer, x);
        x = fmt::format("%y{}", layer);
    }
    return fmt::format("func @main(%x: f32[2,4] input \"x\"{}) -> (%y2) {{{}\n}}\n", arguments, ops);
}

// Layers give modules their number; a parameter that kept its name gives all layers their path.
TEST(LiftByStructure, LayersAreNumbered) {
    EXPECT_EQ(
        lifted_names(with_numbers(layers("val_10"))),
        (Names{"layers.0.norm.weight: f32[4]", "layers.0.mlp.up.weight: f32[6,4]", "layers.0.mlp.down.weight: f32[4,6]",
               "layers.1.norm.weight: f32[4]", "layers.1.mlp.up.weight: f32[6,4]", "layers.1.mlp.down.weight: f32[4,6]",
               "layers.2.norm.weight: f32[4]", "layers.2.mlp.up.weight: f32[6,4]",
               "layers.2.mlp.down.weight: f32[4,6]"}));
    EXPECT_EQ(lifted_names(with_numbers(layers("net.blocks.5.ln.weight"))),
              (Names{"net.blocks.4.ln.weight_folded: f32[4]", "net.blocks.4.mlp.up.weight: f32[6,4]",
                     "net.blocks.4.mlp.down.weight: f32[4,6]", "net.blocks.5.ln.weight: f32[4]",
                     "net.blocks.5.mlp.up.weight: f32[6,4]", "net.blocks.5.mlp.down.weight: f32[4,6]",
                     "net.blocks.6.ln.weight_folded: f32[4]", "net.blocks.6.mlp.up.weight: f32[6,4]",
                     "net.blocks.6.mlp.down.weight: f32[4,6]"}));
}

// An activation times what none was taken of: a gated MLP; the activation's side is the gate.
TEST(LiftByStructure, GatedMlps) {
    EXPECT_EQ(lifted_names(with_numbers(R"(
func @main(%x: f32[2,4] input "x", %a: f32[4,6] value "t_0", %b: f32[4,6] value "t_1", %c: f32[6,4] value "t_2") -> (%y) {
  %u = matmul(%x, %a) {transpose_a = false, transpose_b = false} : f32[2,6]
  %g = matmul(%x, %b) {transpose_a = false, transpose_b = false} : f32[2,6]
  %t = relu(%g) : f32[2,6]
  %m = mul(%u, %t) : f32[2,6]
  %y = matmul(%m, %c) {transpose_a = false, transpose_b = false} : f32[2,4]
}
)")),
              (Names{"mlp.up.weight: f32[6,4]", "mlp.gate.weight: f32[6,4]", "mlp.down.weight: f32[4,6]"}));
}

TEST(LiftParameters, BadExpression) {
    Report report;
    try {
        lift_parameters(with_data(nameless), {"(", ""}, report);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: --trainable \"(\" is not a regular expression\n"
                  "help: for example: --trainable 'model\\.layers\\.[0-9]+\\..*'\n");
    }
}

TEST(LiftParameters, ExpressionsThatMatchNothingOrContradict) {
    EXPECT_EQ(message_of(with_data(nameless), {"no_such", ""}),
              "error: --trainable no_such matches no tensor of the graph\n"
              "help: thunderc inspect lists parameters, and constants with the reason why they are\n");
    EXPECT_EQ(message_of(with_data(nameless), {"^val_1$", "val_[12]"}),
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
        lift_parameters(std::move(module), {"", "^val_2$"}, report);
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

}  // namespace
}  // namespace thunderc
