// SPDX-License-Identifier: Apache-2.0
// Operators of ATen beside PyTorch: what each gives, and the gradients of a sum of them all by what went in. PyTorch
// computed in fp64 from inputs in f32; so does the evaluator.
#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/recognise/choose_outputs.h"
#include "tests/frontend/pt2_archive.h"

namespace thunderc {
namespace pt2_operators_test {

// Of both formats whose calls are ATen's.
class Pt2Operators : public testing::TestWithParam<const char*> {};

// Numbers are stored in f32 (6e-8 of their size), and sums over a group's results cancel by a factor of 100.
void expect_close(const Tensor& is, const Tensor& wanted, double tolerance, const std::string& what) {
    ASSERT_EQ(is.size(), wanted.size()) << what;
    double size = 1;
    for (const double v : wanted.f) size = std::max(size, std::isfinite(v) ? std::abs(v) : 0);
    for (std::int64_t k = 0; k < is.size(); ++k)
        EXPECT_NEAR(is.at(k), wanted.at(k), tolerance * size) << what << " [" << k << "]";
}

TEST_P(Pt2Operators, GiveWhatPyTorchGives) {
    const std::string file = std::string("pt2_operators/") + GetParam(), group = file.substr(0, file.rfind('.'));
    const std::map<std::string, Tensor> numbers = tensors(group + ".safetensors");
    const Module module = import_model(fixture(file), {});
    verify(module);
    const Function& main = module.main();
    std::vector<Tensor> arguments;
    std::map<std::string, std::string> inputs;  // as the file calls them -> as the numbers are called
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        if (info.kind == ArgInfo::Kind::input)
            inputs.emplace(info.names.front(), "inputs_" + std::to_string(inputs.size()));
        arguments.push_back(info.kind == ArgInfo::Kind::input ? numbers.at("in." + inputs.at(info.names.front()))
                                                              : stored_numbers(info, main.type(main.arguments[k])));
    }
    const std::vector<Tensor> results = evaluate(module, main, std::span<const Tensor>(arguments));
    for (std::size_t k = 0; k < results.size(); ++k)
        expect_close(results[k], numbers.at("out." + main.result_names[k]), 1e-6, main.result_names[k]);

    Report report;
    DifferentiateOptions options;
    options.wanted = [](const ArgInfo& info) { return info.kind == ArgInfo::Kind::input; };
    const Module backward = differentiate(choose_outputs(module, {"loss"}), options, report);
    std::map<std::string, Tensor> given;
    for (std::size_t k = 0; k < arguments.size(); ++k) given.emplace(main.argument_info[k].names.front(), arguments[k]);
    arguments.clear();
    for (std::size_t k = 0; k < backward.main().arguments.size(); ++k) {
        const std::string& name = backward.main().argument_info[k].names.front();
        arguments.push_back(given.contains(name) ? given.at(name) : Tensor::scalar(DType::f32, 1));
    }
    const std::vector<Tensor> gradients = evaluate(backward, backward.main(), std::span<const Tensor>(arguments));
    std::size_t compared = 0;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        const std::string& name = backward.main().result_names[k];
        const auto input =
            std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return name == "d" + i.first; });
        if (input == inputs.end()) continue;
        const auto wanted = numbers.find("grad." + input->second);
        if (wanted == numbers.end()) continue;
        ++compared;
        expect_close(gradients[k], wanted->second, 1e-6, name);
    }
    std::size_t there = 0;
    for (const auto& [name, tensor] : numbers) there += name.starts_with("grad.") ? 1 : 0;
    EXPECT_EQ(compared, there);
}

INSTANTIATE_TEST_SUITE_P(Groups, Pt2Operators,
                         testing::Values("elementwise.pt2", "activations.pt2", "shapes.pt2", "writes.pt2",
                                         "reductions.pt2", "products.pt2", "indices.pt2", "networks.pt2", "losses.pt2",
                                         "windows.pt2", "distances.pt2", "complex.pt2", "control.pt2", "grids.pt2",
                                         "edges.pt2", "composites.pt2"),
                         [](const auto& info) {
                             return std::string(info.param).substr(0, std::string(info.param).find('.'));
                         });

// Traced: nothing says shapes and types but thunderc's own rules. What is computed without gradients a trace does not
// tell, nor what of writes is a copy.
INSTANTIATE_TEST_SUITE_P(Traced, Pt2Operators,
                         testing::Values("elementwise.pt", "activations.pt", "shapes.pt", "reductions.pt",
                                         "products.pt", "indices.pt", "losses.pt", "windows.pt", "complex.pt"),
                         [](const auto& info) {
                             return std::string(info.param).substr(0, std::string(info.param).find('.'));
                         });

}  // namespace pt2_operators_test
}  // namespace thunderc
