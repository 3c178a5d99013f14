// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/quantise_products.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace quantise_products_test {

using testing::functions_of;
using testing::module_of;

std::string quantised(const std::string& text, const Fp8Options& options = {}, Report* report = nullptr) {
    Report own;
    const Module m = quantise_products(module_of(text), options, report == nullptr ? own : *report);
    verify(m);
    return functions_of(m);
}

std::string message_of(const std::string& text, const Fp8Options& options = {}) {
    try {
        quantised(text, options);
    } catch (const UserError& error) {
        return error.what();
    }
    return "nothing is wrong";
}

std::string why_not(const std::string& text) {
    Report report;
    try {
        quantised(text, {}, &report);
    } catch (const UserError&) {  // no other layer is there
    }
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::declined) return note.text;
    return "";
}

// Two layers, of which the first op of the loop's body and its gradients are given; a head in the step itself.
std::string step(const std::string& forward, const std::string& backward, const std::string& weights = "bf16[32,16]") {
    return R"(
func @forward_backward(%x: bf16[16,16] input "x", %w: 2 x f32[32,16] parameter "layers.{0..1}.up.weight", %g: 2 x f32[32,16] state "grad.layers.{0..1}.up.weight", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum", %w16: 2 x )" +
           weights +
           R"( state "narrow_copy.layers.{0..1}.up.weight", %head: bf16[16,16] state "narrow_copy.head.weight") -> (%g_after "g", %loss_sum_after "loss_sum") {
  %y, %kept = repeat(%x, %w16) {body = "layer", carried = 1, n = 2, per_layer = 1, reverse = false} : bf16[16,16], 2 x bf16[16,16]
  %z = linear(%y, %head) : bf16[16,16]
  %wide = cast(%z) {dtype = f32} : f32[16,16]
  %loss = reduce_sum(%wide) {axes = [0, 1], keep_dims = false} : f32[]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
  %dx, %g_after = repeat(%z, %kept, %w16, %g, %first) {body = "layer_backward", carried = 1, n = 2, per_layer = 3, reverse = true} : bf16[16,16], 2 x f32[32,16]
}
func @update(%w: 2 x f32[32,16] parameter "layers.{0..1}.up.weight", %g: 2 x f32[32,16] state "grad.layers.{0..1}.up.weight", %rate: f32[] scalar "learning_rate", %decay: f32[] scalar "weight_decay", %most: f32[] scalar "max_grad_norm", %all: bool[] scalar "decay_all") -> (%w_after "w", %norm "grad_norm") {
  %norm = global_norm(%g) : f32[]
  %clip = clip_factor(%norm, %most) : f32[]
  %w_after = plain_sgd(%w, %g, %rate, %decay, %clip, %all) : 2 x f32[32,16]
}
func @layer(%x: bf16[16,16], %w: )" +
           weights + R"() -> (%y, %x) {
  )" + forward +
           R"(
  %y = slice(%u) {axis = 1, begin = 0, end = 16, step = 1} : bf16[16,16]
}
func @layer_backward(%dy: bf16[16,16], %x: bf16[16,16], %w: )" +
           weights + R"(, %g: f32[32,16], %first: bool[]) -> (%dx, %g_after) {
  %du = concat(%dy, %dy) {axis = 1} : bf16[16,32]
  )" + backward +
           R"(
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[32,16]
})";
}

const std::string forward = "%u = linear(%x, %w) : bf16[16,32]";
const std::string backward = R"(%dx = linear_backward_input(%du, %w) : bf16[16,16]
  %dw = linear_backward_weight(%du, %x) {dtype = f32} : f32[32,16])";

std::string body_of(const std::string& all, const std::string& name) {
    const std::size_t at = all.find("func @" + name + "(");
    return all.substr(at, all.find("\n}", at) - at);
}

