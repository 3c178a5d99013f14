// SPDX-License-Identifier: Apache-2.0
// What importing makes of a graph: ops, types, provenance, arguments.
#include <cmath>

#include "compiler/analysis/batch_share.h"
#include "compiler/frontend/onnx/dropped_arguments.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/recognise/bound_indices.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "compiler/passes/simplify/simplify.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace import_test {

std::vector<std::string> op_names(const Module& module) {
    std::vector<std::string> out;
    for (const Op& op : module.main().ops) out.push_back(op.name);
    return out;
}

std::vector<Tensor> run(const Module& module, const std::vector<Tensor>& arguments) {
    return evaluate(module, module.main(), std::span<const Tensor>(arguments));
}

// The signature names what the traced calls took; values and buffers are none of it, nor is a longer name's beginning.
TEST(Import, ParametersThatTracedNodesTook) {
    onnx::GraphProto graph;
    auto* signature = graph.add_metadata_props();
    signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
    signature->set_value(
        "\n# inputs\np_a_0_in_proj_weight: PARAMETER target='a.0.in_proj_weight'\n"
        "p_a_0: PARAMETER target='a.0'\nb_mask: BUFFER target='mask'\nx: USER_INPUT\n\n# outputs\nlinear: "
        "USER_OUTPUT\n");
    onnx::NodeProto node;
    auto* call = node.add_metadata_props();
    call->set_key("pkg.torch.onnx.fx_node");
    call->set_value(
        "%linear : [num_users=1] = call_function[target=aten.linear](args = (%x, %p_a_0_in_proj_weight, "
        "%b_mask, %p_a_0_in_proj_weight), kwargs = {})");
    EXPECT_EQ(onnx_frontend::TracedProgram(graph).read_by(node), std::vector<std::string>{"a.0.in_proj_weight"});
    EXPECT_TRUE(onnx_frontend::TracedProgram(onnx::GraphProto()).read_by(node).empty());
    EXPECT_TRUE(onnx_frontend::TracedProgram(graph).read_by(onnx::NodeProto()).empty());
}

TEST(Import, ArgumentsOfATracedCall) {
    auto call = [](const std::string& text) {
        onnx::NodeProto node;
        auto* entry = node.add_metadata_props();
        entry->set_key("pkg.torch.onnx.fx_node");
        entry->set_value(text);
        return onnx_frontend::traced_call(node);
    };
    const auto norm = call(
        "%layer_norm_1 : [num_users=2] = call_function[target=torch.ops.aten.layer_norm.default](args = (%x, [4, 8], "
        "%p_w, %p_b, 1e-05), kwargs = {})");
    ASSERT_TRUE(norm);
    EXPECT_EQ(norm->result, "layer_norm_1");
    EXPECT_EQ(norm->target, "aten.layer_norm.default");
    EXPECT_EQ(norm->arguments, (std::vector<std::string>{"%x", "[4, 8]", "%p_w", "%p_b", "1e-05"}));
    const auto cat = call(
        "%cat : [num_users=1] = call_function[target=torch.ops.aten.cat.default](args = ([%a, %b],), kwargs = {})");
    ASSERT_TRUE(cat);
    EXPECT_EQ(cat->arguments, std::vector<std::string>{"[%a, %b]"});
    EXPECT_FALSE(call("%x"));
    EXPECT_FALSE(onnx_frontend::traced_call(onnx::NodeProto()));
}

// torch.nn.Embedding passes its padding_idx, or -1 where it has none.
TEST(Import, TheRowOfAnEmbeddingWithoutGradient) {
    auto index = [](const std::string& arguments) {
        onnx::NodeProto node;
        auto* call = node.add_metadata_props();
        call->set_key("pkg.torch.onnx.fx_node");
        call->set_value("%embedding : [num_users=1] = call_function[target=torch.ops.aten." + arguments);
        return onnx_frontend::padding_index(node);
    };
    EXPECT_EQ(index("embedding.default](args = (%p_weight, %input_ids, 0), kwargs = {})"), 0);
    EXPECT_EQ(index("embedding.default](args = (%p_weight, %input_ids, 12, False), kwargs = {})"), 12);
    EXPECT_EQ(index("embedding.default](args = (%p_weight, %input_ids, -1), kwargs = {})"), std::nullopt);
    EXPECT_EQ(index("embedding.default](args = (%p_weight, %input_ids), kwargs = {})"), std::nullopt);
    EXPECT_EQ(index("embedding.default](args = (%p_weight, %input_ids, %row), kwargs = {})"), std::nullopt);
    EXPECT_EQ(index("embedding.default](args = (%p_weight, %input_ids, 0"), std::nullopt);
    EXPECT_EQ(index("index_select.default](args = (%p_weight, %input_ids, 0), kwargs = {})"), std::nullopt);
    EXPECT_EQ(onnx_frontend::padding_index(onnx::NodeProto()), std::nullopt);
}

