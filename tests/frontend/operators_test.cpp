// Every importer against ONNX's own reference implementation: graphs of single operators, with what it computed.
#include <algorithm>
#include <cmath>

#include "compiler/analysis/evaluate.h"
#include "compiler/transforms/lift_parameters.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace {

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

// The mean over classes is recognised through the logarithm of a softmax, too.
TEST(ImportLosses, LossesOfClassesAreCrossEntropies) {
    const Module module = imported("frontend/nll.onnx");
    std::vector<std::string> names;
    for (const Op& op : module.main().ops) names.push_back(op.name);
    EXPECT_EQ(std::count(names.begin(), names.end(), "cross_entropy"), 1);
    EXPECT_EQ(names.back(), "div");
}

}  // namespace
}  // namespace thunderc
