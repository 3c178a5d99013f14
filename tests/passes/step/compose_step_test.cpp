// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/compose_step.h"

#include <cmath>

#include "compiler/check/gradient_check.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace compose_step_test {

// A mean loss: its sum and its weight. The weight counts the labels that are not ignored.
constexpr const char* classifier = R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %labels: i64[4] input "labels" {batched, entries = 5, ignore = -100},
    %w: f32[5,3] parameter "fc.weight",
    %b: f32[5] parameter "fc.bias",
    %f: f32[5] parameter "fixed" {frozen}) -> (%loss "loss", %n "weight") {
  %l = linear(%x, %w, %b) : f32[4,5]
  %m = mul(%l, %f) : f32[4,5]
  %loss, %lse = cross_entropy(%m, %labels) {ignore_index = -100} : f32[], f32[4]
  %n = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
}
)";

Module composed(const std::string& text, const StepOptions& options = {}) {
    Report report;
    Module module = compose_step(differentiate(parsed(text), {}, report), options, report);
    verify(module);
    return module;
}

// What a buffer will be takes its place, in each micro-step; it has no gradient, no state, and is no weight of the
// loss.
TEST(ComposeStep, BuffersTakeTheirOwnPlaces) {
    const Module module = composed(R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %w: f32[3] parameter "w",
    %mean: f32[3] buffer "norm.running_mean" {frozen, init = zeros}) -> (%loss "loss", %moved "norm.running_mean") {
  %y = mul(%x, %w) : f32[4,3]
  %sum = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[3]
  %moved = add(%mean, %sum) : f32[3]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
)");
    const Function& step = *module.find(forward_backward_function);
    EXPECT_EQ(step.result_names, (std::vector<std::string>{"grad_w", "mean", "loss_sum"}));
    EXPECT_EQ(step.info(step.results[1]).name, "moved");
    EXPECT_EQ(module.find(loss_weight_function), nullptr);
    for (const ArgInfo& info : module.find(update_function)->argument_info) EXPECT_NE(info.kind, ArgInfo::Kind::buffer);
}

TEST(ComposeStep, MakesTheThreeFunctionsOfAStep) {
    EXPECT_EQ(printed_functions(composed(classifier)), R"(func @forward_backward(
    %x: f32[4,3] input "x" {batched},
    %labels: i64[4] input "labels" {batched, entries = 5, ignore = -100},
    %w: f32[5,3] parameter "fc.weight",
    %b: f32[5] parameter "fc.bias",
    %f: f32[5] parameter "fixed" {frozen},
    %dloss: f32[] scalar "dloss",
    %grad_w: f32[5,3] state "grad.fc.weight",
    %grad_b: f32[5] state "grad.fc.bias",
    %first_micro_step: bool[] scalar "first_micro_step",
    %loss_sum: f32[] scalar "loss_sum") -> (%grad_w_after "grad_w", %grad_b_after "grad_b", %loss_sum_after "loss_sum") {
  %l = linear(%x, %w, %b) : f32[4,5]
  %m = mul(%l, %f) : f32[4,5]
  %loss, %lse = cross_entropy(%m, %labels) {ignore_index = -100} : f32[], f32[4]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
  %dm = cross_entropy_backward(%m, %labels, %lse, %dloss) {ignore_index = -100} : f32[4,5]
  %dl = mul(%dm, %f) : f32[4,5]
  %dw, %db = linear_backward_weight(%dl, %x) {bias = true} : f32[5,3], f32[5]
  %grad_w_after = accumulate_gradient(%grad_w, %dw, %first_micro_step) : f32[5,3]
  %grad_b_after = accumulate_gradient(%grad_b, %db, %first_micro_step) : f32[5]
}
func @loss_weight(
    %labels: i64[4] input "labels" {batched, entries = 5, ignore = -100},
    %loss_weight: f32[] scalar "loss_weight") -> (%loss_weight_after "loss_weight") {
  %n = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
  %loss_weight_after = add(%loss_weight, %n) : f32[]
}
func @update(
    %w: f32[5,3] parameter "fc.weight",
    %b: f32[5] parameter "fc.bias",
    %grad_w: f32[5,3] state "grad.fc.weight",
    %grad_b: f32[5] state "grad.fc.bias",
    %first_moment_w: f32[5,3] state "first_moment.fc.weight",
    %first_moment_b: f32[5] state "first_moment.fc.bias",
    %second_moment_w: f32[5,3] state "second_moment.fc.weight",
    %second_moment_b: f32[5] state "second_moment.fc.bias",
    %one_minus_beta1: f32[] scalar "adamw.one_minus_beta1",
    %beta2: f32[] scalar "adamw.beta2",
    %one_minus_beta2: f32[] scalar "adamw.one_minus_beta2",
    %step_size: f32[] scalar "adamw.step_size",
    %bias_correction2_sqrt: f32[] scalar "adamw.bias_correction2_sqrt",
    %eps: f32[] scalar "adamw.eps",
    %kept: f32[] scalar "adamw.kept",
    %max_grad_norm: f32[] scalar "max_grad_norm",
    %decay_all: bool[] scalar "decay_all") -> (%w_after "w", %b_after "b", %first_moment_w_after "first_moment_w", %first_moment_b_after "first_moment_b", %second_moment_w_after "second_moment_w", %second_moment_b_after "second_moment_b", %grad_norm "grad_norm") {
  %grad_norm = global_norm(%grad_w, %grad_b) : f32[]
  %clip_factor = clip_factor(%grad_norm, %max_grad_norm) : f32[]
  %w_after, %b_after, %first_moment_w_after, %first_moment_b_after, %second_moment_w_after, %second_moment_b_after = adamw(%w, %b, %grad_w, %grad_b, %first_moment_w, %first_moment_b, %second_moment_w, %second_moment_b, %one_minus_beta1, %beta2, %one_minus_beta2, %step_size, %bias_correction2_sqrt, %eps, %kept, %clip_factor, %decay_all) : f32[5,3], f32[5], f32[5,3], f32[5], f32[5,3], f32[5]
}
)");
}

