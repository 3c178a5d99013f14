// SPDX-License-Identifier: Apache-2.0
// Parameters that TorchScript's exporter made one of since they began equal are themselves again. The graphs have the
// names and nodes that torch 2.13 writes with dynamo=False.
#include <fmt/format.h>
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <fstream>

#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace split_test {

struct Lifted {
    std::map<std::string, std::vector<std::string>> parameters;  // with their other names
    std::vector<std::string> warnings;
};

Lifted lifted(const std::string& body, const std::function<void(onnx::ModelProto&)>& change = {}) {
    onnx::ModelProto model;
    const std::string text =
        "<ir_version: 8, producer_name: \"pytorch\", producer_version: \"2.13.0\", opset_import: [\"\": 17]> " + body;
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    for (auto& node : *model.mutable_graph()->mutable_node())  // the parser keeps no names of nodes with a slash
        if (node.op_type() != "Identity" && node.output(0).starts_with("/"))
            node.set_name(node.output(0).substr(0, node.output(0).find("_output_")));
    if (change) change(model);
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-split-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    Report report;
    Module module = lift_parameters(fold_constants(import_model(path, CompileOptions(), report), report), {}, report);
    std::filesystem::remove(path);
    verify(module);
    Lifted out;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter) out.parameters[info.names.front()] = info.aliases.front();
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::warning) out.warnings.push_back(note.what + ", " + note.where);
    return out;
}

using Names = std::map<std::string, std::vector<std::string>>;

// Norms of one layer that is called twice: two parameters each, and not one for each call.
TEST(Split, NormsOfALayerThatIsCalledTwice) {
    const Lifted got = lifted(R"(g (float[3,4] x) => (float[3,4] y)
        <float[4] "layer.ln1.weight" = {1, 1, 1, 1}, float[4] "layer.ln1.bias" = {0, 0, 0, 0}> {
      "layer.ln2.weight" = Identity("layer.ln1.weight")
      "layer.ln2.bias" = Identity("layer.ln1.bias")
      "/layer/ln1/LayerNormalization_output_0" = LayerNormalization<axis = -1>(x, "layer.ln1.weight", "layer.ln1.bias")
      "/layer/Tanh_output_0" = Tanh("/layer/ln1/LayerNormalization_output_0")
      "/layer/ln2/LayerNormalization_output_0" = LayerNormalization<axis = -1>("/layer/Tanh_output_0", "layer.ln2.weight", "layer.ln2.bias")
      "/layer/ln1_1/LayerNormalization_output_0" = LayerNormalization<axis = -1>("/layer/ln2/LayerNormalization_output_0", "layer.ln1.weight", "layer.ln1.bias")
      "/layer/Tanh_1_output_0" = Tanh("/layer/ln1_1/LayerNormalization_output_0")
      y = LayerNormalization<axis = -1>("/layer/Tanh_1_output_0", "layer.ln2.weight", "layer.ln2.bias")
    })",
                              [](onnx::ModelProto& model) {
                                  model.mutable_graph()->mutable_node(7)->set_name("/layer/ln2_1/LayerNormalization");
                              });
    const Names want = {{"layer.ln1.weight", {"layer.ln1_1.weight"}},
                        {"layer.ln1.bias", {"layer.ln1_1.bias"}},
                        {"layer.ln2.weight", {"layer.ln2_1.weight"}},
                        {"layer.ln2.bias", {"layer.ln2_1.bias"}}};
    EXPECT_EQ(got.parameters, want);
    EXPECT_EQ(got.warnings, std::vector<std::string>{"untraced, detach() and dropout"});  // as always
}

// Numbers and vectors by hand, whose names no layer tells; copies of copies.
TEST(Split, NamesThatNoLayerHas) {
    const Lifted got = lifted(R"(g (float[3,4] x) => (float[3,4] y)
        <float[4] "norm.g" = {1, 1, 1, 1}, float "scales.0" = {1}> {
      "last.g" = Identity("norm.g")
      "end.g" = Identity("last.g")
      "scales.1" = Identity("scales.0")
      "/norm/Mul_output_0" = Mul(x, "norm.g")
      "/Mul_output_0" = Mul("/norm/Mul_output_0", "scales.0")
      "/last/Mul_output_0" = Mul("/Mul_output_0", "last.g")
      "/Mul_1_output_0" = Mul("/last/Mul_output_0", "scales.1")
      "/end/Mul_output_0" = Mul("/Mul_1_output_0", "end.g")
      y = Tanh("/end/Mul_output_0")
    })");
    const Names want = {{"norm.g", {}}, {"last.g", {}}, {"end.g", {}}, {"scales.0", {}}, {"scales.1", {}}};
    EXPECT_EQ(got.parameters, want);
}