// All three products of a layer; x and the weight are quantised to e4m3, its gradient to e5m2, each by its own scale.
TEST(QuantiseProducts, ALayersThreeProductsReadCodes) {
    const std::string all = quantised(step(forward, backward));
    EXPECT_EQ(
        body_of(all, "layer"),
        R"(func @layer(%x: bf16[16,16], %w: bf16[32,16], %up_input_scale: f32[], %up_input_amax: f32[], %up_weight_scale: f32[], %up_weight_amax: f32[]) -> (%y, %x, %up_input_amax_after, %up_weight_amax_after) {
  %up_input_amax_after, %x_inverse, %x_e4m3 = fp8_quantise(%up_input_scale, %up_input_amax, %x) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[16,16]
  %up_weight_amax_after, %up_weight_inverse, %up_weight_e4m3 = fp8_quantise(%up_weight_scale, %up_weight_amax, %w) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[32,16]
  %u = fp8_linear(%x_e4m3, %up_weight_e4m3, %x_inverse, %up_weight_inverse) {dtype = bf16} : bf16[16,32]
  %y = slice(%u) {axis = 1, begin = 0, end = 16, step = 1} : bf16[16,16])");
    EXPECT_EQ(
        body_of(all, "layer_backward"),
        R"(func @layer_backward(%dy: bf16[16,16], %x: bf16[16,16], %w: bf16[32,16], %g: f32[32,16], %up_gradient_scale: f32[], %up_gradient_amax: f32[], %up_weight_scale: f32[], %up_input_scale: f32[], %first: bool[]) -> (%dx, %g_after, %up_gradient_amax_after) {
  %du = concat(%dy, %dy) {axis = 1} : bf16[16,32]
  %up_gradient_amax_after, %du_inverse, %du_e5m2, %du_e5m2_transposed = fp8_quantise(%up_gradient_scale, %up_gradient_amax, %du) {copies = "both", dtype = e5m2} : f32[], f32[], e5m2[16,32], e5m2[32,16]
  %up_weight_inverse, %up_weight_e4m3_transposed = fp8_requantise(%up_weight_scale, %w) {copies = "transposed", dtype = e4m3} : f32[], e4m3[16,32]
  %dx = fp8_linear(%du_e5m2, %up_weight_e4m3_transposed, %du_inverse, %up_weight_inverse) {dtype = bf16} : bf16[16,16]
  %x_inverse, %x_e4m3_transposed = fp8_requantise(%up_input_scale, %x) {copies = "transposed", dtype = e4m3} : f32[], e4m3[16,16]
  %dw = fp8_linear_backward_weight(%du_e5m2_transposed, %x_e4m3_transposed, %du_inverse, %x_inverse) {dtype = f32} : f32[32,16]
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[32,16])");
}

// Scales are families of the loop's layers. Those of inputs and gradients follow from amaxes behind the backward pass,
// those of weights in the update; the head, which the step itself has, reads bf16.
TEST(QuantiseProducts, StatesAreArgumentsAndScalesAreUpdatedOnce) {
    const std::string all = quantised(step(forward, backward));
    const std::string main = body_of(all, "forward_backward"), update = body_of(all, "update");
    const auto has = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
    };
    has(main, R"(%fp8_up_input_scale: 2 x f32[] state "fp8.layers.{0..1}.up.input_scale")");
    has(main, R"(%fp8_up_gradient_history: 2 x f32[1024] state "fp8.layers.{0..1}.up.gradient_history")");
    has(main, "%z = linear(%y, %head) : bf16[16,16]");
    has(main,
        "repeat(%x, %w16, %fp8_up_input_scale, %fp8_up_input_amax, %fp8_up_weight_scale, %fp8_up_weight_amax) "
        "{body = \"layer\", carried = 1, n = 2, per_layer = 5, reverse = false}");
    has(main,
        "fp8_update_scales(%fp8_up_input_scale, %fp8_up_input_amax_after, %fp8_up_input_history) "
        "{largest = 448.0, of = \"inputs\"}");
    has(main,
        "fp8_update_scales(%fp8_up_gradient_scale, %fp8_up_gradient_amax_after, %fp8_up_gradient_history) "
        "{largest = 57344.0, of = \"gradients\"}");
    has(main, "%fp8_up_weight_amax_after \"fp8_up_weight_amax\"");
    has(update,
        "fp8_update_scales(%fp8_up_weight_scale, %fp8_up_weight_amax, %fp8_up_weight_history) "
        "{largest = 448.0, of = \"weights\"}");
    EXPECT_EQ(all.find("fp8_reduce_amaxes"), std::string::npos);
}

