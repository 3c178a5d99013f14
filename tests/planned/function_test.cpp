// SPDX-License-Identifier: Apache-2.0
// Function libraries as planned bytes: what forward and vjp give, against the fp64 evaluator on the graph that they
// were made of, differences of it, and PyTorch's gradients.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "compiler/check/check_plan.h"
#include "compiler/check/gradient_check.h"
#include "compiler/support/error.h"
#include "tests/passes/tiny_transformer.h"
#include "tests/passes/transform_text.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace function_test {

using Tensors = std::map<std::string, Tensor>;

// A plan that the independent checker has looked at.
PlannedProgram sound(Module planned) {
    EXPECT_EQ(plan_violations(planned), std::vector<std::string>());
    return PlannedProgram(std::move(planned));
}

// ---- any graph, against itself in fp64 ----

// A graph of text IR, as recognition leaves it: values of its arguments, and what it gives.
class Graph {
  public:
    explicit Graph(const std::string& text) : module_(parsed(text)) {
        const Function& main = module_.main();
        const std::vector<Members> values = random_arguments(main, 5);
        for (std::size_t k = 0; k < values.size(); ++k) arguments_[main.argument_info[k].names.at(0)] = values[k][0];
        std::mt19937_64 random(3);
        std::normal_distribution<double> normal;
        auto like = [&](const Tensor& t) {
            Tensor out = t;
            for (double& x : out.f) x = static_cast<double>(static_cast<float>(normal(random)));
            return out;
        };
        outputs_ = results(arguments_);
        for (const auto& [name, value] : outputs_)
            if (value.floating()) cotangents_[name] = like(value);
        for (const auto& [name, value] : arguments_) {
            if (!value.floating()) continue;
            const Tensor direction = like(value);
            slopes_[name] = {direction, difference(name, direction)};
        }
    }

    const Tensors& arguments() const { return arguments_; }

    Tensors results(const Tensors& arguments) const {
        const Function& main = module_.main();
        std::vector<Members> given;
        for (const ArgInfo& info : main.argument_info) given.push_back({arguments.at(info.names.at(0))});
        const std::vector<Members> values = evaluate(module_, main, std::span<const Members>(given));
        Tensors out;
        for (std::size_t r = 0; r < values.size(); ++r) out[main.result_names[r]] = values[r][0];
        return out;
    }

    // The passes behind recognition, to the end.
    Module compiled(const CompileOptions& options) const {
        std::vector<Pass> passes = pipeline(options);
        const auto first =
            std::find_if(passes.begin(), passes.end(), [](const Pass& pass) { return pass.name == "bound_indices"; });
        passes.erase(passes.begin(), first);
        std::vector<PassRun> runs;
        return run_passes(module_, passes, runs);
    }

    void expect_forward(const CompileOptions& given) const {
        CompileOptions options = given;
        options.transform = Transform::forward;
        PlannedProgram program = sound(compiled(options));
        for (const auto& [name, value] : arguments_) program.set(name, value);
        program.run("forward");
        expect_outputs(program);
    }

    // Outputs, and each gradient along a random direction of its own against differences of the outputs.
    void expect_vjp(const CompileOptions& given, const std::set<std::string>& without_gradient = {}) const {
        CompileOptions options = given;
        options.transform = Transform::vjp;
        PlannedProgram program = sound(compiled(options));
        for (const auto& [name, value] : arguments_) program.set(name, value);
        for (const auto& [name, value] : cotangents_) program.set("d" + name, value);
        program.run("vjp");
        expect_outputs(program);
        for (const auto& [name, value] : arguments_) {
            const bool parameter = program.has("grad." + name);
            const bool wanted = value.floating() && !without_gradient.contains(name);
            ASSERT_EQ(parameter || program.has("d" + name), wanted) << name;
            if (!wanted) continue;
            const Tensor gradient = program.get(parameter ? "grad." + name : "d" + name);
            const auto& [direction, expected] = slopes_.at(name);
            double slope = 0, size = 0;
            for (std::size_t k = 0; k < direction.f.size(); ++k) {
                slope += gradient.f[k] * direction.f[k];
                size += std::abs(gradient.f[k] * direction.f[k]);
            }
            // Both sides are sums of many products; f32 has lost some 1e-6 of each, a wrong rule loses much more.
            EXPECT_NEAR(slope, expected, 1e-4 * std::max(size, 1e-3)) << name;
        }
    }