TEST(Import, MlpAsText) {
    EXPECT_EQ(to_string(imported("mlp/dynamo.logits.onnx").main()), R"(func @main(
    %x: f32[4,12] input "x" {batched},
    %model.net.0.weight: f32[16,12] parameter "net.0.weight",
    %model.net.0.bias: f32[16] parameter "net.0.bias",
    %model.net.2.weight: f32[16,16] parameter "net.2.weight",
    %model.net.2.bias: f32[16] parameter "net.2.bias",
    %model.net.4.weight: f32[5,16] parameter "net.4.weight",
    %model.net.4.bias: f32[5] parameter "net.4.bias") -> (%add_2 "logits") {
  %matmul = matmul(%x, %model.net.0.weight) {transpose_a = false, transpose_b = true} : f32[4,16] at "net.0" "Linear" [Gemm "node_linear"]
  %add = add(%matmul, %model.net.0.bias) : f32[4,16] at "net.0" "Linear" [Gemm "node_linear"]
  %relu = relu(%add) : f32[4,16] at "net.1" "ReLU" [Relu "node_relu"]
  %matmul_1 = matmul(%relu, %model.net.2.weight) {transpose_a = false, transpose_b = true} : f32[4,16] at "net.2" "Linear" [Gemm "node_linear_1"]
  %add_1 = add(%matmul_1, %model.net.2.bias) : f32[4,16] at "net.2" "Linear" [Gemm "node_linear_1"]
  %tanh = tanh(%add_1) : f32[4,16] at "net.3" "Tanh" [Tanh "node_tanh"]
  %matmul_2 = matmul(%tanh, %model.net.4.weight) {transpose_a = false, transpose_b = true} : f32[4,5] at "net.4" "Linear" [Gemm "node_linear_2"]
  %add_2 = add(%matmul_2, %model.net.4.bias) : f32[4,5] at "net.4" "Linear" [Gemm "node_linear_2"]
}
)");
}

// The exporters' ways to write the same MLP differ in nodes, not in what is computed: legacy exports have scopes in
// names alone.
TEST(Import, MlpVariantsHaveTheSameOps) {
    const std::vector<std::string> expected = op_names(imported("mlp/dynamo.logits.onnx"));
    for (const char* file : {"mlp/dyn.logits.onnx", "mlp/legacy.logits.onnx"}) {
        const Module module = imported(file);
        EXPECT_EQ(op_names(module), expected) << file;
        EXPECT_EQ(module.main().ops.front().provenance.scope, "net.0") << file;
    }
}

TEST(Import, ShapeArithmeticLeavesNoOps) {
    CompileOptions options;
    options.batch = 3;
    options.seq = 5;
    const Module module = import_model(fixture("frontend/dynamic.onnx"), options);
    verify(module);
    EXPECT_EQ(to_string(module.main(), {.provenance = false}), R"(func @main(
    %x: f32[3,5,6] input "x" {batched}) -> (%transpose "y", %constant "positions") {
  %reshape = reshape(%x) {dims = [3, 5, 2, 3]} : f32[3,5,2,3]
  %transpose = transpose(%reshape) {permutation = [0, 2, 1, 3]} : f32[3,2,5,3]
  %constant = constant() {value = <i64[5] affine 0.0 + [1.0]>} : i64[5]
}
)");
}

// Dynamic axes may be bound to other sizes than the exporter had in hand.
TEST(Import, DynamicLlamaAtAnotherSize) {
    CompileOptions options;
    options.batch = 3;
    options.seq = 5;
    const Module module = import_model(fixture("llama2/dyn.logits.onnx"), options);
    verify(module);
    EXPECT_EQ(module.main().type(module.main().results[0]), Type::tensor(DType::f32, {3, 5, 48}));
}

TEST(Import, IdsKnowTheirRange) {
    Report report;
    const Module module = bound_indices(imported("llama2/dynamo.logits.onnx"), report);
    const ArgInfo& ids = module.main().argument_info[0];
    EXPECT_EQ(ids.names.front(), "input_ids");
    EXPECT_EQ(ids.entries, 48);
    EXPECT_EQ(ids.source, "tokens");
    EXPECT_TRUE(ids.batched);
}

TEST(Import, ProvenanceOfAnOptimisedLlama) {
    const Module module = imported("llama2/dynamo.logits.onnx");
    bool found = false;
    for (const Op& op : module.main().ops) {
        if (op.provenance.nodes != std::vector<std::string>{"node_linear_1"}) continue;
        found = true;
        EXPECT_EQ(op.name, "matmul");
        EXPECT_EQ(op.provenance.scope, "model.layers.0.self_attn.k_proj");
        EXPECT_EQ(op.provenance.module_class, "Linear");
        EXPECT_EQ(op.provenance.node_ops, std::vector<std::string>{"MatMul"});
    }
    EXPECT_TRUE(found);
}