// By a scale of its own: nothing is kept from step to step, so nothing comes in and goes out.
TEST(QuantiseProducts, CurrentScalingHasNoStates) {
    const std::string all = quantised(step(forward, backward), {.recipe = Fp8Recipe::current, .ranks = true});
    EXPECT_EQ(body_of(all, "layer"),
              R"(func @layer(%x: bf16[16,16], %w: bf16[32,16]) -> (%y, %x) {
  %x_scale, %x_inverse, %x_e4m3 = fp8_quantise_current(%x) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[16,16]
  %up_weight_scale, %up_weight_inverse, %up_weight_e4m3 = fp8_quantise_current(%w) {copies = "plain", dtype = e4m3} : f32[], f32[], e4m3[32,16]
  %u = fp8_linear(%x_e4m3, %up_weight_e4m3, %x_inverse, %up_weight_inverse) {dtype = bf16} : bf16[16,32]
  %y = slice(%u) {axis = 1, begin = 0, end = 16, step = 1} : bf16[16,16])");
    EXPECT_NE(all.find("%du_scale, %du_inverse, %du_e5m2, %du_e5m2_transposed = fp8_quantise_current(%du) "
                       "{copies = \"both\", dtype = e5m2}"),
              std::string::npos)
        << all;
    EXPECT_EQ(all.find("fp8_update_scales"), std::string::npos);
    EXPECT_EQ(all.find("fp8_reduce_amaxes"), std::string::npos);
    EXPECT_EQ(all.find("state \"fp8."), std::string::npos);
}

// Both copies of dy have blocks along what their product sums over; a weight's are squares.
TEST(QuantiseProducts, BlocksHaveScalesOfTheirOwn) {
    const std::string all = quantised(step(forward, backward), {.recipe = Fp8Recipe::blockwise});
    EXPECT_EQ(
        body_of(all, "layer_backward"),
        R"(func @layer_backward(%dy: bf16[16,16], %x: bf16[16,16], %w: bf16[32,16], %g: f32[32,16], %first: bool[]) -> (%dx, %g_after) {
  %du = concat(%dy, %dy) {axis = 1} : bf16[16,32]
  %du_scales, %du_e4m3, %du_scales_transposed, %du_e4m3_transposed = fp8_quantise_blocks(%du) {blocks = "rows_of_128", copies = "both", dtype = e4m3} : f32[16,1], e4m3[16,32], f32[32,1], e4m3[32,16]
  %up_weight_scales_transposed, %up_weight_e4m3_transposed = fp8_quantise_blocks(%w) {blocks = "squares_of_128", copies = "transposed", dtype = e4m3} : f32[1,1], e4m3[16,32]
  %dx = fp8_linear(%du_e4m3, %up_weight_e4m3_transposed, %du_scales, %up_weight_scales_transposed) {blocks_a = "rows_of_128", blocks_b = "squares_of_128", dtype = bf16} : bf16[16,16]
  %x_scales_transposed, %x_e4m3_transposed = fp8_quantise_blocks(%x) {blocks = "rows_of_128", copies = "transposed", dtype = e4m3} : f32[16,1], e4m3[16,16]
  %dw = fp8_linear_backward_weight(%du_e4m3_transposed, %x_e4m3_transposed, %du_scales_transposed, %x_scales_transposed) {blocks_a = "rows_of_128", blocks_b = "rows_of_128", dtype = f32} : f32[32,16]
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[32,16])");
    EXPECT_EQ(all.find("state \"fp8."), std::string::npos);
}