  private:
    void expect_outputs(const PlannedProgram& program) const {
        for (const auto& [name, expected] : outputs_) {
            const Tensor actual = program.get(name);
            ASSERT_EQ(actual.type.dims, expected.type.dims) << name;
            EXPECT_EQ(actual.i, expected.i) << name;
            // f32 against fp64: sums of at most some hundred terms.
            EXPECT_LE(largest_difference(actual, expected), 1e-5 * std::max(1.0, largest(expected))) << name;
        }
    }

    // The derivative of the sum of outputs times cotangents along the direction, by central differences: off by h^2 =
    // 1e-10 times the third derivative, some 1e4 here.
    double difference(const std::string& name, const Tensor& direction) const {
        constexpr double h = 1e-5;
        auto at = [&](double step) {
            Tensors moved = arguments_;
            for (std::size_t k = 0; k < direction.f.size(); ++k) moved[name].f[k] += step * direction.f[k];
            double sum = 0;
            for (const auto& [output, value] : results(moved)) {
                if (!value.floating()) continue;
                for (std::size_t k = 0; k < value.f.size(); ++k) sum += value.f[k] * cotangents_.at(output).f[k];
            }
            return sum;
        };
        return (at(h) - at(-h)) / (2 * h);
    }

    Module module_;
    Tensors arguments_, outputs_, cotangents_;
    std::map<std::string, std::pair<Tensor, double>> slopes_;  // by argument: a direction, and the derivative along it
};

CompileOptions options(const std::string& recompute = "none", bool roll = true,
                       const std::vector<std::string>& executors = CompileOptions().executors) {
    CompileOptions o;
    o.recompute = recompute;
    o.roll = roll;
    o.executors = executors;
    return o;
}

TEST(Functions, GiveEveryKindOfResult) {
    // The same value twice, an input as it came, views that are no plain memory, a constant, integers, a row.
    const Graph graph(R"(
func @main(
    %x: f32[4,6] input "x" {batched},
    %scale: f32[6] parameter "scale") -> (
    %y "y", %y "again", %x "x_out", %t "t", %last "last", %c "c", %positive "positive", %wide "wide") {
  %y = mul(%x, %scale) : f32[4,6]
  %e = exp(%y) : f32[4,6]
  %t = transpose(%e) {permutation = [1, 0]} : f32[6,4]
  %last = slice(%e) {axis = 0, begin = 3, end = 4, step = 1} : f32[1,6]
  %wide = reshape(%e) {dims = [24]} : f32[24]
  %c = constant() {value = <f32[3] affine 1.0 + [2.0]>} : f32[3]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %gt = gt(%x, %zero) : bool[4,6]
  %positive = cast(%gt) {dtype = i64} : i64[4,6]
}
)");
    graph.expect_forward(options());
    graph.expect_vjp(options());
    graph.expect_vjp(options("none", true, {"reference"}));
}

TEST(Functions, GiveZeroWhereNothingDependsOnAnArgument) {
    const std::string text = R"(
func @main(
    %x: f32[4] input "x",
    %other: f32[4] input "other",
    %w: f32[4] parameter "w",
    %idle: f32[2,3] parameter "idle") -> (%y "y") {
  %y = mul(%x, %w) : f32[4]
}
)";
    const Graph graph(text);
    graph.expect_vjp(options());
    CompileOptions o = options();
    o.transform = Transform::vjp;
    PlannedProgram program = sound(graph.compiled(o));
    for (const auto& [name, value] : graph.arguments()) program.set(name, value);
    program.set("dy", Tensor::floats({4}, {1, 2, 3, 4}));
    program.run("vjp");
    EXPECT_EQ(program.get("dother").f, std::vector<double>(4, 0));
    EXPECT_EQ(program.get("grad.idle").f, std::vector<double>(6, 0));
}