TEST(ComposeStep, SgdWithoutMomentumHasNoState) {
    StepOptions options;
    options.optimizer = "plain_sgd";
    const Module module = composed(classifier, options);
    EXPECT_EQ(to_string(*module.find("update"), {.provenance = false}), R"(func @update(
    %w: f32[5,3] parameter "fc.weight",
    %b: f32[5] parameter "fc.bias",
    %grad_w: f32[5,3] state "grad.fc.weight",
    %grad_b: f32[5] state "grad.fc.bias",
    %learning_rate: f32[] scalar "plain_sgd.learning_rate",
    %weight_decay: f32[] scalar "plain_sgd.weight_decay",
    %max_grad_norm: f32[] scalar "max_grad_norm",
    %decay_all: bool[] scalar "decay_all") -> (%w_after "w", %b_after "b", %grad_norm "grad_norm") {
  %grad_norm = global_norm(%grad_w, %grad_b) : f32[]
  %clip_factor = clip_factor(%grad_norm, %max_grad_norm) : f32[]
  %w_after, %b_after = plain_sgd(%w, %b, %grad_w, %grad_b, %learning_rate, %weight_decay, %clip_factor, %decay_all) : f32[5,3], f32[5]
}
)");
}

TEST(ComposeStep, ALossWithoutAWeightIsAveraged) {
    const Module module = composed(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "w") -> (%loss "loss") {
  %y = mul(%x, %w) : f32[3]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
)");
    EXPECT_EQ(module.find("loss_weight"), nullptr);
    EXPECT_EQ(loss_form(module).kind, LossForm::Kind::average);
    EXPECT_EQ(loss_divisor(loss_form(module), {}, 6), 6);
}

TEST(ComposeStep, AMeanIsDividedByItsWeight) {
    const LossForm form = loss_form(composed(classifier));
    EXPECT_EQ(form.kind, LossForm::Kind::mean);
    EXPECT_EQ(form.weights, std::vector<std::string>{"loss_weight"});
    EXPECT_EQ(loss_divisor(form, {5}, 6), 5);
}

// Each term has been divided by its weight, which main reads: the function adds them all up.
TEST(ComposeStep, TermsKeepTheirWeights) {
    const Module module = composed(R"(
func @main(%x: f32[3] input "x", %m: f32[3] input "m", %w: f32[3] parameter "w", %t0: f32[] scalar "loss_weights[0]", %t1: f32[] scalar "loss_weights[1]") -> (%loss "loss", %n "weight_0", %one "weight_1") {
  %y = mul(%x, %w) : f32[3]
  %n = reduce_sum(%m) {axes = [0], keep_dims = false} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %s = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
  %p = reduce_sum(%w) {axes = [0], keep_dims = false} : f32[]
  %a = div(%s, %t0) : f32[]
  %b = div(%p, %t1) : f32[]
  %loss = add(%a, %b) : f32[]
}
)");
    const LossForm form = loss_form(module);
    EXPECT_EQ(form.kind, LossForm::Kind::terms);
    EXPECT_EQ(form.weights, (std::vector<std::string>{"loss_weights[0]", "loss_weights[1]"}));
    EXPECT_EQ(loss_divisor(form, {5, 6}, 6), 1);
    const Function& weight = *module.find("loss_weight");
    ASSERT_EQ(weight.arguments.size(), 3u);  // m and what was added so far
    const std::vector<Tensor> out =
        evaluate(module, weight,
                 std::vector<Tensor>{Tensor::floats({3}, {1, 0, 1}), Tensor::scalar(DType::f32, 4),
                                     Tensor::scalar(DType::f32, 2)});
    EXPECT_EQ(out.at(0).at(0), 6);
    EXPECT_EQ(out.at(1).at(0), 3);
}