TEST(Import, WithoutMetadataThereAreNoScopes) {
    const Module module = imported("llama2/stripped.logits.onnx");
    for (const Op& op : module.main().ops) {
        EXPECT_EQ(op.provenance.scope, "");
        EXPECT_EQ(op.provenance.nodes.size(), 1U);
    }
}

// As a norm that a pass puts together from its parts is listed.
TEST(Import, NormsThatAreOneOperatorAreListed) {
    Report report;
    CompileOptions options;
    options.batch = 2;
    options.seq = 8;
    import_model(fixture("fresh_gpt2/fresh.logits.onnx"), options, report);
    std::vector<std::string> norms;
    for (const Note& note : report.notes)
        if (note.what == "layer_norm") norms.push_back(note.where + " " + note.text);
    EXPECT_EQ(norms, (std::vector<std::string>{
                         "transformer.h.0.ln_1 from LayerNormalization", "transformer.h.0.ln_2 from LayerNormalization",
                         "transformer.h.1.ln_1 from LayerNormalization", "transformer.h.1.ln_2 from LayerNormalization",
                         "transformer.ln_f from LayerNormalization"}));
}

TEST(Import, HalfPrecisionIsComputedInFloat32) {
    Report report;
    const Module module = import_model(fixture("frontend/half.onnx"), {}, report);
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_EQ(report.notes[0].what, "precision");
    EXPECT_EQ(report.notes[0].where, "the input x");
    EXPECT_EQ(report.notes[0].text, "is float16: computed in float32");
    const ArgInfo& bias = module.main().argument_info[1];
    EXPECT_EQ(bias.sources.front()->type, Type::tensor(DType::f32, {3}));
    const std::vector<std::byte> bytes = bias.sources.front()->read();
    std::vector<float> values(3);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(values, (std::vector<float>{0.5F, -2.0F, 65504.0F}));
}

TEST(Import, Bfloat16IsToldFromWhatIsOnlyComputedInFloat32) {
    CompileOptions asked;
    asked.dtype = "f32";
    CompileOptions library;
    library.transform = Transform::forward;
    for (const CompileOptions& options : {asked, library}) {
        Report report;
        import_model(fixture("frontend/bfloat16.onnx"), options, report);
        ASSERT_EQ(report.notes.size(), 1U);
        EXPECT_EQ(report.notes[0].kind, Note::Kind::warning);
        EXPECT_EQ(report.notes[0].text, "is bfloat16: computed in float32");
    }
}

TEST(Import, AGraphInBfloat16IsOneOfF32) {
    Report report;
    const Module module = import_model(fixture("frontend/bfloat16.onnx"), {}, report);
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_EQ(report.notes[0].where, "the input x");
    EXPECT_EQ(report.notes[0].kind, Note::Kind::done);
    EXPECT_EQ(report.notes[0].text, "is bfloat16: so are products, and the parameters once more in float32");
    EXPECT_EQ(module.main().argument_info[1].sources.front()->stored, DType::bf16);
    for (const ValueInfo& value : module.main().values) EXPECT_EQ(value.type.dtype, DType::f32);
    const ArgInfo& bias = module.main().argument_info[1];
    EXPECT_EQ(bias.sources.front()->type, Type::tensor(DType::f32, {3}));
    const std::vector<std::byte> bytes = bias.sources.front()->read();
    std::vector<float> values(3);
    ASSERT_EQ(bytes.size(), 12U);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(values, (std::vector<float>{0.5F, -2.0F, 65536.0F}));
}

TEST(Import, FunctionsOfTheModelAreInlined) {
    const Module module = imported("frontend/local_function.onnx");
    const std::vector<Tensor> y = run(module, {Tensor::floats({2, 3}, {1, 2, 3, 4, 5, 6})});
    EXPECT_EQ(y[0], Tensor::floats({2, 1}, {14, 77}));
    EXPECT_EQ(y[1], Tensor::floats({2}, {14, 77}));
    EXPECT_EQ(module.main().ops.front().provenance.nodes, std::vector<std::string>{"first"});
}

// HardSwish and Celu have no importer: their bodies stand in ONNX's schemas.
TEST(Import, FunctionBodiesOfOnnxAreExpanded) {
    const Module module = imported("frontend/schema_function.onnx");
    const std::vector<double> x = {-4, -1.5, -0.25, 0, 1, 5};
    const Tensor y = run(module, {Tensor::floats({2, 3}, x)})[0];
    for (std::size_t k = 0; k < x.size(); ++k) {
        const double h = x[k] * std::max(0.0, std::min(1.0, x[k] / 6 + 0.5));
        const double expected = std::max(0.0, h) + std::min(0.0, 2 * (std::exp(h / 2) - 1));
        EXPECT_NEAR(y.f[k], expected, 1e-7) << x[k];  // the body's 1/6 is an f32
    }
}