TEST(Functions, LeaveFrozenParametersAlone) {
    CompileOptions o = options();
    o.freeze = "^fixed$";
    Graph(R"(
func @main(
    %x: f32[4] input "x",
    %w: f32[4] parameter "w",
    %f: f32[4] parameter "fixed") -> (%y "y") {
  %a = mul(%x, %w) : f32[4]
  %y = mul(%a, %f) : f32[4]
}
)")
        .expect_vjp(o, {"fixed"});
}

// A decoder whose layers are rolled; hidden states between them are outputs, beside logits.
std::string decoder(const TinyTransformer& model, const std::string& results) {
    std::string text = model.text();
    const std::string before = "%loss \"loss\", %weight \"weight\"";
    text.replace(text.find(before), before.size(), results);
    // Labels are no argument of a graph without a loss.
    for (const char* line : {"%labels", "  %loss, ", "  %weight = "}) {
        const std::size_t at = text.find(line);
        text.erase(at, text.find('\n', at) + 1 - at);
    }
    return text;
}

TEST(Functions, OfADecoder) {
    TinyTransformer model;
    model.layers = 2;
    const Graph graph(decoder(model, "%logits \"logits\""));
    graph.expect_forward(options());
    for (const char* recompute : {"none", "selective", "block"}) graph.expect_vjp(options(recompute));
    graph.expect_vjp(options("none", false));
    graph.expect_vjp(options("none", true, {"reference"}));
    model.tied = true;
    model.learned_tables = true;
    Graph(decoder(model, "%logits \"logits\"")).expect_vjp(options());
}

TEST(Functions, OfADecoderThatGivesItsHiddenStates) {
    TinyTransformer model;
    model.layers = 2;
    const Graph graph(decoder(model, "%x2 \"last\", %logits \"logits\", %x0 \"first\", %x1 \"middle\""));
    for (bool roll : {true, false}) {
        graph.expect_forward(options("none", roll));
        graph.expect_vjp(options("none", roll));
    }
    // Nothing but the last one: parameters of the head have no part in it.
    const Graph headless(decoder(model, "%x2 \"last\""));
    headless.expect_forward(options());
    headless.expect_vjp(options());
    headless.expect_vjp(options("block"));
}

TEST(Functions, NeedAFloatToDifferentiate) {
    CompileOptions o = options();
    o.transform = Transform::vjp;
    try {
        Graph(R"(
func @main(%x: i64[4] input "x") -> (%y "y") {
  %y = add(%x, %x) : i64[4]
}
)")
            .compiled(o);
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: there is nothing to differentiate: no output of the model is a float\nhelp: export a model "
                  "that ends in logits or in a loss\n");
    }
}

// ---- exported models, against PyTorch ----

struct Case {
    std::string model, graph;
    CompileOptions options;
    std::string name;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class OfExports : public ::testing::TestWithParam<Case> {
  protected:
    static std::string path() { return GetParam().model + "/" + GetParam().graph + ".onnx"; }

    // With PyTorch's parameters and its first batch.
    static PlannedProgram program(Transform transform) {
        CompileOptions o = GetParam().options;
        o.transform = transform;
        PlannedProgram out = sound(compiled(path(), o));
        for (const auto& [name, tensor] : read_safetensors(fixture(GetParam().model + "/params.safetensors")))
            out.set(name, tensor);
        return out;
    }
    static nlohmann::json reference() {
        std::ifstream file(fixture(GetParam().model + "/reference.json"));
        return nlohmann::json::parse(file);
    }
    static Tensors first_batch() {
        return batch(read_safetensors(fixture(GetParam().model + "/batch.safetensors")), 0);
    }

    static void expect_pytorchs_gradients(const PlannedProgram& program) {
        for (const auto& [name, expected] : read_safetensors(fixture(GetParam().model + "/grads.safetensors"))) {
            ASSERT_TRUE(program.has("grad." + name)) << name;
            // Both f32, summed in other orders; see run_planned_test.cpp.
            EXPECT_LE(largest_difference(program.get("grad." + name), expected), 4e-6 * largest(expected) + 1e-8)
                << name;
        }
    }
};

// The gradient of a mean cross entropy by its logits, and its value: softmax less one-hot, over the labels that count.
double cross_entropy(const Tensor& logits, const Tensor& labels, Tensor& gradient) {
    const std::int64_t classes = logits.type.dims.back(), rows = logits.size() / classes;
    gradient = Tensor(logits.type);
    const double count =
        static_cast<double>(std::count_if(labels.i.begin(), labels.i.end(), [](std::int64_t l) { return l != -100; }));
    double loss = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t label = labels.i[static_cast<std::size_t>(r)];
        if (label == -100) continue;
        double sum = 0;
        for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits.at(r * classes + c));
        loss += (std::log(sum) - logits.at(r * classes + label)) / count;
        for (std::int64_t c = 0; c < classes; ++c)
            gradient.set(r * classes + c, (std::exp(logits.at(r * classes + c)) / sum - (c == label ? 1 : 0)) / count);
    }
    return loss;
}

