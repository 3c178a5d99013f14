// SPDX-License-Identifier: Apache-2.0
// What the exporter's optimizer copies for each of its uses is one parameter again, by what the calls name and by the
// numbers; what a call made up is a constant; what torch's exporter drops of a loss is there. The graphs are torch's
// default exports (scripts/make_restored_fixtures.py).
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "compiler/frontend/onnx/model_file.h"
#include "compiler/frontend/onnx/tie_parameters.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace tied_test {

using onnx_frontend::TiedParameters;

std::shared_ptr<onnx::ModelProto> graph_of(const std::string& model) {
    return onnx_frontend::read_model(fixture(model + "/fresh.logits.onnx"));
}

std::optional<std::vector<std::byte>> raw(const onnx::TensorProto& tensor) {
    const auto* data = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    return std::vector<std::byte>(data, data + tensor.raw_data().size());
}

std::optional<std::vector<std::byte>> absent(const onnx::TensorProto&) {
    return std::nullopt;
}

TiedParameters tied(onnx::GraphProto& graph, const onnx_frontend::ReadBytes& read) {
    return tie_parameters(graph, onnx_frontend::TracedProgram(graph), read);
}

std::map<std::string, int> copies(const TiedParameters& tied) {
    std::map<std::string, int> out;
    for (const auto& tie : tied.tied) ++out[tie.parameter];
    return out;
}

// Three uses of each product: two copies too many.
const std::map<std::string, int> copies_of_layers = {
    {"model.dense.weight", 2}, {"model.key.weight", 2}, {"model.query.weight", 2}, {"model.value.weight", 2}};

TEST(Tied, WhatCallsNameIsOneParameter) {
    for (const onnx_frontend::ReadBytes& read : {onnx_frontend::ReadBytes(raw), onnx_frontend::ReadBytes(absent)}) {
        const auto model = graph_of("shared_layers");
        const TiedParameters got = tied(*model->mutable_graph(), read);
        EXPECT_EQ(copies(got), copies_of_layers);
        EXPECT_TRUE(got.different.empty() && got.ambiguous.empty());
    }
}

TEST(Tied, OtherNumbersStayApart) {
    const auto model = graph_of("shared_layers");
    onnx::GraphProto& graph = *model->mutable_graph();
    const TiedParameters before = tied(*graph_of("shared_layers")->mutable_graph(), raw);
    ASSERT_FALSE(before.tied.empty());
    for (auto& tensor : *graph.mutable_initializer())
        if (tensor.name() == before.tied.front().copy) tensor.mutable_raw_data()->front() ^= 1;
    const TiedParameters got = tied(graph, raw);
    ASSERT_EQ(got.different.size(), 1U);
    EXPECT_EQ(got.different.front().copy, before.tied.front().copy);
    EXPECT_EQ(got.tied.size() + 1, before.tied.size());
}

// Names of the scales of two layer norms that read one initializer of ones, as TorchScript's exporter writes them:
// `second` is the module of the second norm; `others` are more initializers.
std::vector<std::string> scales(const std::string& second, const std::string& others = "",
                                const std::string& more = "") {
    onnx::ModelProto model;
    const std::string text =
        "<ir_version: 9, opset_import: [\"\" : 17], producer_name: \"pytorch\"> g (float[2,3] x) => (float[2,3] y) "
        "<float[3] \"n.weight\" = {1, 1, 1}" +
        others +
        "> { [\"/n/LayerNormalization\"] \"/n/LayerNormalization_output_0\" = "
        "LayerNormalization (x, \"n.weight\") [\"/act/Relu\"] \"/act/Relu_output_0\" = Relu "
        "(\"/n/LayerNormalization_output_0\") [\"/" +
        second + "/LayerNormalization\"] y" + (more.empty() ? "" : "0") +
        " = LayerNormalization (\"/act/Relu_output_0\", \"n.weight\") " + more + "}";
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-tied-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    Report report;
    const Module module =
        lift_parameters(fold_constants(import_model(path, CompileOptions(), report), report), {}, report);
    std::filesystem::remove(path);
    std::vector<std::string> out;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter) out.push_back(info.names.front());
    std::sort(out.begin(), out.end());
    return out;
}