std::string twice_as_large(std::string text) {
    for (const auto& [from, to] : {std::pair("16", "@"), std::pair("32", "64"), std::pair("@", "32")})
        for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += 2) {
            const char before = text[at - 1];
            if (before == '[' || before == ',' || text.compare(at - 2, 2, "= ") == 0)
                text.replace(at, std::string(from).size(), to);
        }
    return text;
}

TEST(QuantiseProducts, MxHasScalesOfEightBits) {
    EXPECT_EQ(message_of(step(forward, backward), {.recipe = Fp8Recipe::mxfp8}),
              "--fp8: no linear layer of the model's blocks can be quantised: 16 rows are no multiple of 32");
    const std::string all = quantised(twice_as_large(step(forward, backward)), {.recipe = Fp8Recipe::mxfp8});
    EXPECT_NE(all.find("%x_scales, %x_e4m3 = fp8_quantise_blocks(%x) {blocks = \"rows_of_32\", copies = \"plain\", "
                       "dtype = e4m3} : e8m0[32,1], e4m3[32,32]"),
              std::string::npos)
        << all;
    EXPECT_NE(all.find("%u = fp8_linear(%x_e4m3, %up_weight_e4m3, %x_scales, %up_weight_scales) "
                       "{blocks_a = \"rows_of_32\", blocks_b = \"rows_of_32\", dtype = bf16} : bf16[32,64]"),
              std::string::npos)
        << all;
}

// A weight is quantised in the first micro-step, both copies, and products read what that left; what the step makes of
// it is a state.
TEST(QuantiseProducts, WeightsAreQuantisedOnceAStep) {
    const std::string all = quantised(step(forward, backward), {.keep_weights = true});
    const std::string layer = body_of(all, "layer"), back = body_of(all, "layer_backward"),
                      main = body_of(all, "forward_backward");
    const auto has = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
    };
    has(layer,
        "%up_weight_amax_after, %up_weight_inverse, %up_weight_e4m3, %up_weight_e4m3_transposed = "
        "fp8_quantise_once(%up_weight_scale, %up_weight_amax, %up_weight_inverse_before, %up_weight_e4m3_before, "
        "%up_weight_e4m3_transposed_before, %w, %first) {copies = \"both\", dtype = e4m3}");
    has(layer, "%u = fp8_linear(%x_e4m3, %up_weight_e4m3, %x_inverse, %up_weight_inverse)");
    has(back, "%dx = fp8_linear(%du_e5m2, %up_weight_e4m3_transposed, %du_inverse, %up_weight_inverse)");
    EXPECT_EQ(back.find("quantise(%up_weight"), std::string::npos) << back;
    has(main, R"(%fp8_up_weight_e4m3_transposed: 2 x e4m3[16,32] state "fp8.layers.{0..1}.up.weight_e4m3_transposed")");
    has(main, "%fp8_up_weight_e4m3_after \"fp8_up_weight_e4m3\"");
    has(main,
        "repeat(%z, %kept, %g, %fp8_up_gradient_scale, %fp8_up_gradient_amax, "
        "%fp8_up_weight_e4m3_transposed_after, %fp8_up_weight_inverse_after, %fp8_up_input_scale, %first)");
    EXPECT_EQ(body_of(all, "update").find("e4m3"), std::string::npos);
}

// With scales of their own as well: those of blocks are kept beside each copy.
TEST(QuantiseProducts, WeightsOfAllRecipesAreQuantisedOnceAStep) {
    for (const auto& [recipe, kept] :
         {std::pair(Fp8Recipe::current,
                    "weight_scale_before, %up_weight_inverse_before, %up_weight_e4m3_before, "
                    "%up_weight_e4m3_transposed_before, %w, %first) {copies = \"both\""),
          std::pair(Fp8Recipe::blockwise,
                    "weight_scales_before, %up_weight_e4m3_before, "
                    "%up_weight_scales_transposed_before, %up_weight_e4m3_transposed_before, "
                    "%w, %first) {blocks = \"squares_of_128\"")}) {
        const std::string all = quantised(step(forward, backward), {.recipe = recipe, .keep_weights = true});
        EXPECT_NE(body_of(all, "layer").find(kept), std::string::npos) << all;
        EXPECT_EQ(body_of(all, "layer_backward").find("(%w)"), std::string::npos) << all;
    }
}