// A Linear of matrices has its weight as it is, one of three dimensions the exporter transposes: one parameter, unless
// the numbers are others.
TEST(Split, AWeightThatIsTransposedForSomeOfItsCalls) {
    const auto parameters = [](const std::string& transposed) {
        return lifted(R"(g (float[3,2] x) => (float[1,3,2] y)
        <float[2,2] "fc.weight" = {1, 2, 3, 4}, float[2,2] "onnx::MatMul_9" = )" +
                          transposed + R"(> {
      "/fc/Gemm_output_0" = Gemm<transB = 1>(x, "fc.weight")
      axis = Constant<value_ints = [0]>()
      "/Unsqueeze_output_0" = Unsqueeze("/fc/Gemm_output_0", axis)
      "/fc_1/MatMul_output_0" = MatMul("/Unsqueeze_output_0", "onnx::MatMul_9")
      y = Tanh("/fc_1/MatMul_output_0")
    })",
                      [](onnx::ModelProto& model) { model.mutable_graph()->mutable_node(3)->set_name("/fc/MatMul"); });
    };
    EXPECT_EQ(parameters("{1, 3, 2, 4}").parameters, (Names{{"fc.weight", {}}}));
    const Lifted other = parameters("{1, 3, 2, 5}");
    EXPECT_EQ(other.parameters, (Names{{"fc.weight", {}}, {"fc.weight_1", {}}}));
    EXPECT_EQ(other.warnings.back(), "parameter, fc.weight_1");
}

// W and W.T of a parameter without a module, as in an autoencoder with one matrix: what TorchScript's exporter folded
// is no parameter of its own, unless the numbers are others.
TEST(Split, AMatrixAndItsTranspose) {
    const auto parameters = [](const std::string& type, const std::string& transposed) {
        return lifted(fmt::format(R"(g (float[4,2] x) => (float[4,2] y)
        <float[2,3] W = {{3, 1, 4, 1.5, 9, 2}}, {} "onnx::MatMul_9" = {}> {{
      h = MatMul(x, W)
      t = Tanh(h)
      y = MatMul(t, "onnx::MatMul_9")
    }})",
                                  type, transposed));
    };
    const Lifted tied = parameters("float[3,2]", "{3, 1.5, 1, 9, 4, 2}");
    EXPECT_EQ(tied.parameters, (Names{{"W", {}}}));
    EXPECT_EQ(std::count(tied.warnings.begin(), tied.warnings.end(), "tied, W"), 1);
    EXPECT_EQ(parameters("float[3,2]", "{3, 1.5, 1, 9, 4, 7}").parameters.size(), 2u);
}

// A part of a parameter that the exporter evaluated, zeros as the bias of another module.
TEST(Split, WhatWasEvaluatedIsNoParameterWithAName) {
    const Lifted got = lifted(R"(g (float[3,4] x) => (float[3,4] y)
        <float[4] "a.weight" = {1, 1, 1, 1}, float[4] "a.bias" = {0, 0, 0, 0}> {
      "onnx::Add_9" = Identity("a.bias")
      "/a/LayerNormalization_output_0" = LayerNormalization<axis = -1>(x, "a.weight", "a.bias")
      "/b/norm/LayerNormalization_output_0" = LayerNormalization<axis = -1>("/a/LayerNormalization_output_0", "a.weight", "onnx::Add_9")
      y = Tanh("/b/norm/LayerNormalization_output_0")
    })");
    EXPECT_EQ(got.parameters.count("a.bias"), 1U);
    EXPECT_EQ(got.parameters.count("b.norm.bias_folded"), 1U);
    EXPECT_EQ(got.parameters.size(), 3U);
}

// A module that gives its operand back, what the exporter evaluated, and what is a result of the graph are no
// parameters of their own.
TEST(Split, OtherNodesStay) {
    const Lifted got = lifted(R"(g (float[3,4] x) => (float[3,4] y, float[4] shown)
        <float[4] "a.weight" = {1, 1, 1, 1}, float[4,4] "onnx::MatMul_7" = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}> {
      "/a/Identity_output_0" = Identity("a.weight")
      shown = Identity("a.weight")
      "onnx::MatMul_9" = Identity("onnx::MatMul_7")
      "/a/Mul_output_0" = Mul(x, "/a/Identity_output_0")
      "/fc/MatMul_output_0" = MatMul("/a/Mul_output_0", "onnx::MatMul_7")
      "/fc/Tanh_output_0" = Tanh("/fc/MatMul_output_0")
      "/fc_1/MatMul_output_0" = MatMul("/fc/Tanh_output_0", "onnx::MatMul_9")
      y = Tanh("/fc_1/MatMul_output_0")
    })");
    const Names want = {{"a.weight", {}}, {"fc.weight", {"fc_1.weight"}}};
    EXPECT_EQ(got.parameters, want);
}

}  // namespace split_test
}  // namespace thunderc
