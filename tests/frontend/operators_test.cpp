// SPDX-License-Identifier: Apache-2.0
// Every importer against ONNX's own reference implementation: graphs of single operators, with what it computed.
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/function_tools.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/recognise/bound_indices.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "compiler/passes/step/compose_function.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace operators_test {

class Operators : public testing::TestWithParam<const char*> {};

TEST_P(Operators, AgreeWithOnnxReference) {
    const std::string name = std::string("frontend/") + GetParam();
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

INSTANTIATE_TEST_SUITE_P(Opsets, Operators,
                         testing::Values("operators_13", "operators_17", "operators_20", "operators_23", "composed_13",
                                         "composed_26"));

// What importing makes of several ops has the gradient of all of them together: along a random direction through the
// inputs of each operator, which no other reads ("7_Einsum_in0" and "7_Einsum"), against differences.
class Gradients : public testing::TestWithParam<const char*> {};

std::string operator_of(const std::string& name) {
    return name.substr(0, name.find('_', name.find('_') + 1));
}

// What a program reads lies inside its table whatever is fed, numbers and NaN: else its writing is refused.
TEST_P(Gradients, ReadWhatLiesInsideOfTables) {
    Report report;
    Module module = lift_parameters(imported(std::string("frontend/") + GetParam() + ".onnx"), {}, report);
    module = fold_constants(std::move(module), report);
    EXPECT_NO_THROW(bound_indices(module, report));
}

TEST_P(Gradients, AgreeWithDifferences) {
    const std::string name = std::string("frontend/") + GetParam();
    Report report;
    const Module forward = lift_parameters(imported(name + ".onnx"), {}, report);
    DifferentiateOptions options;
    options.wanted = wants_gradient;
    options.cotangent_for_each_result = true;
    const Module module = differentiate(forward, options, report);
    const std::map<std::string, Tensor> data = tensors(name + ".safetensors");
    const Function &before = forward.main(), &main = module.main();
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    const auto drawn = [&](const Type& type) {
        Tensor out(type);
        for (double& v : out.f) v = normal(random);
        return out;
    };
    std::vector<Tensor> at, along, above, below;
    constexpr double step = 1e-5;
    for (std::size_t k = 0; k < before.arguments.size(); ++k) {
        Tensor t = data.at(before.argument_info[k].names.front());
        t.type.dtype = before.type(before.arguments[k]).dtype;
        along.push_back(drawn(t.type));
        for (double sign : {1.0, -1.0}) {
            Tensor moved = t;
            for (std::size_t i = 0; i < t.f.size(); ++i) moved.f[i] += sign * step * along.back().f[i];
            (sign > 0 ? above : below).push_back(std::move(moved));
        }
        at.push_back(std::move(t));
    }
    const std::vector<Tensor> high = evaluate(forward, before, std::span<const Tensor>(above));
    const std::vector<Tensor> low = evaluate(forward, before, std::span<const Tensor>(below));
    std::map<std::string, double> expected, actual;
    for (std::size_t r = 0; r < before.results.size(); ++r) {
        if (!high[r].floating()) continue;
        const Tensor& dy = at.emplace_back(drawn(high[r].type));
        const std::string op = operator_of(before.result_names[r]);
        const bool steps = op.find("Hardmax") != std::string::npos;  // its gradient is 0, also where it jumps
        for (std::size_t i = 0; i < dy.f.size(); ++i)
            expected[op] += steps ? 0 : dy.f[i] * (high[r].f[i] - low[r].f[i]) / (2 * step);
    }
    ASSERT_EQ(at.size(), main.arguments.size());
    const std::vector<Tensor> results = evaluate(module, main, std::span<const Tensor>(at));
    std::size_t gradient = before.results.size();
    for (std::size_t k = 0; k < before.arguments.size(); ++k) {
        if (!wants_gradient(before.argument_info[k]) || !is_float(before.type(before.arguments[k]).dtype)) continue;
        const Tensor& dx = results.at(gradient++);
        for (std::size_t i = 0; i < dx.f.size(); ++i)
            actual[operator_of(before.argument_info[k].names.front())] += dx.f[i] * along[k].f[i];
    }
    EXPECT_GT(expected.size(), 50u);
    // Truncation of step^2 and cancellation of 1e-16 / step, of numbers of size ten at most.
    for (const auto& [op, slope] : expected)
        EXPECT_NEAR(actual[op], slope, 1e-6 * std::max(1.0, std::abs(slope))) << op;
}

INSTANTIATE_TEST_SUITE_P(Opsets, Gradients, testing::Values("composed_13", "composed_26"));

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

Module imported_text(const std::string& text, int opset, Report& report) {
    onnx::ModelProto model;
    const std::string versions = "<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) + ", \"f\" : 1]> g ";
    const auto status = onnx::OnnxParser::Parse(model, (versions + text).c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-given-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    Module module = import_model(path, CompileOptions(), report);
    std::filesystem::remove(path);
    verify(module);
    return module;
}
Module imported_text(const std::string& text, int opset = 22) {
    Report report;
    return imported_text(text, opset, report);
}

// What operators on the first numbers of an input give: numbers 1, 2, 3 … for each argument.
std::vector<Tensor> given_by(const Module& module) {
    std::vector<Tensor> arguments;
    for (Value argument : module.main().arguments) {
        Tensor& t = arguments.emplace_back(module.main().type(argument));
        for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, static_cast<double>(k + 1));
    }
    return evaluate(module, module.main(), std::span<const Tensor>(arguments));
}
std::vector<Tensor> given_by(const std::string& text, int opset = 22) {
    return given_by(imported_text(text, opset));
}

// A one for each label that occurs, however often it does: ONNX says nothing of it, and all who run it write one.
TEST(Scatters, WhatIsWrittenSeveralTimesIsWritten) {
    for (const char* scatter : {"ScatterElements<axis = 0>(x, j, one)", "ScatterND(x, k, one)"}) {
        const std::string text =
            "(float[3] x, int64[4] i) => (float[3] y) { two = Constant<value = int64 {2}>() j = Mod(i, two) "
            "axis = Constant<value_ints = [1]>() k = Unsqueeze(j, axis) "
            "one = Constant<value = float[4] {0.3, 0.3, 0.3, 0.3}>() y = " +
            std::string(scatter) + " }";
        // i = 1 2 3 4 writes to 1 0 1 0; sums of two and halves are exact.
        EXPECT_EQ(given_by(text).at(0).f, (std::vector<double>{0.3F, 0.3F, 3})) << scatter;
    }
}

// A number that the code writes is a double, whatever the model is of; tensors of doubles are computed in f32.
TEST(Constants, NumbersOfTheCodeAreNoTensorsInDouble) {
    const auto warnings = [](const std::string& number) {
        Report report;
        imported_text("(float[3] x) => (float[3] y) { d = Constant<value = double" + number +
                          ">() f = Cast<to = 1>(d) y = Mul(x, f) }",
                      22, report);
        return std::count_if(report.notes.begin(), report.notes.end(), [](const Note& note) {
            return note.kind == Note::Kind::warning && note.what == "precision";
        });
    };
    EXPECT_EQ(warnings(" {0.25}"), 0);
    EXPECT_EQ(warnings("[1] {0.25}"), 0);
    EXPECT_EQ(warnings("[3] {0.25, 0.5, 1}"), 1);
}

// Which ONNX's reference does not have.
TEST(Convolutions, TransposedInGroupsAreThoseOfEachGroup) {
    const std::string joint =
        "(float[1,2,3] x, float[2,2,2] w) => (float[1,4,6] y) { y = ConvTranspose <group = 2, "
        "strides = [2]> (x, w) }";
    // x = 1 2 3; 4 5 6. w = 1 2, 3 4 for the first group's filters, 5 6, 7 8 for the second's.
    EXPECT_EQ(given_by(joint).at(0).f, (std::vector<double>{1,  2,  2,  4,  3,  6,  3,  4,  6,  8,  9,  12,
                                                            20, 24, 25, 30, 30, 36, 28, 32, 35, 40, 42, 48}));
}

TEST(Scans, GoAlongTheirAxesInTheirDirections) {
    const std::string text =
        "(float[2] s, float[2,3] x) => (float[2] t, float[2,3] y) { t, y = Scan <num_scan_inputs = 1, scan_input_axes "
        "= [-1], scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1], body = b (float[2] "
        "s0, float[2] x0) => (float[2] s1, float[2] y0) { s1 = Add(s0, x0) y0 = Identity(s1) }> (s, x) }";
    const std::vector<Tensor> results = given_by(text);
    // s = 1, 2; columns of x from the last one on: 3, 6; 2, 5; 1, 4. The last sum stands first.
    EXPECT_EQ(results.at(0).f, (std::vector<double>{7, 17}));
    EXPECT_EQ(results.at(1).f, (std::vector<double>{7, 6, 4, 17, 13, 8}));
}

// A parameter that stands in the body of a loop is one for all steps, and for all calls of a function.
TEST(Bodies, HaveTheirInitializersAsArguments) {
    const std::string steps =
        "n = Constant<value_int = 3>() s3 = Loop<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) "
        "<float[2] weight = {5, 7}, float one = {1}, int64[1] shape = {2}> { d = Identity(c) r = Reshape(s, shape) p = "
        "Mul(r, one) t = Mul(p, weight) }>(n, , s0) }";
    const std::string twice =
        "(float[2] x) => (float[2] y) { a = f.cell(x) y = f.cell(a) } <domain: \"f\", opset_import: [\"\" : 22]> cell "
        "(s0) => (s3) { " +
        steps;
    const std::string once = "(float[2] s0) => (float[2] s3) { " + steps;
    for (const std::string& text : {once, twice}) {
        const Module module = imported_text(text);
        ASSERT_EQ(module.main().arguments.size(), 2u) << text;
        const ArgInfo& info = module.main().argument_info[1];
        EXPECT_EQ(info.names.front(), "weight");
        EXPECT_EQ(info.kind, ArgInfo::Kind::value);  // as one of the graph itself of that name
        const std::vector<std::byte> stored = info.sources.front()->read();
        ASSERT_EQ(stored.size(), 8u);
        float numbers[2];
        std::memcpy(numbers, stored.data(), 8);
        EXPECT_EQ(numbers[0], 5);
        EXPECT_EQ(numbers[1], 7);
    }
    // 1, 2 times the cube of 1, 2; and times its square.
    EXPECT_EQ(given_by(once).at(0).f, (std::vector<double>{1, 16}));
    EXPECT_EQ(given_by(twice).at(0).f, (std::vector<double>{1, 128}));
}

// An attribute of a function, in a body within the function: of the call, and else the function's own.
TEST(Bodies, SeeTheAttributesOfTheirFunction) {
    const std::string function =
        " <domain: \"f\", opset_import: [\"\" : 22]> cell <slope: float = 0.25> (s0) => (s2) { n = Constant<value_int "
        "= "
        "2>() s2 = Loop<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) t = "
        "LeakyRelu<alpha: float = @slope>(s) }>(n, , s0) }";
    const auto given = [&](const std::string& call) {
        return given_by("(float[2] x) => (float[2] y) { m = Neg(x) y = f.cell" + call + "(m) }" + function).at(0).f;
    };
    EXPECT_EQ(given("<slope = 0.5>"), (std::vector<double>{-0.25, -0.5}));
    EXPECT_EQ(given(""), (std::vector<double>{-0.0625, -0.125}));
}

// torch's cross entropy of probabilities, which its exporters write as one of classes. Of x = 1 2 3 and 4 5 6 the
// logarithms of the sums of e^x are 3.407605964 and 6.407605964: less 2.25 and 4, what the labels have of x.
TEST(CrossEntropy, OfProbabilities) {
    const auto loss = [](const std::string& reduction, const std::string& dims, const std::string& more = "") {
        return "(float[2,3] x) => (float" + dims +
               " y) { p = Constant<value = float[2,3] {0.25, 0.25, 0.5, 1, 0, 0}>() "
               "w = Constant<value = float[3] {1, 2, 3}>() y = SoftmaxCrossEntropyLoss<reduction = \"" +
               reduction + "\">(x, p" + more + ") }";
    };
    const double first = 1.157605964, second = 2.407605964, rounding = 1e-6;  // of sums in f32
    const std::vector<double> rows = given_by(loss("none", "[2]")).at(0).f;
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_NEAR(rows[0], first, rounding);
    EXPECT_NEAR(rows[1], second, rounding);
    EXPECT_NEAR(given_by(loss("sum", "")).at(0).f.at(0), first + second, rounding);
    EXPECT_NEAR(given_by(loss("mean", "")).at(0).f.at(0), (first + second) / 2, rounding);
    EXPECT_THROW(imported_text(loss("mean", "", ", w")), UserError);
    EXPECT_THROW(imported_text("(float[2,3] x, float[2] p) => (float y) { y = SoftmaxCrossEntropyLoss(x, p) }"),
                 UserError);
}

// Of elements that are as small as padding is, one is the largest nevertheless.
TEST(MaxPool, PrefersElementsToPadding) {
    const Module module = imported_text(
        "(float[1,1,2,2] x) => (float[1,1,3,3] y, int64[1,1,3,3] i) { y, i = MaxPool <kernel_shape = [2, 2], pads = "
        "[1, 1, 1, 1]> (x) }");
    Tensor x(module.main().type(module.main().arguments[0]));
    std::fill(x.f.begin(), x.f.end(), -std::numeric_limits<double>::infinity());
    const std::vector<Tensor> arguments = {x};
    EXPECT_EQ(evaluate(module, module.main(), std::span<const Tensor>(arguments)).at(1).i,
              (std::vector<std::int64_t>{0, 0, 1, 0, 0, 1, 2, 2, 3}));
    const Module alone = imported_text(
        "(float[1,1,2,2] x) => (float[1,1,3,3] y) { y = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (x) }");
    DifferentiateOptions options;
    options.wanted = [](const ArgInfo&) { return true; };
    options.cotangent_for_each_result = true;
    Report report;
    const Module with_gradient = differentiate(alone, options, report);
    Tensor dy(Type::tensor(DType::f32, {1, 1, 3, 3}));
    std::fill(dy.f.begin(), dy.f.end(), 1);
    const std::vector<Tensor> both = {x, dy};
    // As many windows begin with each.
    EXPECT_EQ(evaluate(with_gradient, with_gradient.main(), std::span<const Tensor>(both)).at(1).f,
              (std::vector<double>{4, 2, 2, 1}));
}

// Windows on padding alone name an element that there is.
TEST(MaxPool, NamesElementsAlone) {
    const std::vector<Tensor> results = given_by(
        "(float[1,1,2,2] x) => (float[1,1,3,3] y, int64[1,1,3,3] i) { y, i = MaxPool <kernel_shape = [2, 2], pads = "
        "[2, 2, 0, 0]> (x) }");
    const double none = -std::numeric_limits<double>::infinity();
    EXPECT_EQ(results.at(0).f, (std::vector<double>{none, none, none, none, 1, 2, none, 3, 4}));
    const std::vector<std::int64_t>& at = results.at(1).i;
    EXPECT_TRUE(std::all_of(at.begin(), at.end(), [](std::int64_t i) { return i >= 0 && i < 4; }));
    EXPECT_EQ((std::vector<std::int64_t>{at[4], at[5], at[7], at[8]}), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

// A mask that is shorter than the keys hides those behind it, one of a single key all but the first.
TEST(Attention, ShortMasksHideTheOtherKeys) {
    const auto given = [](const std::string& mask) {
        return given_by(
                   "(float[1,1,2,2] q, float[1,1,3,2] k, float[1,1,3,2] v) => (float[1,1,2,2] y) { m = Constant<value "
                   "= " +
                       mask + ">() y = Attention(q, k, v, m) }",
                   23)
            .at(0)
            .f;
    };
    // The second query is 3, 4; keys are 1, 2 and 3, 4 and 5, 6, and so are values.
    const double first = 1 / (1 + std::exp((25 - 11) / std::sqrt(2.0)));
    for (const std::string mask : {"bool[2,2] {1, 0, 1, 1}", "float[2,2] {0, -inf, 0, 0}"}) {
        const std::vector<double> y = given(mask);
        const double want[] = {1, 2, first * 1 + (1 - first) * 3, first * 2 + (1 - first) * 4};
        for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(y[k], want[k], 1e-12) << mask;  // in double on both sides
    }
    EXPECT_EQ(given("bool[2,1] {1, 1}"), (std::vector<double>{1, 2, 1, 2}));
    EXPECT_EQ(given("float[1] {3}"), (std::vector<double>{1, 2, 1, 2}));
}

// Before opset 14 a batch norm in training mode has more outputs than one: names that are empty are none.
TEST(BatchNormalization, HasNoStatisticsWhereTheyAreNotNamed) {
    EXPECT_EQ(
        given_by("(float[1,2,1] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float[1,2,1] y) { y, , , , , = "
                 "BatchNormalization <epsilon = 0.0> (x, s, b, m, v) }",
                 13)
            .at(0)
            .f,
        (std::vector<double>{1, 2}));
}

// By the batch, of 1 and 2: mean 1.5, variance 0.25. Running statistics, 1 before, as outputs of ONNX's operator.
TEST(BatchNormalization, TakesTheStatisticsOfTheBatch) {
    const std::string given = "(float[2,1] x, float[1] s, float[1] b, float[1] m, float[1] v) => ",
                      call = "BatchNormalization <epsilon = 3.0, momentum = 0.75, training_mode = 1> (x, s, b, m, v) }";
    const std::vector<Tensor> y =
        given_by(given + "(float[2,1] y, float[1] rm, float[1] rv) { y, rm, rv = " + call, 20);
    ASSERT_EQ(y.size(), 3U);
    for (std::size_t k = 0; k < 2; ++k)  // in double on both sides
        EXPECT_NEAR(y[0].f[k], 1 + (k == 0 ? -0.5 : 0.5) / std::sqrt(3.25), 1e-12);
    EXPECT_NEAR(y[1].f[0], 0.75 + 0.25 * 1.5, 1e-12);
    EXPECT_NEAR(y[2].f[0], 0.75 + 0.25 * 0.25, 1e-12);
}

// torch's exporter makes a bias of zeros where there is none, of two dimensions too many for Conv3d.
TEST(Convolutions, ABiasOfZerosIsNone) {
    const Module module = imported_text(
        "(float[1,1,2,2,2] x) => (float[1,1,1,1,1] y) { zero = Constant <value = float {0}> () z = CastLike(zero, x) "
        "shape = "
        "Constant <value = int64[2] {1, 2}> () bias = Expand(z, shape) w = Constant <value = float[1,1,2,2,2] {1, 1, "
        "1, 1, "
        "1, 1, 1, 1}> () y = Conv(x, w, bias) }");
    EXPECT_EQ(given_by(module).at(0).f, std::vector<double>{36});
}

// 1 to 9 are singular; with another corner the minor of it counts. Each of a batch; and of one row.
TEST(Det, OfEachMatrix) {
    EXPECT_NEAR(given_by("(float[3,3] x) => (float y) { y = Det(x) }").at(0).f[0], 0, 1e-12);
    const auto of = [](const std::string& dims, const std::string& op, const std::string& numbers) {
        return given_by("(float[" + dims + "] x) => (float y) { d = Constant <value = float[" + numbers +
                        "> () z = " + op + "(x, d) y = Det(z) }")
            .at(0)
            .f[0];
    };
    EXPECT_NEAR(of("3,3", "Add", "3,3] {0, 0, 0, 0, 0, 0, 0, 0, 10}"), 10 * (1 * 5 - 2 * 4), 1e-12);
    EXPECT_EQ(given_by("(float[2,2,2] x) => (float[2] y) { y = Det(x) }").at(0).f,
              (std::vector<double>{1 * 4 - 2 * 3, 5 * 8 - 6 * 7}));
    EXPECT_EQ(given_by("(float[2,1,1] x) => (float[2] y) { y = Det(x) }").at(0).f, (std::vector<double>{1, 2}));
    // A permutation of four rows, odd: -1.
    EXPECT_EQ(of("1", "Mul", "4,4] {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0}"), -1);
}

// Of numbers that are known alone: two equal rows, in the order of their values and of their places.
TEST(Unique, OfKnownNumbers) {
    const std::string graph =
        "(float[1] x) => (int64[N] v, int64[N] f, int64[M] i, int64[N] c, float[1] y) <int64[3,2] k = "
        "{2, 9, 1, 5, 2, 9}> { y = Exp(x) v, f, i, c = Unique <axis = 0, sorted = ";
    const std::vector<Tensor> sorted = given_by(graph + "1> (k) }"), placed = given_by(graph + "0> (k) }");
    using Numbers = std::vector<std::int64_t>;
    EXPECT_EQ(sorted[0].i, (Numbers{1, 5, 2, 9}));
    EXPECT_EQ(sorted[1].i, (Numbers{1, 0}));
    EXPECT_EQ(sorted[2].i, (Numbers{1, 0, 1}));
    EXPECT_EQ(sorted[3].i, (Numbers{1, 2}));
    EXPECT_EQ(placed[0].i, (Numbers{2, 9, 1, 5}));
    EXPECT_EQ(placed[2].i, (Numbers{0, 1, 0}));
}

// An input without elements is a constant: nobody is asked for it, and what it is joined with stays.
TEST(EmptyInputs, AreConstants) {
    const Module module =
        imported_text("(float[2,0] none, float[2,3] x) => (float[2,3] y) { y = Concat <axis = 1> (none, x) }");
    EXPECT_EQ(module.main().arguments.size(), 1U);
    EXPECT_EQ(given_by("(float[0,3] none) => (float y) { y = ReduceSum <keepdims = 0> (none) }").at(0).f[0], 0);
}

// Graphs of one batch norm with stored statistics; what it says of it, or the error.
std::string norm_of_the_batch(const std::string& outputs, const std::string& nodes,
                              const std::string& momentum = "0.75") {
    const std::string text =
        "(float[2,2] x) => (" + outputs +
        ") <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> { y, rm, rv = "
        "BatchNormalization <momentum = " +
        momentum + ", training_mode = 1> (x, s, b, m, v) " + nodes + "}";
    try {
        const Module module = imported_text(text, 20);
        return std::to_string(moved_buffers(module.main(), module.main().results.size())) + " moved";
    } catch (const UserError& error) {
        return error.diagnostic().message;
    }
}

TEST(BatchNormalization, StoredStatisticsMove) {
    EXPECT_EQ(norm_of_the_batch("float[2,2] y", ""), "2 moved");
    EXPECT_EQ(norm_of_the_batch("float[2,2] y, float[2] rm, float[2] rv", ""), "2 moved");
    EXPECT_EQ(norm_of_the_batch("float[2,2] y", "unread = Exp(m)"), "2 moved");
    // what reads them would read them before they move, or behind
    EXPECT_EQ(norm_of_the_batch("float[2,2] y, float[2] z", "z = Exp(m)"),
              "the model reads the running statistic m, which its batch norm moves");
    EXPECT_EQ(norm_of_the_batch("float[2,2] y, float[2] m", ""),
              "the model reads the running statistic m, which its batch norm moves");
    // once more by the same norm, and by a copy of it
    EXPECT_EQ(norm_of_the_batch("float[2,2] z", "z, zm, zv = BatchNormalization <training_mode = 1> (y, s, b, m, v)"),
              "2 moved");
    EXPECT_EQ(norm_of_the_batch("float[2,2] z",
                                "n = Identity(m) z, zm, zv = BatchNormalization <training_mode = 1> (y, s, b, n, v)"),
              "2 moved");
}

TEST(BatchNormalization, WhatCannotMoveIsRefused) {
    const std::string one =
        "(float[1,2] x) => (float[1,2] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = "
        "{1, 1}> { ";
    const auto error = [](const std::string& text) {
        try {
            imported_text(text, 20);
        } catch (const UserError& error) {
            return error.diagnostic().message;
        }
        return std::string();
    };
    EXPECT_EQ(error(one + "y, ym, yv = BatchNormalization <training_mode = 1> (x, s, b, m, v) }"),
              "a batch norm in training mode has one number in each channel, of which there is no variance");
    // in the body of a function, where nobody says what is the model's
    EXPECT_EQ(
        error("(float[2,2] x) => (float[2,2] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, "
              "float[2] v = {1, 1}> { y = f.Norm(x, s, b, m, v) } <domain: \"f\", opset_import: [\"\" : 20]> Norm "
              "(x, s, b, m, v) => (y) { y, ym, yv = BatchNormalization <training_mode = 1> (x, s, b, m, v) }"),
        "a batch norm in training mode moves m, which it does not read by itself");
}

// Steps that are folded one after the other, whose bodies call a function with a constant of its own: 3, 8, 18, 38; and
// with one that is no shape arithmetic, of two numbers: 1, 10, 46, 190.
TEST(Loops, OfFunctionsWithConstants) {
    const std::string call = "d = Identity(c) u = f.One(s) two = Constant<value = ";
    const std::string function = " <domain: \"f\", opset_import: [\"\" : 22]> One (a) => (b) { k = Constant<value = ";
    EXPECT_EQ(
        given_by("(int64[1] x) => (int64[1] y) <int64 m = {3}, bool go = {1}, int64[1] s0 = {3}> { z = Loop <body "
                 "= b (int64 i, bool c, int64[1] s) => (bool d, int64[1] t) { " +
                 call + "int64[1] {2}>() t = Mul(u, two) }> (m, go, s0) y = Add(z, x) }" + function +
                 "int64[1] {1}>() b = Add(a, k) }")
            .at(0)
            .i,
        (std::vector<std::int64_t>{39}));
    EXPECT_EQ(
        given_by("(float[1] x) => (float[1] y) <int64 m = {3}, bool go = {1}, float s0 = {1}> { z = Loop <body = b "
                 "(int64 i, bool c, float s) => (bool d, float t) { " +
                 call + "float {2}>() t = Mul(u, two) }> (m, go, s0) y = Add(z, x) }" + function +
                 "float[2] {1, 2}>() e = Add(a, k) b = ReduceSum<keepdims = 0>(e) }")
            .at(0)
            .f,
        (std::vector<double>{191}));
}

// Each as a sum over all labels, which stand for 2, 3, 4, 5, 6 numbers from a to e; and the largest value in between is
// no larger than what is given or comes out.
TEST(Einsums, MultiplyNextWhatGivesTheLeast) {
    const std::map<char, std::int64_t> sizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 6}};
    const auto count = [&](const std::string& labels) {
        std::int64_t out = 1;
        for (const char label : labels) out *= sizes.at(label);
        return out;
    };
    for (const auto& [terms, result] :
         std::vector<std::pair<std::vector<std::string>, std::string>>{{{"ab", "cd", "bc"}, "ad"},
                                                                       {{"a", "e", "ab", "be"}, "b"},
                                                                       {{"ae", "bc", "ed", "cd"}, "ab"},
                                                                       {{"ab", "c", "d", "bcd"}, "a"},
                                                                       {{"a", "b"}, "ab"},
                                                                       {{"ac", "bc", "c"}, "cb"}}) {
        std::string inputs, operands, equation;
        std::int64_t most = count(result);
        for (const std::string& labels : terms) {
            const std::string name = "x" + labels;
            std::string dims;
            for (const char label : labels) dims += (dims.empty() ? "" : ",") + std::to_string(sizes.at(label));
            inputs += (inputs.empty() ? "float[" : ", float[") + dims + "] " + name;
            operands += (operands.empty() ? "" : ", ") + name;
            equation += (equation.empty() ? "" : ",") + labels;
            most = std::max(most, count(labels));
        }
        equation += "->" + result;
        SCOPED_TRACE(equation);
        const Module module = imported_text("(" + inputs + ") => (float[p" + (result.size() > 1 ? ",q" : "") +
                                            "] y) { y = Einsum<equation = \"" + equation + "\">(" + operands + ") }");
        for (const ValueInfo& value : module.main().values) EXPECT_LE(value.type.elements(), most);
        const std::vector<double> got = given_by(module).at(0).f;
        std::vector<double> want(static_cast<std::size_t>(count(result)));
        const std::string all = "abcde";
        std::map<char, std::int64_t> at;
        const auto place = [&](const std::string& labels) {
            std::int64_t out = 0;
            for (const char label : labels) out = out * sizes.at(label) + at[label];
            return out;
        };
        for (std::int64_t k = 0; k < count(all); ++k) {
            std::int64_t rest = k;
            bool counts = true;  // a label that stands nowhere is no sum
            for (const char label : all) {
                at[label] = rest % sizes.at(label);
                rest /= sizes.at(label);
                counts = counts && (at[label] == 0 || equation.find(label) != std::string::npos);
            }
            double product = 1;
            for (const std::string& labels : terms) product *= static_cast<double>(place(labels) + 1);
            if (counts) want[static_cast<std::size_t>(place(result))] += product;
        }
        EXPECT_EQ(got, want);  // whole numbers below 2^53
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
