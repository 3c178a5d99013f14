// SPDX-License-Identifier: Apache-2.0
// Every importer against ONNX's own reference implementation: graphs of single operators, with what it computed.
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace operators_test {

class Operators : public testing::TestWithParam<int> {};

TEST_P(Operators, AgreeWithOnnxReference) {
    const std::string name = "frontend/operators_" + std::to_string(GetParam());
    Report report;
    // Numbers that importing asked for are no arguments any more after lifting.
    const Module module = lift_parameters(imported(name + ".onnx"), {}, report);
    const std::map<std::string, Tensor> data = tensors(name + ".safetensors");
    std::vector<Tensor> arguments;
    for (std::size_t k = 0; k < module.main().arguments.size(); ++k) {
        Tensor t = data.at(module.main().argument_info[k].names.front());
        t.type.dtype = module.main().type(module.main().arguments[k]).dtype;
        arguments.push_back(std::move(t));
    }
    const std::vector<Tensor> results = evaluate(module, module.main(), std::span<const Tensor>(arguments));
    for (std::size_t r = 0; r < results.size(); ++r) {
        const std::string& output = module.main().result_names[r];
        const Tensor& want = data.at(output);
        ASSERT_EQ(results[r].type.dims, want.type.dims) << output;
        ASSERT_EQ(results[r].floating(), want.floating()) << output;
        for (std::int64_t k = 0; k < want.size(); ++k) {
            if (!want.floating()) {  // not every one is a double
                ASSERT_EQ(results[r].i[static_cast<std::size_t>(k)], want.i[static_cast<std::size_t>(k)])
                    << output << " " << k;
                continue;
            }
            const double a = results[r].at(k), b = want.at(k);
            if (std::isnan(b)) {
                ASSERT_TRUE(std::isnan(a)) << output << " " << k;
                continue;
            }
            if (std::isinf(b)) {
                ASSERT_EQ(a, b) << output << " " << k;
                continue;
            }
            // The reference rounds to f32 at each step: 6e-8 for each of some ten operations of size one.
            ASSERT_NEAR(a, b, 2e-6 * std::max(1.0, std::abs(b))) << output << " " << k;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Opsets, Operators, testing::Values(13, 17, 20, 23));

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

TEST(BatchNormalization, TakesTheStatisticsThatItIsGiven) {
    onnx::ModelProto model;
    const auto status =
        onnx::OnnxParser::Parse(model,
                                "<ir_version: 10, opset_import: [\"\" : 20]> g (float[2,2,1] x, float[2] s, float[2] "
                                "b, float[2] m, float[2] v) "
                                "=> (float[2,2,1] y) { y = BatchNormalization <epsilon = 0.5> (x, s, b, m, v) }");
    ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-norm-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    const Module module = import_model(path, CompileOptions());
    std::filesystem::remove(path);
    const std::vector<double> x = {1, -2, 3, 0.5}, s = {2, -1}, b = {0.25, 4}, m = {0.5, -1}, v = {1.5, 8.5};
    std::vector<Tensor> arguments;
    for (const std::vector<double>& numbers : {x, s, b, m, v})
        arguments.emplace_back(module.main().type(module.main().arguments[arguments.size()])).f = numbers;
    const Tensor y = evaluate(module, module.main(), std::span<const Tensor>(arguments)).at(0);
    for (std::size_t k = 0; k < x.size(); ++k) {
        const std::size_t c = k % 2;
        // In double on both sides.
        EXPECT_NEAR(y.f[k], (x[k] - m[c]) / std::sqrt(v[c] + 0.5) * s[c] + b[c], 1e-12);
    }
}

// The mean over classes is recognised through the logarithm of a softmax, too.
TEST(ImportLosses, LossesOfClassesAreCrossEntropies) {
    const Module module = imported("frontend/nll.onnx");
    std::vector<std::string> names;
    for (const Op& op : module.main().ops) names.push_back(op.name);
    EXPECT_EQ(std::count(names.begin(), names.end(), "cross_entropy"), 1);
    EXPECT_EQ(names.back(), "div");
}

}  // namespace operators_test
}  // namespace thunderc
