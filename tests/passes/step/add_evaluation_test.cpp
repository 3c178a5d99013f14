// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/add_evaluation.h"

#include <cmath>

#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/step/compose_step.h"
#include "compiler/planned/step_form.h"
#include "tests/passes/pass_test.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace add_evaluation_test {

Module with_evaluation(const std::string& text, Report& report, EvaluationOptions options = {}) {
    Module module = add_evaluation(parsed(text), options, report);
    verify(module);
    return module;
}

// The functions behind main.
std::string added(const Module& module) {
    Module rest = module;
    std::erase_if(rest.functions, [&](const Function& f) { return module.find(f.name) == &module.functions.front(); });
    std::string out;
    for (const Function& f : module.functions)
        if (f.name.find("evaluat") != std::string::npos) out += to_string(f, {.provenance = false});
    return out;
}

// A layer gives what a buffer will be and takes what draws: neither is there in an evaluation, nor where it is called.
constexpr const char* layers = R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %w: 2 x f32[3] parameter "layers.{0..1}.weight",
    %numbers: i64[4] input "sample_numbers" {batched, source = "sample_numbers"},
    %seed: i64[] scalar "seed") -> (%loss "loss") {
  %d0 = constant() {value = <i64[] splat 0.0>} : i64[]
  %d1 = constant() {value = <i64[] splat 1.0>} : i64[]
  %draws = family(%d0, %d1) : 2 x i64[]
  %y, %means = repeat(%x, %w, %draws, %seed, %numbers) {body = "layer", carried = 1, n = 2, per_layer = 2, reverse = false} : f32[4,3], 2 x f32[3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
func @layer(%x: f32[4,3], %w: f32[3], %draw: i64[], %seed: i64[], %numbers: i64[4]) -> (%y, %mean) {
  %h = mul(%x, %w) : f32[4,3]
  %y = dropout(%h, %seed, %draw, %numbers) {rate = 0.5} : f32[4,3]
  %mean = reduce_sum(%h) {axes = [0], keep_dims = false} : f32[3]
}
)";

TEST(AddEvaluation, LayersDropNothingAndGiveWhatIsRead) {
    Report report;
    EXPECT_EQ(added(with_evaluation(layers, report)), R"(func @layer_evaluation(%x: f32[4,3], %w: f32[3]) -> (%h) {
  %h = mul(%x, %w) : f32[4,3]
}
func @evaluate(
    %x: f32[4,3] input "x" {batched},
    %w: 2 x f32[3] parameter "layers.{0..1}.weight",
    %loss_sum: f32[] scalar "loss_sum") -> (%loss_sum_after "loss_sum") {
  %y = repeat(%x, %w) {body = "layer_evaluation", carried = 1, n = 2, per_layer = 1, reverse = false} : f32[4,3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
}
)");
    EXPECT_EQ(notes(report), "done evaluate: the model in evaluation\n");
}

TEST(AddEvaluation, AttentionDropsNothing) {
    Report report;
    const std::string text = added(with_evaluation(R"(
func @main(
    %q: f32[2,4,2,8] parameter "q",
    %numbers: i64[2] input "sample_numbers" {batched, source = "sample_numbers"},
    %seed: i64[] scalar "seed") -> (%loss "loss") {
  %draw = constant() {value = <i64[] splat 0.0>} : i64[]
  %y, %lse = sdpa(%q, %q, %q, _, %seed, %draw, %numbers) {causal = true, dropout = 0.25, scale = 0.5} : f32[2,4,2,8], f32[2,2,4]
  %loss = reduce_sum(%y) {axes = [0, 1, 2, 3], keep_dims = false} : f32[]
}
)",
                                                   report));
    EXPECT_NE(text.find("sdpa(%q, %q, %q) {causal = true, scale = 0.5}"), std::string::npos) << text;
    EXPECT_EQ(text.find("seed"), std::string::npos) << text;
}