// Equal by initialisation, unless something shows that the model has one: the exporter's number for a second call, or
// that it left equal ones apart.
TEST(Tied, OnesThatTwoNormsRead) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(scales("m"), (Names{"m.weight", "n.weight"}));
    EXPECT_EQ(scales("n_1"), Names{"n.weight"});
    EXPECT_EQ(scales("n_2"), Names{"n.weight"});
    EXPECT_EQ(scales("n_a"), (Names{"n.weight", "n_a.weight"}));
    const std::string third = "[\"/k/LayerNormalization\"] y = LayerNormalization (y0, \"k.weight\")";
    EXPECT_EQ(scales("m", ", float[3] \"k.weight\" = {1, 1, 1}", third), (Names{"k.weight", "n.weight"}));
    EXPECT_EQ(scales("m", ", float[3] \"k.weight\" = {1, 1, 2}", third), (Names{"k.weight", "m.weight", "n.weight"}));
}

// The table's transpose is named by no call: its numbers say what it is, and nothing does without them.
TEST(Tied, NumbersTellATransposedTable) {
    const auto model = graph_of("shared_table");
    onnx::GraphProto& graph = *model->mutable_graph();
    EXPECT_EQ(copies(tied(graph, raw)), (std::map<std::string, int>{{"model.shared.weight", 1}}));
    ASSERT_EQ(graph.node(0).op_type(), "Transpose");
    EXPECT_EQ(graph.node(0).input(0), "model.shared.weight");
    EXPECT_TRUE(tied(*graph_of("shared_table")->mutable_graph(), absent).tied.empty());
}

// A table of equal numbers could be anything.
TEST(Tied, EqualNumbersTellNothing) {
    const auto model = graph_of("shared_table");
    for (auto& tensor : *model->mutable_graph()->mutable_initializer())
        if (tensor.data_type() == onnx::TensorProto::FLOAT)
            tensor.mutable_raw_data()->assign(tensor.raw_data().size(), 0);
    const TiedParameters got = tied(*model->mutable_graph(), raw);
    EXPECT_TRUE(got.tied.empty());
    EXPECT_EQ(got.alike.size(), 1U);
}

// x wᵀ, where w is a weight of these dimensions, read as a matrix of as many rows as its first; of another call.
onnx::GraphProto product_of(const std::vector<std::int64_t>& dims) {
    onnx::GraphProto graph;
    std::int64_t columns = 1;
    for (std::size_t d = 1; d < dims.size(); ++d) columns *= dims[d];
    const std::int64_t rows = dims[0];
    std::vector<float> numbers(static_cast<std::size_t>(rows * columns)), turned(numbers.size());
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
            turned[static_cast<std::size_t>(c * rows + r)] = numbers[static_cast<std::size_t>(r * columns + c)] =
                static_cast<float>(100 * r + c);
    const auto add = [&](const char* name, const std::vector<std::int64_t>& shape, const std::vector<float>& data) {
        onnx::TensorProto* tensor = graph.add_initializer();
        tensor->set_name(name);
        tensor->set_data_type(onnx::TensorProto::FLOAT);
        for (const std::int64_t dim : shape) tensor->add_dims(dim);
        tensor->set_raw_data(std::string(reinterpret_cast<const char*>(data.data()), 4 * data.size()));
    };
    add("conv.weight", dims, numbers);
    add("t", {columns, rows}, turned);
    graph.add_input()->set_name("x");
    graph.add_output()->set_name("matmul");
    onnx::NodeProto* node = graph.add_node();
    node->set_op_type("MatMul");
    node->add_input("x");
    node->add_input("t");
    node->add_output("matmul");
    onnx::StringStringEntryProto* call = node->add_metadata_props();
    call->set_key("pkg.torch.onnx.fx_node");
    call->set_value(
        "%matmul : [num_users=1] = call_function[target=torch.ops.aten.matmul.default](args = (%x, %t), kwargs = {})");
    onnx::StringStringEntryProto* signature = graph.add_metadata_props();
    signature->set_key("pkg.torch.export.ExportedProgram.graph_signature");
    signature->set_value("p_conv_weight: PARAMETER target='conv.weight'\nx: USER_INPUT\nmatmul: USER_OUTPUT");
    return graph;
}

