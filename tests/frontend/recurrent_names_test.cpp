// SPDX-License-Identifier: Apache-2.0
// Weights of recurrent layers that TorchScript's exporter evaluated are torch's parameters again. The graphs have the
// names that torch 2.13 writes with dynamo=False.
#include <onnx/defs/parser.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "compiler/interpreter/evaluate.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace recurrent_names_test {

// Tensors are called onnx::Op_1 and so on in a file, which the text form of ONNX cannot say: here onnx__Op_1.
Module imported(const std::string& body, const std::string& name = "/rnn/") {
    onnx::ModelProto model;
    const std::string text =
        "<ir_version: 8, producer_name: \"pytorch\", producer_version: \"2.13.0\", opset_import: [\"\": 17]> " + body;
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    const auto said = [](std::string& tensor) {
        if (tensor.starts_with("onnx__")) tensor.replace(0, 6, "onnx::");
    };
    int number = 0;
    for (auto& node : *model.mutable_graph()->mutable_node()) {
        node.set_name(name + node.op_type() + (number == 0 ? "" : "_" + std::to_string(number)));
        ++number;
        for (auto& input : *node.mutable_input()) said(input);
    }
    for (auto& tensor : *model.mutable_graph()->mutable_initializer()) said(*tensor.mutable_name());
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-recurrent-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    Report report;
    Module module = import_model(path, CompileOptions(), report);
    std::filesystem::remove(path);
    verify(module);
    // What else may have been evaluated cannot be told.
    const std::vector<ArgInfo>& infos = module.main().argument_info;
    const bool restored = std::any_of(infos.begin(), infos.end(), [](const ArgInfo& info) {
        return info.names.front().find("weight_ih") != std::string::npos;
    });
    const bool told = std::any_of(report.notes.begin(), report.notes.end(), [](const Note& note) {
        return note.kind == Note::Kind::warning && note.what == "restored";
    });
    EXPECT_EQ(told, restored);
    return module;
}

std::map<std::string, std::vector<float>> parameters(const Module& module) {
    std::map<std::string, std::vector<float>> out;
    for (const ArgInfo& info : module.main().argument_info) {
        if (info.kind == ArgInfo::Kind::input) continue;
        const std::vector<std::byte> bytes = info.sources.front()->read();
        std::vector<float>& numbers = out[info.names.front()];
        numbers.resize(bytes.size() / sizeof(float));
        std::memcpy(numbers.data(), bytes.data(), bytes.size());
    }
    return out;
}

// What the graph gives of its initializers' numbers.
std::vector<double> given(const Module& module) {
    const Function& f = module.main();
    const auto numbers = parameters(module);
    std::vector<Tensor> arguments;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        Tensor& t = arguments.emplace_back(f.type(f.arguments[k]));
        const auto at = numbers.find(f.argument_info[k].names.front());
        for (std::size_t e = 0; e < t.f.size(); ++e)
            t.f[e] = at == numbers.end() ? 0.25 * static_cast<double>(e) - 0.5 : static_cast<double>(at->second[e]);
    }
    return evaluate(module, f, std::span<const Tensor>(arguments)).at(0).f;
}

// One unit: the gates are the rows. ONNX has i, o, f, c and torch i, f, g, o.
std::string lstm(const std::string& w, const std::string& r, const std::string& b) {
    return "g (float[3,1,1] x) => (float[3,2,1,1] y) <float[2,4,1] " + w +
           " = {1, 2, 3, 4, 5, 6, 7, 8}, float[2,4,1] " + r + " = {-1, -2, -3, -4, -5, -6, -7, -8}, float[2,8] " + b +
           " = {10, 20, 30, 40, 50, 60, 70, 80, 11, 21, 31, 41, 51, 61, 71, 81}> { y = LSTM<hidden_size = 1, direction "
           "= \"bidirectional\">(x, " +
           w + ", " + r + ", " + b + ") }";
}

TEST(RecurrentNames, OfAnLstm) {
    const Module module = imported(lstm("onnx__LSTM_1", "onnx__LSTM_2", "onnx__LSTM_3"));
    const std::map<std::string, std::vector<float>> want = {
        {"rnn.weight_ih_l0", {1, 3, 4, 2}},           {"rnn.weight_ih_l0_reverse", {5, 7, 8, 6}},
        {"rnn.weight_hh_l0", {-1, -3, -4, -2}},       {"rnn.weight_hh_l0_reverse", {-5, -7, -8, -6}},
        {"rnn.bias_ih_l0", {10, 30, 40, 20}},         {"rnn.bias_hh_l0", {50, 70, 80, 60}},
        {"rnn.bias_ih_l0_reverse", {11, 31, 41, 21}}, {"rnn.bias_hh_l0_reverse", {51, 71, 81, 61}}};
    EXPECT_EQ(parameters(module), want);
    EXPECT_EQ(given(module), given(imported(lstm("w", "r", "b"))));
}

