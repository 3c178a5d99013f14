// SPDX-License-Identifier: Apache-2.0
// Functions of a model, whatever stands before them.
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cmath>
#include <functional>

#include "compiler/interpreter/evaluate.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace functions_test {

// A function of torch that is several nodes, of the recorded graph of all of them, behind so many other nodes.
std::vector<double> function_behind(const std::string& name, int others,
                                    const std::vector<std::vector<double>>& inputs) {
    std::ifstream in(fixture("kinks/noopt.onnx"), std::ios::binary);
    onnx::ModelProto all, model;
    EXPECT_TRUE(all.ParseFromIstream(&in));
    model.set_ir_version(all.ir_version());
    *model.mutable_opset_import() = all.opset_import();
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name(name);
    const Type type = Type::tensor(DType::f32, {static_cast<std::int64_t>(inputs.front().size())});
    for (const auto& input : all.graph().input())
        if (input.name().starts_with(name + "_")) {
            auto& shape = *graph.add_input();
            shape = input;
            shape.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(type.dims[0]);
        }
    for (int k = 0; k < others; ++k) {
        onnx::NodeProto& node = *graph.add_node();
        node.set_op_type("Neg");
        node.add_input(graph.input(0).name());
        node.add_output("other_" + std::to_string(k));
    }
    for (const auto& node : all.graph().node())
        for (const auto& entry : node.metadata_props())
            if (entry.value().starts_with("%" + name + " :")) *graph.add_node() = node;
    for (const auto& output : all.graph().output())
        if (output.name() == name) {
            *graph.add_output() = output;
            graph.mutable_output(0)->clear_type();
        }
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-function-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    const Module module = import_model(path, CompileOptions());
    std::filesystem::remove(path);
    verify(module);
    std::vector<Tensor> arguments;
    for (const std::vector<double>& numbers : inputs) arguments.emplace_back(type).f = numbers;
    return evaluate(module, module.main(), std::span<const Tensor>(arguments)).at(0).f;
}

// The list of ops moves as it grows, wherever that happens.
TEST(Functions, AreReadWhereverTheyStand) {
    const std::vector<double> x = {0.5, 1.25, 2.0, -0.75}, y = {0.25, 3.0, 1.0, 2.0};
    struct Case {
        std::string name;
        std::vector<std::vector<double>> inputs;
        std::function<double(double, double)> value;
    };
    const std::vector<Case> cases = {
        {"sinc", {x}, [](double a, double) { return std::sin(M_PI * a) / (M_PI * a); }},
        {"xlogy", {y, x}, [](double a, double b) { return b * std::log(a); }},
        {"logaddexp", {x, y}, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }},
    };
    for (const Case& c : cases)
        for (int others = 0; others <= 32; ++others) {
            const std::vector<double> got = function_behind(c.name, others, c.inputs);
            ASSERT_EQ(got.size(), x.size());
            for (std::size_t k = 0; k < x.size(); ++k) {
                const double want = c.value(c.inputs[0][k], c.inputs.back()[k]);
                // pi and ln 2 are f32's: half a rounding of 6e-8, times the angle of up to 2 pi
                EXPECT_NEAR(got[k], want, 1e-6) << c.name << " behind " << others << ", " << k;
            }
        }
}

}  // namespace functions_test
}  // namespace thunderc