// Where nothing multiplies dy with the weight, one copy is kept; what is computed again reads it.
TEST(QuantiseProducts, AWeightHasTheCopiesThatProductsRead) {
    const std::string no_dx =
        "%dx = slice(%du) {axis = 1, begin = 0, end = 16, step = 1} : bf16[16,16]\n  "
        "%dw = linear_backward_weight(%du, %x) {dtype = f32} : f32[32,16]";
    const std::string all = quantised(step(forward, no_dx), {.keep_weights = true});
    EXPECT_NE(body_of(all, "layer").find("%w, %first) {copies = \"plain\""), std::string::npos) << all;
    const std::string again =
        "%u = linear(%x, %w) : bf16[16,32]\n  %dz = mul(%du, %u) : bf16[16,32]\n"
        "  %dx = linear_backward_input(%dz, %w) : bf16[16,16]\n"
        "  %dw = linear_backward_weight(%dz, %x) {dtype = f32} : f32[32,16]";
    const std::string back = body_of(quantised(step(forward, again), {.keep_weights = true}), "layer_backward");
    EXPECT_NE(back.find("%u = fp8_linear(%x_e4m3, %up_weight_e4m3, %x_inverse, %up_weight_inverse)"), std::string::npos)
        << back;
}

TEST(QuantiseProducts, RanksCompareAllAmaxesAtOnce) {
    const std::string all = quantised(step(forward, backward), {.ranks = true});
    EXPECT_NE(all.find("= fp8_reduce_amaxes(%fp8_up_input_amax_after, %fp8_up_gradient_amax_after)"), std::string::npos)
        << all;
}

TEST(QuantiseProducts, GradientsOfWeightsMayStayInBf16) {
    const std::string layer =
        body_of(quantised(step(forward, backward), {.weight_gradients = false}), "layer_backward");
    EXPECT_NE(layer.find("%dw = linear_backward_weight(%du, %x) {dtype = f32}"), std::string::npos) << layer;
    EXPECT_NE(layer.find("%dx = fp8_linear(%du_e5m2"), std::string::npos) << layer;
    EXPECT_EQ(layer.find("transposed = fp8_quantise"), std::string::npos) << layer;
}

// Where it is changed before it is added up, the gradient of the weight stays in bf16, and says so. dy has one copy
// then.
TEST(QuantiseProducts, AGradientHasTheCopiesThatProductsRead) {
    const std::string dx = "%dx = linear_backward_input(%du, %w) : bf16[16,16]\n  ",
                      dw = "%half = linear_backward_weight(%du, %x) {dtype = f32} : f32[32,16]\n"
                           "  %dw = add(%half, %half) : f32[32,16]";
    for (const std::string& backward_of : {dx + dw, dw + "\n  " + dx}) {
        Report report;
        const std::string layer = body_of(quantised(step(forward, backward_of), {}, &report), "layer_backward");
        EXPECT_NE(layer.find("fp8_quantise(%up_gradient_scale, %up_gradient_amax, %du) {copies = \"plain\""),
                  std::string::npos)
            << layer;
        EXPECT_NE(layer.find("%half = linear_backward_weight(%du, %x)"), std::string::npos) << layer;
        EXPECT_EQ(std::count_if(report.notes.begin(), report.notes.end(),
                                [](const Note& note) {
                                    return note.text ==
                                           "the gradient of its weight is not added up as it is: that product stays "
                                           "in bf16";
                                }),
                  1);
    }
}

