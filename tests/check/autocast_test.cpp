// SPDX-License-Identifier: Apache-2.0
// What is said to be PyTorch's rounding is PyTorch's: scripts/record_precision.py recorded the types that its operators
// give under autocast, and the losses and gradients of three models.
#include "compiler/check/autocast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "cli/tensor_file.h"
#include "compiler/check/autocast_fp8.h"
#include "compiler/check/precision_check.h"
#include "compiler/frontend/frontend.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/pipeline.h"
#include "support/json.h"

namespace thunderc {
namespace autocast_test {

using thunder::Json;

Json recorded(const std::string& file) {
    std::ifstream in(FIXTURES "/precision/" + file);
    std::stringstream text;
    text << in.rdbuf();
    return thunder::parse_json(text.str(), file);
}

const Json& at(const Json& object, const std::string& key) {
    const Json* member = object.find(key);
    if (member == nullptr) throw std::runtime_error("no " + key);
    return *member;
}

// ---- the lists ----

TEST(Autocast, TheTypeOfEachOpIsTorchs) {
    const Json types = recorded("types.json");
    std::set<std::string> seen;
    for (const Json::Member& op : at(types, "operators").object) {
        seen.insert(op.name);
        const Json& gpu = at(op.value, "cuda");
        if (gpu.is(Json::Kind::null)) continue;  // refused under autocast
        const std::string of_low = at(gpu, "bf16").string, of_wide = at(gpu, "f32").string;
        const Autocast expected = of_wide == "bf16" ? Autocast::low
                                  : of_low == "f32" ? Autocast::wide
                                                    : Autocast::promotes;
        if (op.name == "reduce_mean") continue;  // a sum, which is f32, and a division of it
        EXPECT_EQ(op_def(op.name).autocast, expected) << op.name;
    }
    // Each op that is differentiated and reads floating point has been asked of PyTorch, or is none of its operators.
    const std::set<std::string> none = {
        "argmax",         "gather_nd", "grouped_linear",   "rotary",           "stop_gradient",
        "sum_over_ranks", "swiglu",    "unplaced_dropout", "unplaced_uniform", "cast"};
    for (const OpDef* def : all_ops()) {
        if (def->level == OpLevel::structural || !def->vjp || def->name.find("_backward") != std::string::npos)
            continue;
        EXPECT_TRUE(seen.contains(def->name) || none.contains(def->name)) << def->name;
    }
}

std::string cast_text(const std::string& text) {
    const Module out = autocast(parse_module("module \"m\" values\n" + text), DType::bf16);
    verify(out);
    return to_string(out);
}

TEST(Autocast, CastsWhatTheListsSay) {
    EXPECT_EQ(cast_text(R"(
func @main(%x: f32[2,8] input "x" {batched}, %w: f32[4,8] parameter "w", %b: f32[4] parameter "b") -> (%loss "loss") {
  %h = linear(%x, %w, %b) : f32[2,4]
  %y = silu(%h) : f32[2,4]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %d = mul(%y, %two) : f32[2,4]
  %s = add(%d, %b) : f32[2,4]
  %loss = reduce_sum(%s) {axes = [0, 1], keep_dims = false} : f32[]
})"),
              R"(module "m" values

func @main(
    %x: f32[2,8] input "x" {batched},
    %w: f32[4,8] parameter "w",
    %b: f32[4] parameter "b") -> (%loss "loss") {
  %cast = cast(%x) {dtype = bf16} : bf16[2,8]
  %cast_1 = cast(%w) {dtype = bf16} : bf16[4,8]
  %cast_2 = cast(%b) {dtype = bf16} : bf16[4]
  %h = linear(%cast, %cast_1, %cast_2) : bf16[2,4]
  %cast_3 = cast(%h) {dtype = f32} : f32[2,4]
  %y = silu(%cast_3) : f32[2,4]
  %cast_4 = cast(%y) {dtype = bf16} : bf16[2,4]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %cast_5 = cast(%cast_4) {dtype = f32} : f32[2,4]
  %d = mul(%cast_5, %two) : f32[2,4]
  %cast_6 = cast(%d) {dtype = bf16} : bf16[2,4]
  %cast_7 = cast(%cast_6) {dtype = f32} : f32[2,4]
  %s = add(%cast_7, %b) : f32[2,4]
  %loss = reduce_sum(%s) {axes = [0, 1], keep_dims = false} : f32[]
}
)");
}

// Readers of an activation cast it each by itself, so that what comes back is added up in f32; a parameter is cast
// once.
TEST(Autocast, CastsActivationsForEachReaderAndParametersOnce) {
    EXPECT_EQ(cast_text(R"(
func @main(%x: f32[2,4] input "x" {batched}, %w: f32[4,4] parameter "w") -> (%loss "loss") {
  %a = neg(%x) : f32[2,4]
  %h = linear(%a, %w) : f32[2,4]
  %g = linear(%a, %w) : f32[2,4]
  %y = swiglu(%g, %h) : f32[2,4]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
})"),
              R"(module "m" values

func @main(
    %x: f32[2,4] input "x" {batched},
    %w: f32[4,4] parameter "w") -> (%loss "loss") {
  %a = neg(%x) : f32[2,4]
  %cast = cast(%a) {dtype = bf16} : bf16[2,4]
  %cast_1 = cast(%w) {dtype = bf16} : bf16[4,4]
  %h = linear(%cast, %cast_1) : bf16[2,4]
  %cast_2 = cast(%a) {dtype = bf16} : bf16[2,4]
  %g = linear(%cast_2, %cast_1) : bf16[2,4]
  %cast_3 = cast(%g) {dtype = f32} : f32[2,4]
  %silu = silu(%cast_3) : f32[2,4]
  %cast_4 = cast(%silu) {dtype = bf16} : bf16[2,4]
  %cast_5 = cast(%cast_4) {dtype = f32} : f32[2,4]
  %cast_6 = cast(%h) {dtype = f32} : f32[2,4]
  %y = mul(%cast_5, %cast_6) : f32[2,4]
  %cast_7 = cast(%y) {dtype = bf16} : bf16[2,4]
  %cast_8 = cast(%cast_7) {dtype = f32} : f32[2,4]
  %loss = reduce_sum(%cast_8) {axes = [0, 1], keep_dims = false} : f32[]
}
)");
}

// Nothing is narrow: the module as it is.
TEST(Autocast, InF32ChangesNothing) {
    const Module module = parse_module(R"(module "m" values
func @main(%x: f32[2,8] input "x" {batched}, %w: f32[4,8] parameter "w") -> (%loss "loss") {
  %h = linear(%x, %w) : f32[2,4]
  %loss = reduce_sum(%h) {axes = [0, 1], keep_dims = false} : f32[]
})");
    EXPECT_EQ(to_string(autocast(module, DType::f32)), to_string(module));
}

TEST(Autocast, NamesOfPatterns) {
    EXPECT_EQ(expand_names("a.b"), (std::vector<std::string>{"a.b"}));
    EXPECT_EQ(expand_names("m.{8..10}.x.{q,k}_proj"),
              (std::vector<std::string>{"m.8.x.q_proj", "m.8.x.k_proj", "m.9.x.q_proj", "m.9.x.k_proj", "m.10.x.q_proj",
                                        "m.10.x.k_proj"}));
}

// x and w as e4m3 and dy as e5m2, each where a product reads it, of the modules that are named alone; the sums that are
// a bias's gradient are of dy as it was.
TEST(Autocast, LayersOfFp8MultiplyCodes) {
    const std::string step = R"(module "m" values

func @forward_backward(
    %x: bf16[16,32],
    %w: bf16[48,32],
    %b: bf16[48],
    %dy: bf16[16,48]) -> (%y, %dx, %dw, %db) {
  %y = linear(%x, %w, %b) : bf16[16,48] at "layers.0.up" "Linear"
  %dx = linear_backward_input(%dy, %w) : bf16[16,32] at "layers.0.up" "Linear"
  %dw, %db = linear_backward_weight(%dy, %x) {bias = true} : bf16[48,32], bf16[48] at "layers.0.up" "Linear"
}
)";
    const auto text_of = [&](const std::vector<std::string>& modules, bool weight_gradients) {
        const Module out = quantise_like_pytorch(parse_module(step), modules, weight_gradients);
        verify(out);
        std::string text = to_string(out);
        for (std::size_t at; (at = text.find(" at \"layers.0.up\" \"Linear\"")) != std::string::npos;)
            text.erase(at, 26);
        return text;
    };
    EXPECT_EQ(text_of({"layers.0.up"}, true), R"(module "m" values

func @forward_backward(%x: bf16[16,32], %w: bf16[48,32], %b: bf16[48], %dy: bf16[16,48]) -> (%fp8_linear, %fp8_linear_1, %fp8_linear_backward_weight, %linear_backward_weight_1) {
  %fp8_quantise_current, %fp8_quantise_current_inverse, %fp8_quantise_current_q = fp8_quantise_current(%x) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[16,32]
  %fp8_quantise_current_1, %fp8_quantise_current_inverse_1, %fp8_quantise_current_q_1 = fp8_quantise_current(%w) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[48,32]
  %fp8_linear = fp8_linear(%fp8_quantise_current_q, %fp8_quantise_current_q_1, %fp8_quantise_current_inverse, %fp8_quantise_current_inverse_1, _, %b) {dtype = bf16} : bf16[16,48]
  %fp8_quantise_current_2, %fp8_quantise_current_inverse_2, %fp8_quantise_current_q_2 = fp8_quantise_current(%dy) {copies = "plain", dtype = e5m2} : f32[], f32[], e5m2[16,48]
  %fp8_quantise_current_3, %fp8_quantise_current_inverse_3, %fp8_quantise_current_q_3 = fp8_quantise_current(%w) {copies = "transposed", dtype = e4m3} : f32[], f32[], e4m3[32,48]
  %fp8_linear_1 = fp8_linear(%fp8_quantise_current_q_2, %fp8_quantise_current_q_3, %fp8_quantise_current_inverse_2, %fp8_quantise_current_inverse_3) {dtype = bf16} : bf16[16,32]
  %linear_backward_weight, %linear_backward_weight_1 = linear_backward_weight(%dy, %x) {bias = true} : bf16[48,32], bf16[48]
  %fp8_quantise_current_4, %fp8_quantise_current_inverse_4, %fp8_quantise_current_q_4 = fp8_quantise_current(%dy) {copies = "transposed", dtype = e5m2} : f32[], f32[], e5m2[48,16]
  %fp8_quantise_current_5, %fp8_quantise_current_inverse_5, %fp8_quantise_current_q_5 = fp8_quantise_current(%x) {copies = "transposed", dtype = e4m3} : f32[], f32[], e4m3[32,16]
  %fp8_linear_backward_weight = fp8_linear_backward_weight(%fp8_quantise_current_q_4, %fp8_quantise_current_q_5, %fp8_quantise_current_inverse_4, %fp8_quantise_current_inverse_5) {dtype = bf16} : bf16[48,32]
}
)");
    EXPECT_EQ(text_of({"layers.0.up"}, false).find("fp8_linear_backward_weight"), std::string::npos);
    EXPECT_EQ(text_of({"layers.1.up"}, true).find("fp8"), std::string::npos);
}

// ---- the models ----

struct Case {
    const char* model;
    const char* graph;
    const char* dtype;
};

Module compiled(const Case& c, CompileOptions options, const std::string& last, const std::set<std::string>& disabled) {
    if (std::string(c.graph).find("logits") != std::string::npos) options.loss = "cross-entropy";
    std::vector<Pass> passes = pipeline(options);
    while (passes.back().name != last) passes.pop_back();
    std::vector<PassRun> runs;
    PassOptions how;
    how.disabled = disabled;
    return run_passes(import_model(FIXTURES "/" + std::string(c.model) + "/" + c.graph, options), passes, runs, how);
}

double distance(const NamedTensors& a, const NamedTensors& b) {
    double off = 0;
    for (const auto& [name, t] : a)
        for (std::int64_t k = 0; k < t.size(); ++k) off += std::pow(t.at(k) - b.at(name).at(k), 2);
    return std::sqrt(off);
}

// The yardstick rounds where PyTorch does: it is as far from fp64, and most of that is the same in both. What is not:
// sums in f32, and backward kernels of PyTorch that read a rounded result, put a number here and there to the other
// side.
TEST(Autocast, GivesTheGradientsOfTorch) {
    const Json reference = recorded("gradients.json");
    for (const Case& c : {Case{"llama2", "noopt.logits.onnx", "bf16"},
                          {"llama2", "noopt.logits.onnx", "f16"},
                          {"gpt2", "noopt.loss.onnx", "bf16"},
                          {"gpt2", "noopt.loss.onnx", "f16"},
                          {"mlp", "dynamo.logits.onnx", "bf16"},
                          {"mlp", "dynamo.logits.onnx", "f16"}}) {
        const std::string what = std::string(c.model) + " " + c.dtype;
        CompileOptions options;
        const Module composed = compiled(c, options, "simplify_step", {});
        options.roll = false;
        const DType low = parse_dtype(c.dtype).value();
        const Module yardstick =
            autocast_step(compiled(c, options, "forget_statistics", passes_beyond_pytorch()), low, "adamw");
        NamedTensors tensors = read_safetensors(FIXTURES "/" + std::string(c.model) + "/params.safetensors");
        for (const auto& [name, t] : read_safetensors(FIXTURES "/" + std::string(c.model) + "/batch.safetensors"))
            if (name.ends_with("_0")) tensors.insert_or_assign(name.substr(0, name.size() - 2), t);
        if (tensors.contains("hf_labels") && std::string(c.graph).find("loss") != std::string::npos)
            tensors["labels"] = tensors.at("hf_labels");
        const StepResult exact = StepEvaluation(composed, tensors, false).run();
        const StepResult ours = StepEvaluation(yardstick, tensors, true).run(low == DType::f16 ? 0x1p16 : 1);
        const Json& model = at(at(reference, "models"), c.model);
        const Json& theirs = at(model, c.dtype);
        // The same model, parameters and batch; exports have rotary tables in f32.
        EXPECT_NEAR(exact.loss, at(model, "loss").real, 1e-8) << what;
        const NamedTensors gradients =
            read_safetensors(FIXTURES "/precision/" + std::string(c.model) + "_" + c.dtype + ".safetensors");
        ASSERT_EQ(gradients.size(), exact.gradients.size()) << what;
        const double of_torch = distance(gradients, exact.gradients),
                     of_ours = distance(ours.gradients, exact.gradients);
        EXPECT_NEAR(of_ours, of_torch, 0.05 * of_torch) << what;
        EXPECT_LT(distance(ours.gradients, gradients), 0.3 * of_torch) << what;
        EXPECT_NEAR(ours.loss, at(theirs, "loss").real, 1e-6) << what;  // a loss of 4 in f32 is rounded by 2.4e-7
        // By default PyTorch rounds some more within attention and GPT-2's gelu: as far off as that in all.
        const double usual = at(at(model, std::string(c.dtype) + "_usual"), "gradients").real;
        EXPECT_LT(step_error(ours, exact).gradients, 1.5 * usual) << what;
        EXPECT_GT(step_error(ours, exact).gradients, usual / 1.5) << what;
    }
}

}  // namespace autocast_test
}  // namespace thunderc