// (x - running mean) / sqrt(running variance + eps) w + b, channel by channel, and no statistic of the batch.
TEST(AddEvaluation, BatchNormsTakeRunningStatistics) {
    Report report;
    const Module module = with_evaluation(R"(
func @main(
    %x: f32[2,2,2] input "x" {batched},
    %w: f32[2] parameter "weight",
    %b: f32[2] parameter "bias",
    %rm: f32[2] buffer "running_mean" {frozen, init = zeros},
    %rv: f32[2] buffer "running_var" {frozen, init = ones}) -> (%loss "loss", %m "running_mean", %v "running_var") {
  %y, %mean, %variance = batch_norm(%x, %w, %b, %rm, %rv) {eps = 0.5} : f32[2,2,2], f32[2], f32[2]
  %m = add(%rm, %mean) : f32[2]
  %v = add(%rv, %variance) : f32[2]
  %squares = mul(%y, %y) : f32[2,2,2]
  %loss = reduce_sum(%squares) {axes = [0, 1, 2], keep_dims = false} : f32[]
}
)",
                                          report);
    const Function& f = *module.find(evaluate_function);
    const std::vector<double> x = {1, 2, 3, 4, -1, 0, 5, -2}, w = {2, 3}, b = {0.25, -1}, mean = {0.5, 2},
                              variance = {3.5, 0.5};
    const auto members = [&](const std::vector<double>& numbers, const Dims& dims) {
        Tensor t(Type::tensor(DType::f32, dims));
        for (std::size_t k = 0; k < numbers.size(); ++k) t.set(static_cast<std::int64_t>(k), numbers[k]);
        return Members{t};
    };
    const std::vector<Members> arguments = {members(x, {2, 2, 2}), members(w, {2}),        members(b, {2}),
                                            members(mean, {2}),    members(variance, {2}), members({10}, {})};
    double want = 10;
    for (std::size_t k = 0; k < x.size(); ++k) {
        const std::size_t c = k / 2 % 2;
        const double y = (x[k] - mean[c]) / std::sqrt(variance[c] + 0.5) * w[c] + b[c];
        want += y * y;
    }
    ASSERT_EQ(f.results.size(), 1U);
    EXPECT_NEAR(evaluate(module, f, arguments)[0][0].at(0), want, 1e-5);
}

constexpr const char* classifier = R"(
func @main(
    %scores: f32[5,3] parameter "scores",
    %labels: i64[5] input "labels" {batched, entries = 3, ignore = -100}) -> (%loss "loss", %n "weight") {
  %loss, %lse = cross_entropy(%scores, %labels) {ignore_index = -100} : f32[], f32[5]
  %n = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
}
)";

// Of equal scores the first is the largest, as torch's argmax has it; a label that is ignored is none, and a row with a
// NaN tells the class where that stands.
TEST(AddEvaluation, CountsLabelsWithTheLargestScore) {
    Report report;
    const Module module = with_evaluation(classifier, report);
    EXPECT_EQ(notes(report),
              "done evaluate: the model in evaluation, which counts labels whose score is the largest\n");
    const Function& f = *module.find(evaluate_function);
    EXPECT_EQ(f.result_names, (std::vector<std::string>{"loss_sum", "label_count", "label_hits"}));
    Tensor scores(Type::tensor(DType::f32, {5, 3})), labels(Type::tensor(DType::i64, {5}));
    const double rows[] = {1, 2, 3, 7, 7, 0, 7, 7, 0, 9, 0, 0, NAN, 9, 0};
    for (std::int64_t k = 0; k < 15; ++k) scores.set(k, rows[k]);
    labels.i = {2, 0, 1, -100, 1};  // hit, hit, the second of two equal ones, ignored, beside a NaN
    const Tensor zero(Type::tensor(DType::f32, {})), one = Tensor::scalar(DType::f32, 1);
    const std::vector<Members> sums =
        evaluate(module, f, std::vector<Members>{{scores}, {labels}, {zero}, {one}, {one}});
    EXPECT_EQ(sums[1][0].at(0), 1 + 4);
    EXPECT_EQ(sums[2][0].at(0), 1 + 2);
}