// What the backward pass computes again has the codes that the forward pass had, and is noted once.
TEST(QuantiseProducts, WhatIsComputedAgainIsQuantisedByTheSameScales) {
    const std::string layer =
        body_of(quantised(step(forward,
                               "%u = linear(%x, %w) : bf16[16,32]\n  %dz = mul(%du, %u) : bf16[16,32]\n"
                               "  %dx = linear_backward_input(%dz, %w) : bf16[16,16]\n"
                               "  %dw = linear_backward_weight(%dz, %x) {dtype = f32} : f32[32,16]")),
                "layer_backward");
    EXPECT_NE(layer.find("%x_e4m3 = fp8_requantise(%up_input_scale, %x) {copies = \"plain\""), std::string::npos)
        << layer;
    EXPECT_NE(layer.find("%u = fp8_linear("), std::string::npos) << layer;
}

TEST(QuantiseProducts, SaysWhatStaysAsItIs) {
    std::string narrow = step(forward, backward);
    for (std::size_t at = 0; (at = narrow.find("[32,16]", at)) != std::string::npos;) narrow.replace(at, 7, "[24,16]");
    for (std::size_t at = 0; (at = narrow.find("[16,32]", at)) != std::string::npos;) narrow.replace(at, 7, "[16,24]");
    for (std::size_t at; (at = narrow.find("concat(%dy, %dy)")) != std::string::npos;)
        narrow.replace(at, 16, "pad(%dy)");
    narrow.replace(narrow.find("pad(%dy) {axis = 1}"), 19, "pad(%dy) {high = [0, 8], low = [0, 0], value = 0.0}");
    EXPECT_EQ(why_not(narrow), "24 outputs are no multiple of 16");
    EXPECT_EQ(why_not(step("%w1 = mul(%w, %w) : bf16[32,16]\n  %u = linear(%x, %w1) : bf16[16,32]", backward)),
              "its weights are no parameters of the layer alone");
    EXPECT_EQ(why_not(step("%a = linear(%x, %w) : bf16[16,32]\n  %b = linear(%x, %w) : bf16[16,32]\n"
                           "  %u = add(%a, %b) : bf16[16,32]",
                           backward)),
              "its weights are read twice");
}

// Of what is read twice no product is quantised, whichever one it is in: beside a layer that is.
TEST(QuantiseProducts, WhatIsReadTwiceStaysInAllItsProducts) {
    Report report;
    std::string text = step(
        "%a = linear(%x, %w) : bf16[16,32]\n  %b = linear(%x, %w) : bf16[16,32]\n"
        "  %u = add(%a, %b) : bf16[16,32]",
        backward);
    // Another loop of the step, whose layers have weights of their own.
    const auto insert = [&](const std::string& before, const std::string& what) {
        const std::size_t at = text.find(before);
        ASSERT_NE(at, std::string::npos);
        text.insert(at, what);
    };
    insert("%head: bf16[16,16] state", "%v16: 2 x bf16[32,16] state \"narrow_copy.layers.{0..1}.down.weight\", ");
    insert("  %z = linear(%y, %head)",
           "  %other, %kept_other = repeat(%x, %v16) {body = \"other\", carried = 1, n = 2, per_layer = 1, reverse = "
           "false} : bf16[16,16], 2 x bf16[16,16]\n");
    text += R"(
func @other(%x: bf16[16,16], %w: bf16[32,16]) -> (%y, %x) {
  %u = linear(%x, %w) : bf16[16,32]
  %y = slice(%u) {axis = 1, begin = 0, end = 16, step = 1} : bf16[16,16]
})";
    const std::string all = quantised(text, {}, &report);
    EXPECT_NE(body_of(all, "other").find("fp8_linear"), std::string::npos) << all;
    EXPECT_EQ(body_of(all, "layer").find("fp8"), std::string::npos) << all;
    EXPECT_EQ(body_of(all, "layer_backward").find("fp8"), std::string::npos) << all;
}

// By the mark of exempt_layers.
TEST(QuantiseProducts, LeavesOutWhatIsExempt) {
    const std::string exempt = "%u = linear(%x, %w) {exempt = true} : bf16[16,32]";
    EXPECT_EQ(message_of(step(exempt, backward)),
              "--fp8: no linear layer of the model's blocks can be quantised: --fp8-skip names it");
}