// Clip between -1 and 1/2, ten times Elu with alpha 1/2, a hundred times HardSigmoid with alpha 1/4, where each has a
// kink: torch 2.13's gradient of clamp + 10 elu + 100 hardsigmoid(1.5 x) in fp64.
TEST(Import, GradientsAtKinksAreTorchs) {
    Report report;
    DifferentiateOptions options;
    options.wanted = [](const ArgInfo& info) { return info.kind == ArgInfo::Kind::input; };
    const Module module = differentiate(imported("frontend/kinks.onnx"), options, report);
    verify(module);
    const Tensor x = Tensor::floats({8}, {-3, -2, -1, 0, 0.5, 1, 2, 3});
    const std::vector<Tensor> results = run(module, {x, Tensor::scalar(DType::f32, 1)});
    // 1e-6: 1/6 is an f32 in torch's hardsigmoid.
    const std::vector<double> expected = {0.24893534183931973,
                                          0.6766764161830635,
                                          27.83939795091527,
                                          31.00000074505806,
                                          36.00000074505806,
                                          35.00000074505806,
                                          10.0,
                                          10.0};
    EXPECT_NEAR(results.front().at(0), 464.2650089638796, 1e-6 * 464);
    ASSERT_EQ(results.back().size(), 8);
    for (std::int64_t k = 0; k < 8; ++k)
        EXPECT_NEAR(results.back().at(k), expected[static_cast<std::size_t>(k)], 1e-6 * 36) << x.at(k);
}

// torch.gather(x, 0, i) of indices that are fewer than the data along the other axis.
TEST(Import, GatherElementsOfFewerIndicesThanData) {
    const Module module = imported("frontend/gather_fewer.onnx");
    Tensor x(Type::tensor(DType::f32, {3, 4})), i(Type::tensor(DType::i64, {2, 3}));
    for (std::int64_t k = 0; k < 12; ++k) x.set(k, static_cast<double>(k));
    i.i = {2, 0, 1, 0, 1, -1};
    const Tensor y = run(module, {x, i}).front();
    EXPECT_EQ(y.type.dims, (Dims{2, 3}));
    EXPECT_EQ(y.f, (std::vector<double>{8, 1, 6, 0, 5, 10}));
}

// input_ids[:, :-1] + 2 in a table of 11 rows.
TEST(Import, IdsThatAreCutAndShiftedKnowTheirRange) {
    Report report;
    const Module module = bound_indices(imported("frontend/shifted_ids.onnx"), report);
    EXPECT_EQ(module.main().argument_info[0].entries, 9);
}

TEST(Import, IfOnAConstantTakesTheBranch) {
    EXPECT_EQ(op_names(imported("frontend/if_constant.onnx")), std::vector<std::string>{"neg"});
}

TEST(Import, ExternalDataIsReadWhenAsked) {
    const Module module = imported("frontend/external.onnx");
    const std::vector<std::byte> bytes = module.main().argument_info[1].sources.front()->read();
    ASSERT_EQ(bytes.size(), 48U);
    float last = 0;
    std::memcpy(&last, bytes.data() + 44, 4);
    EXPECT_EQ(last, 11.0F / 7.0F);
}

TEST(Import, PrintedFormIsReadBack) {
    for (const char* file : {"mlp/noopt.loss.onnx", "llama2/noopt.loss.onnx", "llama2/dyn.logits.onnx"}) {
        const Module module = imported(file);
        EXPECT_EQ(to_string(parse_module(to_string(module))), to_string(module)) << file;
    }
}

// Of a batch of one row x[0] is all of it, and of no larger one: what its loss is to a batch is the same for all sizes.
TEST(Import, ARowIsNoBatch) {
    using Kind = BatchShare::Kind;
    const std::map<std::string, Kind> losses = {
        {"all", Kind::mean},   {"all_counted", Kind::mean}, {"position", Kind::mean},   {"first", Kind::other},
        {"last", Kind::other}, {"up_to_one", Kind::other},  {"from_last", Kind::other}, {"picked", Kind::other}};
    for (const auto& [name, kind] : losses)
        for (const std::int64_t batch : {1, 2, 3}) {
            CompileOptions options;
            options.batch = batch;
            Report report;
            Module module = import_model(fixture("evaluated/rows_" + name + ".onnx"), options, report);
            module = lift_parameters(fold_constants(std::move(module), report), {}, report);
            module = simplify_model(std::move(module), report);
            const Function& main = module.main();
            EXPECT_EQ(batch_shares(main)[main.results[0].index].kind, kind) << name << " " << batch;
        }
}

}  // namespace import_test
}  // namespace thunderc
