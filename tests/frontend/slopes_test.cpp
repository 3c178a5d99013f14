// SPDX-License-Identifier: Apache-2.0
// Operators of one number, in f32: value and derivative all over its range, against formulas in fp64. What importing
// selects between branches of has no 0 times infinity of the one that is not taken.
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace slopes_test {

constexpr double none = std::numeric_limits<double>::quiet_NaN();  // outside, or at a kink

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

double bell(double x) {
    return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

struct Operator {
    std::string name, attributes;
    double (*slope)(double);
    // Of the slope, where numbers of size one cancel each other: some roundings of 6e-8.
    double cancels = 0;
    double (*value)(double) = nullptr;  // where importing makes it of other functions

    friend void PrintTo(const Operator& o, std::ostream* out) { *out << o.name << o.attributes; }
};

const Operator operators[] = {
    {"Identity", "", [](double) { return 1.0; }},
    {"Neg", "", [](double) { return -1.0; }},
    {"Abs", "", [](double x) { return x > 0   ? 1.0
                                      : x < 0 ? -1.0
                                              : 0.0; }},
    {"Sign", "", [](double) { return 0.0; }},
    {"Floor", "", [](double) { return 0.0; }},
    {"Ceil", "", [](double) { return 0.0; }},
    {"Round", "", [](double) { return 0.0; }},
    {"Exp", "", [](double x) { return std::exp(x); }},
    {"Log", "", [](double x) { return x > 0 ? 1 / x : none; }},
    {"Sqrt", "", [](double x) { return x > 0 ? 0.5 / std::sqrt(x) : none; }},
    {"Reciprocal", "", [](double x) { return x == 0 ? none : -1 / (x * x); }},
    {"Sin", "", [](double x) { return std::cos(x); }},
    {"Cos", "", [](double x) { return -std::sin(x); }},
    {"Tan", "", [](double x) { return 1 / (std::cos(x) * std::cos(x)); }, 0, [](double x) { return std::tan(x); }},
    {"Asin", "", [](double x) { return std::abs(x) < 1 ? 1 / std::sqrt((1 - x) * (1 + x)) : none; }, 0,
     [](double x) { return std::asin(x); }},
    {"Acos", "", [](double x) { return std::abs(x) < 1 ? -1 / std::sqrt((1 - x) * (1 + x)) : none; }, 0,
     [](double x) { return std::acos(x); }},
    {"Atan", "", [](double x) { return 1 / (1 + x * x); }, 0, [](double x) { return std::atan(x); }},
    {"Sinh", "", [](double x) { return std::cosh(x); }, 0, [](double x) { return std::sinh(x); }},
    {"Cosh", "", [](double x) { return std::sinh(x); }, 1e-7, [](double x) { return std::cosh(x); }},
    {"Tanh", "", [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }, 2e-7},
    {"Asinh", "", [](double x) { return 1 / std::hypot(x, 1); }, 0, [](double x) { return std::asinh(x); }},
    {"Acosh", "", [](double x) { return x > 1 ? 1 / std::sqrt((x - 1) * (x + 1)) : none; }, 0,
     [](double x) { return std::acosh(x); }},
    {"Atanh", "", [](double x) { return std::abs(x) < 1 ? 1 / ((1 - x) * (1 + x)) : none; }, 0,
     [](double x) { return std::atanh(x); }},
    {"Sigmoid", "", [](double x) { return sigmoid(x) * sigmoid(-x); }, 2e-7},
    {"Erf", "", [](double x) { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }},
    {"Relu", "", [](double x) { return x > 0 ? 1.0 : 0.0; }},
    {"LeakyRelu", "<alpha = 0.25>", [](double x) { return x > 0 ? 1.0 : 0.25; }},
    {"ThresholdedRelu", "<alpha = 1.0>", [](double x) { return x == 1  ? none
                                                               : x > 1 ? 1.0
                                                                       : 0.0; }},
    {"Elu", "<alpha = 0.5>", [](double x) { return x > 0 ? 1 : 0.5 * std::exp(x); }},
    {"Celu", "<alpha = 2.0>", [](double x) { return x > 0 ? 1 : std::exp(x / 2); }},
    {"Selu", "<alpha = 2.0, gamma = 0.5>", [](double x) { return x > 0 ? 0.5 : std::exp(x); }},
    {"Softplus", "", [](double x) { return sigmoid(x); }},
    {"Softsign", "", [](double x) { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }, 2e-7},
    {"HardSigmoid", "<alpha = 0.25, beta = 0.5>", [](double x) { return std::abs(x) < 2 ? 0.25 : 0.0; }},
    {"HardSwish", "", [](double x) { return std::abs(x) == 3 ? none
                                            : x > 3          ? 1.0
                                            : x < -3         ? 0.0
                                                             : x / 3 + 0.5; },
     2e-7},
    {"Shrink", "<lambd = 0.75, bias = 0.5>", [](double x) { return std::abs(x) > 0.75 ? 1.0 : 0.0; }},
    {"Mish", "",
     [](double x) {
         const double t = std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
         return t + x * (1 - t * t) * sigmoid(x);
     },
     1e-6},
    {"Swish", "", [](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }, 1e-6},
    {"Gelu", "", [](double x) { return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * bell(x); }, 1e-6},
};

// The results and the gradients of one operator at these numbers, every result of every op rounded to f32.
std::vector<Tensor> in_f32(const Operator& op, const std::vector<double>& x) {
    onnx::ModelProto model;
    const std::string text = "<ir_version: 10, opset_import: [\"\" : 24]> g (float[" + std::to_string(x.size()) +
                             "] x) => (float[" + std::to_string(x.size()) + "] y) { y = " + op.name + op.attributes +
                             " (x) }";
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-slope-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    DifferentiateOptions options;
    options.wanted = [](const ArgInfo&) { return true; };
    options.cotangent_for_each_result = true;
    Report report;
    const Module module = differentiate(import_model(path, CompileOptions()), options, report);
    std::filesystem::remove(path);
    const Type type = module.main().type(module.main().arguments.at(0));
    std::vector<Tensor> arguments(2, Tensor(type));
    arguments[0].f = x;
    arguments[1].f.assign(x.size(), 1);
    return evaluate(module, module.main(), std::span<const Tensor>(arguments), {.round_to_dtype = true, .observe = {}});
}

class Slopes : public testing::TestWithParam<Operator> {};

TEST_P(Slopes, AreRightAllOverTheRange) {
    const Operator& op = GetParam();
    std::vector<double> at;
    for (const double size : {0.0, 1e-30, 1e-3, 0.0624, 0.0626, 0.5,   0.99, 1.0,  1.01, 1.5,
                              3.0, 20.0,  80.0, 100.0,  9e3,    1.1e4, 1e5,  1e10, 1e20, 1e30})
        for (const double sign : {1.0, -1.0}) at.push_back(static_cast<float>(sign * size));
    const std::vector<Tensor> got = in_f32(op, at);
    ASSERT_EQ(got.size(), 2U);
    std::size_t judged = 0;
    for (std::size_t k = 0; k < at.size(); ++k) {
        const double x = at[k], slope = op.slope(x);
        constexpr double relative = 2e-6;  // some twenty roundings of 6e-8 in a row
        if (op.value != nullptr) {
            const double value = op.value(x), ours = got[0].f[k];
            if (std::isnan(value) || std::abs(value) > FLT_MAX)
                EXPECT_EQ(std::isnan(ours), std::isnan(value)) << "at " << x;
            else
                EXPECT_NEAR(ours, value, relative * std::max(1.0, std::abs(value))) << "at " << x;
        }
        if (std::isnan(slope)) continue;
        if (std::abs(slope) > FLT_MAX) {
            EXPECT_FALSE(std::isnan(got[1].f[k])) << "at " << x;
            continue;
        }
        ++judged;
        // What is below FLT_MIN may be 0.
        EXPECT_NEAR(got[1].f[k], slope, relative * std::abs(slope) + op.cancels + FLT_MIN) << "at " << x;
    }
    EXPECT_GE(judged, 12U);
}

INSTANTIATE_TEST_SUITE_P(Unary, Slopes, testing::ValuesIn(operators),
                         [](const testing::TestParamInfo<Operator>& info) { return info.param.name; });

}  // namespace slopes_test
}  // namespace thunderc