using OfLogits = OfExports;
using OfLosses = OfExports;

// The vjp of the logits with the loss's gradient as cotangent gives the loss's gradients; forward gives its logits.
TEST_P(OfLogits, GivePyTorchsGradients) {
    const Tensors given = first_batch();
    PlannedProgram forward = program(Transform::forward), vjp = program(Transform::vjp);
    const nlohmann::json inputs = reference().at("inputs");
    for (const auto& input : inputs) {
        forward.set(input, given.at(input));
        vjp.set(input, given.at(input));
    }
    forward.run("forward");
    Tensor cotangent;
    const double loss = cross_entropy(forward.get("logits"), given.at("labels"), cotangent);
    EXPECT_NEAR(loss, reference().at("loss64").at(0).get<double>(), 1e-6);  // logits are f32
    vjp.set("dlogits", cotangent);
    vjp.run("vjp");
    EXPECT_LE(largest_difference(vjp.get("logits"), forward.get("logits")), 1e-6 * largest(forward.get("logits")));
    expect_pytorchs_gradients(vjp);
}

// A graph that ends in its loss, with 1 as its cotangent.
TEST_P(OfLosses, GivePyTorchsGradients) {
    const Tensors given = first_batch();
    PlannedProgram vjp = program(Transform::vjp);
    const nlohmann::json inputs = reference().at("loss_graph_inputs");
    for (const auto& [input, stored] : inputs.items()) vjp.set(input, given.at(stored.get<std::string>()));
    std::string loss;
    for (const std::string& name : vjp.names())
        if (name.starts_with("d") && vjp.has(name.substr(1)) && vjp.type(name).dims.empty()) loss = name.substr(1);
    ASSERT_NE(loss, "");
    vjp.set("d" + loss, Tensor::scalar(DType::f32, 1));
    vjp.run("vjp");
    EXPECT_NEAR(vjp.get(loss).at(0), reference().at("loss64").at(0).get<double>(), 1e-6);
    expect_pytorchs_gradients(vjp);
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
    return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Functions, OfLogits,
                         ::testing::Values(Case{"mlp", "dynamo.logits", options(), "mlp"},
                                           Case{"llama2", "dynamo.logits", options(), "llama2"},
                                           Case{"llama2", "noopt.logits", options("block"), "llama2_block"},
                                           Case{"llama2", "dynamo.logits", options("none", false), "llama2_straight"},
                                           Case{"llama2_tied", "dynamo.logits", options("selective"), "llama2_tied"},
                                           Case{"llama5", "dynamo.logits", options("none", true, {"reference"}),
                                                "llama5_reference"}),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Functions, OfLosses,
                         ::testing::Values(Case{"mlp", "dynamo.loss", options(), "mlp"},
                                           Case{"llama2", "dynamo.loss", options(), "llama2"},
                                           Case{"llama2", "noopt.loss", options("selective"), "llama2_selective"},
                                           Case{"odd", "tides.loss", options(), "odd"}),
                         name_of_case);

TEST(Functions, KnowWhichLabelsAGraphTakes) {
    // The loss follows labels without looking, so they are looked at when they are read.
    CompileOptions o = options();
    o.transform = Transform::vjp;
    const Module module = compiled("llama2/dynamo.loss.onnx", o);
    std::vector<std::int64_t> known;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.names.front() == "labels") known = {info.entries, info.ignore_index};
    EXPECT_EQ(known, (std::vector<std::int64_t>{48, -100}));
}

}  // namespace function_test
}  // namespace thunderc