// The gradient of what is exempt stays in bf16 beside that of a layer that is not, whose dy it is too, and nothing is
// said of it but that.
TEST(QuantiseProducts, WhatIsExemptHasNoGradientOfCodes) {
    Report report;
    const std::string text =
        step("%r = linear(%x, %w) {exempt = true} : bf16[16,32]\n  %u = add(%r, %r) : bf16[16,32]", backward);
    EXPECT_EQ(message_of(text), "--fp8: no linear layer of the model's blocks can be quantised: --fp8-skip names it");
    try {
        quantised(text, {}, &report);
    } catch (const UserError&) {
    }
    for (const Note& note : report.notes) EXPECT_EQ(note.text.find("not added up"), std::string::npos) << note.text;
}

// A layer of a stack that no loop has is told of; the head, which has no number, is not.
TEST(QuantiseProducts, WarnsOfLayersAlone) {
    Report report;
    std::string text = step(forward, backward);
    const auto replace = [&](const std::string& what, const std::string& by) {
        for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
            text.replace(at, what.size(), by);
    };
    quantised(text, {}, &report);
    const auto is_warning = [](const Note& note) { return note.kind == Note::Kind::warning; };
    EXPECT_TRUE(std::none_of(report.notes.begin(), report.notes.end(), is_warning));
    replace("narrow_copy.head.weight", "narrow_copy.layers.2.up.weight");
    quantised(text, {}, &report);
    const auto warning = std::find_if(report.notes.begin(), report.notes.end(), is_warning);
    ASSERT_NE(warning, report.notes.end());
    EXPECT_EQ(warning->where, "layers.2");
    EXPECT_EQ(warning->text, "its products stay in bf16: it stands in no loop and no call of layers");
}

// Layers between two loops stay as they are; each loop's layers have scales of their own, and so each a function.
TEST(QuantiseProducts, LoopsOfOneFunctionHaveOneEach) {
    std::string text = step(forward, backward);
    const auto insert = [&](const std::string& before, const std::string& what) {
        const std::size_t at = text.find(before);
        ASSERT_NE(at, std::string::npos);
        text.insert(at, what);
    };
    insert("%head: bf16[16,16] state", "%v16: 2 x bf16[32,16] state \"narrow_copy.layers.{3..4}.up.weight\", ");
    insert("  %z = linear(%y, %head)",
           "  %other, %kept_other = repeat(%y, %v16) {body = \"layer\", carried = 1, n = 2, per_layer = 1, reverse = "
           "false} : bf16[16,16], 2 x bf16[16,16]\n");
    const std::string all = quantised(text);
    for (const std::string loop :
         {"repeat(%x, %w16, %fp8_up_input_scale, %fp8_up_input_amax, %fp8_up_weight_scale, %fp8_up_weight_amax) {body "
          "= "
          "\"layer\"",
          "repeat(%y, %v16, %fp8_up_input_scale_1, %fp8_up_input_amax_1, %fp8_up_weight_scale_1, "
          "%fp8_up_weight_amax_1) {body = \"layer_1\""})
        EXPECT_NE(all.find(loop), std::string::npos) << loop << "\n" << all;
    EXPECT_NE(all.find("state \"fp8.layers.{3..4}.up.input_scale\""), std::string::npos) << all;
    EXPECT_NE(body_of(all, "layer").find("fp8_linear"), std::string::npos) << all;
    EXPECT_NE(body_of(all, "layer_1").find("fp8_linear"), std::string::npos) << all;
}

TEST(QuantiseProducts, RefusesWhatItCannotDo) {
    EXPECT_EQ(message_of(step(forward, backward), {.compute = DType::f32}),
              "--fp8 is for a step in bf16, and this one is in f32");
    EXPECT_EQ(message_of(step("%w1 = mul(%w, %w) : bf16[32,16]\n  %u = linear(%x, %w1) : bf16[16,32]", backward)),
              "--fp8: no linear layer of the model's blocks can be quantised: its weights are no parameters of the "
              "layer alone");
}

}  // namespace quantise_products_test
}  // namespace thunderc