// ONNX has z, r, h and torch r, z, n; two units.
TEST(RecurrentNames, OfAGruWithoutBiases) {
    const auto gru = [](const std::string& w, const std::string& r) {
        return "g (float[2,1,1] x) => (float[2,1,1,2] y) <float[1,6,1] " + w + " = {1, 2, 3, 4, 5, 6}, float[1,6,2] " +
               r + " = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}> { y = GRU<hidden_size = 2, linear_before_reset = 1>(x, " +
               w + ", " + r + ") }";
    };
    const Module module = imported(gru("onnx__GRU_7", "onnx__GRU_8"));
    const std::map<std::string, std::vector<float>> want = {{"rnn.weight_ih_l0", {3, 4, 1, 2, 5, 6}},
                                                            {"rnn.weight_hh_l0", {3, 3, 4, 4, 1, 1, 2, 2, 5, 5, 6, 6}}};
    EXPECT_EQ(parameters(module), want);
    EXPECT_EQ(given(module), given(imported(gru("w", "r"))));
}

std::vector<std::string> names(const std::string& second, const std::string& names_of_second) {
    const Module module = imported(
        "g (float[2,1,1] x) => (float[2,1,1,1] z) <float[1,1,1] onnx__RNN_1 = {1}, float[1,1,1] onnx__RNN_2 = {2}, " +
        second +
        "> { y = RNN<hidden_size = 1>(x, onnx__RNN_1, onnx__RNN_2) s = Squeeze(y, one) z = RNN<hidden_size = 1>(s, " +
        names_of_second + ") }");
    std::vector<std::string> out;
    for (const auto& [name, numbers] : parameters(module)) out.push_back(name);
    return out;
}

TEST(RecurrentNames, LayersAreCounted) {
    const std::string one = ", int64[1] one = {1}";
    EXPECT_EQ(
        names("float[1,1,1] onnx__RNN_3 = {3}, float[1,1,1] onnx__RNN_4 = {4}" + one, "onnx__RNN_3, onnx__RNN_4"),
        (std::vector<std::string>{"rnn.weight_hh_l0", "rnn.weight_hh_l1", "rnn.weight_ih_l0", "rnn.weight_ih_l1"}));
    // A layer that kept its names counts.
    EXPECT_EQ(names("float[1,1,1] w = {3}, float[1,1,1] r = {4}" + one, "w, r"),
              (std::vector<std::string>{"r", "rnn.weight_hh_l0", "rnn.weight_ih_l0", "w"}));
}

// Nothing tells what two layers with the same numbers were.
TEST(RecurrentNames, EqualWeightsStayAsTheyAre) {
    const std::string one = ", int64[1] one = {1}";
    const std::vector<std::string> both = {"onnx::RNN_1", "onnx::RNN_2", "onnx::RNN_3", "onnx::RNN_4"};
    EXPECT_EQ(names("float[1,1,1] onnx__RNN_3 = {1}, float[1,1,1] onnx__RNN_4 = {4}" + one, "onnx__RNN_3, onnx__RNN_4"),
              both);
    EXPECT_EQ(names("float[1,1,1] onnx__RNN_3 = {3}, float[1,1,1] onnx__RNN_4 = {2}" + one, "onnx__RNN_3, onnx__RNN_4"),
              both);
    EXPECT_EQ(names("int64[1] one = {1}", "onnx__RNN_1, onnx__RNN_2"),
              (std::vector<std::string>{"onnx::RNN_1", "onnx::RNN_2"}));
}

// Shapes that are none of torch's, and names that the model gave.
TEST(RecurrentNames, OtherOperandsStay) {
    EXPECT_EQ(parameters(imported(lstm("w", "onnx__LSTM_2", "onnx__LSTM_3"))).count("w"), 1U);
    EXPECT_EQ(parameters(imported(lstm("onnx__LSTM_1", "onnx__LSTM_2", "onnx__LSTM_3"), "")).count("weight_ih_l0"), 1U)
        << "of the model itself";
}

}  // namespace recurrent_names_test
}  // namespace thunderc