// The same of logarithms of probabilities (--loss nll), also where classes have weights.
TEST(AddEvaluation, CountsLabelsOfALikelihood) {
    const std::string head = R"(
func @main(
    %scores: f32[5,3] parameter "scores",
    %labels: i64[5] input "labels" {batched, entries = 3, ignore = -100}) -> (%loss "loss", %n "weight") {
  %class = constant() {value = <i64[1,3] affine 0.0 + [0.0, 1.0]>} : i64[1,3]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %column = reshape(%labels) {dims = [5, 1]} : i64[5,1]
  %is_label = eq(%class, %column) : bool[5,3]
)",
                      tail = R"(
  %taken = select(%is_label, %negated, %zero) : f32[5,3]
  %loss = reduce_sum(%taken) {axes = [0, 1], keep_dims = false} : f32[]
  %n = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
}
)";
    const std::string weighted =
        "  %w = constant() {value = <f32[1,3] affine 1.0 + [0.0, 1.0]>} : f32[1,3]\n"
        "  %s = mul(%scores, %w) : f32[5,3]\n  %negated = neg(%s) : f32[5,3]";
    for (const std::string& middle : {std::string("  %negated = neg(%scores) : f32[5,3]"), weighted}) {
        Report report;
        const Module module = with_evaluation(head + middle + tail, report);
        ASSERT_NE(module.find(evaluate_function), nullptr) << middle;
        Tensor scores(Type::tensor(DType::f32, {5, 3})), labels(Type::tensor(DType::i64, {5}));
        const double rows[] = {-3, -2, -0.1, -1, -1, -5, -1, -1, -5, -0.1, -2, -3, -2, -0.5, -1};
        for (std::int64_t k = 0; k < 15; ++k) scores.set(k, rows[k]);
        labels.i = {2, 0, 1, -100, 1};  // hit, hit, the second of two equal ones, ignored, hit
        const Tensor zero(Type::tensor(DType::f32, {}));
        const std::vector<Members> sums = evaluate(module, *module.find(evaluate_function),
                                                   std::vector<Members>{{scores}, {labels}, {zero}, {zero}, {zero}});
        EXPECT_EQ(sums[1][0].at(0), 4);
        EXPECT_EQ(sums[2][0].at(0), 3);
    }
    // What is added up is something else: scores of the label that are not negated, or of all classes but the label.
    for (const auto& [from, to] : {std::pair("%is_label, %negated, %zero", "%is_label, %scores, %zero"),
                                   std::pair("%is_label, %negated, %zero", "%is_label, %zero, %negated")}) {
        std::string other = head + "  %negated = neg(%scores) : f32[5,3]" + tail;
        other.replace(other.find(from), std::string(from).size(), to);
        Report report;
        EXPECT_EQ(with_evaluation(other, report).find(evaluate_function), nullptr) << to;
    }
}

// The exponential of the loss says as much of tokens; a step's own forward pass is its evaluation.
TEST(AddEvaluation, ThereIsNoneWhereTheForwardPassIsOne) {
    std::string tokens = classifier;
    tokens.replace(tokens.find("%labels: i64[5] input \"labels\" {batched"), 39,
                   "%ids: i64[5] input \"ids\" {batched, entries = 3, source = \"tokens\"},\n"
                   "    %both: i64[1,5] input \"labels\" {batched");
    tokens.insert(tokens.find("  %loss, %lse"), "  %labels = reshape(%both) {dims = [5]} : i64[5]\n");
    Report report;
    EXPECT_EQ(with_evaluation(tokens, report).find(evaluate_function), nullptr);
    // Where tokens are to be counted there is one.
    Report counted;
    const Module counts = with_evaluation(tokens, counted, {.token_accuracy = true});
    ASSERT_NE(counts.find(evaluate_function), nullptr);
    EXPECT_EQ(counts.find(evaluate_function)->results.size(), 3U);
    EXPECT_EQ(notes(counted),
              "done evaluate: the model in evaluation, which counts labels whose score is the largest\n");
    // Nor where there is to be none.
    EXPECT_EQ(with_evaluation(classifier, report, {.function = false}).find(evaluate_function), nullptr);
    EXPECT_EQ(with_evaluation(R"(
func @main(%x: f32[4] input "x" {batched}, %w: f32[4] parameter "w") -> (%loss "loss") {
  %y = mul(%x, %w) : f32[4]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
)",
                              report)
                  .find(evaluate_function),
              nullptr);
    EXPECT_EQ(notes(report), "");
}