// A weight of a convolution of volumes is found in any order; of what has more dimensions nothing is claimed.
TEST(Tied, OrdersOfManyDimensions) {
    for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{4, 6}, {4, 3, 2}, {4, 3, 2, 2, 2}}) {
        onnx::GraphProto graph = product_of(dims);
        EXPECT_EQ(copies(tied(graph, raw)), (std::map<std::string, int>{{"conv.weight", 1}}));
    }
    onnx::GraphProto graph = product_of({4, 3, 2, 2, 2, 2});
    const TiedParameters got = tied(graph, raw);
    EXPECT_TRUE(got.tied.empty());
    EXPECT_FALSE(got.unmatched.contains("t"));
}

// Without the signature nobody knows what a parameter is: the graph stays as it is.
TEST(Tied, NothingWithoutTheSignature) {
    const auto model = graph_of("shared_layers");
    onnx::GraphProto& graph = *model->mutable_graph();
    graph.clear_metadata_props();
    const std::string before = graph.SerializeAsString();
    EXPECT_TRUE(tied(graph, raw).tied.empty());
    EXPECT_EQ(graph.SerializeAsString(), before);
}

// The norm without weights begins with the same ones as the one that has them, and trains none.
TEST(Tied, TheModelHasItsParametersAndNoOthers) {
    for (const std::string name : {"shared_layers", "shared_table"}) {
        Report report;
        CompileOptions options;
        if (name == "shared_table") options.batch = 2, options.seq = 8;
        Module module = import_model(fixture(name + "/fresh.logits.onnx"), options, report);
        module = lift_parameters(fold_constants(std::move(module), report), {}, report);
        verify(module);
        std::map<std::string, Dims> parameters, expected;
        const Function& main = module.main();
        for (std::size_t k = 0; k < main.arguments.size(); ++k)
            if (main.argument_info[k].kind == ArgInfo::Kind::parameter)
                parameters[main.argument_info[k].names.front()] = main.type(main.arguments[k]).dims;
        const nlohmann::json wanted = reference(name).at("parameters");
        for (const auto& [parameter, shape] : wanted.items()) expected[parameter] = shape.get<Dims>();
        EXPECT_EQ(parameters, expected);
        for (const Note& note : report.notes) EXPECT_NE(note.kind, Note::Kind::warning) << note.what << note.text;
    }
}

TEST(Smoothed, TheLossIsPyTorchs) {
    std::ifstream in(fixture("smoothed/cases.json"));
    const nlohmann::json cases = nlohmann::json::parse(in);
    Tensor x(Type::tensor(DType::f32, {6, 5})), labels(Type::tensor(DType::i64, {6}));
    x.f = cases.at("x").get<std::vector<double>>();
    labels.i = cases.at("labels").get<std::vector<std::int64_t>>();
    for (const auto& [name, loss] : cases.at("loss").items()) {
        Report report;
        const Module module = import_model(fixture("smoothed/" + name + ".onnx"), {}, report);
        const std::vector<Tensor> arguments = {x, labels};
        const std::vector<Tensor> got = evaluate(module, module.main(), std::span<const Tensor>(arguments));
        // In double on both sides, but for the constants, which are of f32.
        EXPECT_NEAR(got.at(0).at(0), loss.get<double>(), 1e-6 * loss.get<double>()) << name;
        EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(), [](const Note& n) {
            return n.what == "label smoothing";
        })) << name;
    }
}

TEST(Smoothed, OtherFormsAreRefusedByName) {
    for (const char* name : {"weighted", "rows"}) {
        Report report;
        try {
            import_model(fixture(std::string("smoothed/") + name + ".onnx"), {}, report);
            ADD_FAILURE() << name;
        } catch (const UserError& error) {
            EXPECT_NE(error.diagnostic().message.find("label smoothing"), std::string::npos) << name;
        }
    }
}

}  // namespace tied_test
}  // namespace thunderc