TEST(ComposeStep, TheFirstMicroStepOverwritesAndLaterOnesAdd) {
    const Module module = composed(classifier);
    const Function& step = module.main();
    std::vector<Members> arguments = random_arguments(step, 5);
    auto argument = [&](const std::string& name) -> Members& {
        for (std::size_t k = 0; k < step.arguments.size(); ++k)
            if (step.argument_info[k].names.at(0) == name) return arguments[k];
        throw InternalError("there is no argument " + name);
    };
    argument("loss_sum")[0].set(0, 0);
    argument("first_micro_step")[0].set(0, 1);
    const std::vector<Members> first = evaluate(module, step, std::span<const Members>(arguments));
    argument("grad.fc.weight") = first[0];
    argument("grad.fc.bias") = first[1];
    argument("loss_sum") = first[2];
    argument("first_micro_step")[0].set(0, 0);
    const std::vector<Members> second = evaluate(module, step, std::span<const Members>(arguments));
    for (std::size_t r = 0; r < 3; ++r)
        for (std::int64_t k = 0; k < first[r][0].size(); ++k)
            EXPECT_DOUBLE_EQ(second[r][0].at(k), 2 * first[r][0].at(k)) << "result " << r;
}

TEST(ComposeStep, FamiliesStayFamilies) {
    const Module module = composed(R"(
func @main(%x: f32[2,4] input "x", %w: 3 x f32[4,4] parameter "layers.{0..2}.w") -> (%loss "loss") {
  %y = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[2,4]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}
func @layer(%x: f32[2,4], %w: f32[4,4]) -> (%y) {
  %h = linear(%x, %w) : f32[2,4]
  %y = tanh(%h) : f32[2,4]
}
)");
    const Function& update = *module.find("update");
    EXPECT_EQ(update.type(update.results[0]), Type::family(3, DType::f32, {4, 4}));
    EXPECT_EQ(update.argument_info[1].names,
              (std::vector<std::string>{"grad.layers.0.w", "grad.layers.1.w", "grad.layers.2.w"}));
    std::vector<Members> arguments = random_arguments(update, 2);
    const std::vector<Members> out = evaluate(module, update, std::span<const Members>(arguments));
    double sum = 0;
    for (const Tensor& t : arguments[1])
        for (double g : t.f) sum += g * g;
    EXPECT_DOUBLE_EQ(out.back()[0].at(0), std::sqrt(sum));
}

TEST(ComposeStep, NothingToTrainIsTheUsersFault) {
    try {
        composed(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "w" {frozen}) -> (%loss "loss") {
  %y = mul(%x, %w) : f32[3]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
)");
        FAIL() << "no error";
    } catch (const UserError& error) {
        EXPECT_EQ(
            error.diagnostic().text(),
            "error: there is nothing to train: no trainable parameter reaches the loss\n"
            "help: freeze fewer (--freeze, --train-only), or say with --trainable which tensors are parameters\n");
    }
}

// --freeze target, of an export that made one tensor of a network and its copy.
TEST(ComposeStep, WhatIsFrozenWithAnotherIsNamed) {
    try {
        composed(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "online.w" {alias 0 = ["target.w"], frozen}) -> (%loss "loss") {
  %y = mul(%x, %w) : f32[3]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
)");
        FAIL() << "no error";
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: there is nothing to train: no trainable parameter reaches the loss\n"
                  "  found: online.w is frozen, and so is target.w: they are one tensor\n"
                  "help: freeze fewer (--freeze, --train-only), or say with --trainable which tensors are parameters; "
                  "where they are two in the "
                  "model, torch.onnx.export(..., dynamo=True, optimize=False) keeps both\n");
    }
}

}  // namespace compose_step_test
}  // namespace thunderc