// A forward pass that begins what the backward pass reads is none to judge by.
TEST(AddEvaluation, ThereIsOneWhereItIsAskedFor) {
    const std::string text = R"(
func @main(%x: f32[4] input "x" {batched}, %w: f32[4] parameter "w") -> (%loss "loss") {
  %y = mul(%x, %w) : f32[4]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
)";
    Report report;
    EXPECT_EQ(added(with_evaluation(text, report, {.of_its_own = true})), R"(func @evaluate(
    %x: f32[4] input "x" {batched},
    %w: f32[4] parameter "w",
    %loss_sum: f32[] scalar "loss_sum") -> (%loss_sum_after "loss_sum") {
  %y = mul(%x, %w) : f32[4]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
}
)");
    EXPECT_EQ(notes(report), "done evaluate: the model in evaluation\n");
    // Nothing is counted where there is nothing to count, or no function that counts.
    report = {};
    EXPECT_EQ(with_evaluation(text, report, {.token_accuracy = true}).find(evaluate_function), nullptr);
    with_evaluation(classifier, report, {.function = false, .token_accuracy = true});
    EXPECT_EQ(
        notes(report),
        "warning evaluate: --token-accuracy counts nothing: the loss is not one cross entropy of classes\n"
        "warning evaluate: --token-accuracy counts nothing: a naive program has the forward pass of a step alone\n");
}

TEST(AddEvaluation, ThereIsNoneWhereItWouldBeAnotherModels) {
    Report report;
    // Noise is no dropout.
    const Module noise = with_evaluation(R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %w: f32[3] parameter "w",
    %numbers: i64[4] input "sample_numbers" {batched, source = "sample_numbers"},
    %seed: i64[] scalar "seed") -> (%loss "loss") {
  %d = constant() {value = <i64[] splat 0.0>} : i64[]
  %u = uniform(%seed, %d, %numbers) {dims = [3]} : f32[4,3]
  %h = add(%x, %u) : f32[4,3]
  %z = mul(%h, %w) : f32[4,3]
  %y = dropout(%z, %seed, %d, %numbers) {rate = 0.5} : f32[4,3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
)",
                                         report);
    EXPECT_EQ(noise.find(evaluate_function), nullptr);
    EXPECT_EQ(notes(report), "declined evaluate: numbers are drawn that belong to no dropout\n");
    // A norm that nobody told which buffers it moves.
    report = {};
    const Module untold = with_evaluation(R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %rm: f32[3] buffer "running_mean" {frozen, init = zeros}) -> (%loss "loss", %m "running_mean") {
  %y, %mean, %variance = batch_norm(%x) {eps = 1e-05} : f32[4,3], f32[3], f32[3]
  %m = add(%rm, %mean) : f32[3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
)",
                                          report);
    EXPECT_EQ(untold.find(evaluate_function), nullptr);
    EXPECT_EQ(notes(report),
              "declined evaluate: not every buffer that the model moves is a statistic of a batch norm\n");
}

// It is an entry of its own, which the passes of a step leave as it is.
TEST(AddEvaluation, StandsBesideTheStep) {
    Report report;
    const Module before = with_evaluation(layers, report);
    const Module step = compose_step(differentiate(before, {}, report), {}, report);
    verify(step);
    EXPECT_EQ(added(step), [&] {
        const std::string text = added(before);  // entries stand before what they call
        const std::size_t entry = text.find("func @evaluate(");
        return text.substr(entry) + text.substr(0, entry);
    }());
    EXPECT_NE(step.find("layer_forward"), nullptr);
    EXPECT_EQ(step.find("layer"), nullptr);
}

}  // namespace add_evaluation_test
}  // namespace thunderc
