// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/lower_precision.h"

#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace lower_precision_test {

using testing::functions_of;
using testing::module_of;

constexpr PrecisionOptions bf16_options = {.compute = DType::bf16};

std::string lowered(const std::string& text, const PrecisionOptions& options = bf16_options, Report* report = nullptr) {
    Report own;
    const Module m = lower_precision(module_of(text), options, report == nullptr ? own : *report);
    verify(m);
    return functions_of(m);
}

std::string as_printed(const std::string& text) {
    return functions_of(module_of(text));
}

// What follows forward_backward in every test that is not about it.
const std::string update_before = R"(
func @update(%w: f32[4,4] parameter "w", %g: f32[4,4] state "grad.w", %rate: f32[] scalar "learning_rate", %weight_decay: f32[] scalar "weight_decay", %max_grad_norm: f32[] scalar "max_grad_norm", %decay_all: bool[] scalar "decay_all") -> (%w_after "w", %norm "grad_norm") {
  %norm = global_norm(%g) : f32[]
  %clip = clip_factor(%norm, %max_grad_norm) : f32[]
  %w_after = plain_sgd(%w, %g, %rate, %weight_decay, %clip, %decay_all) : f32[4,4]
})";
const std::string update_after = R"(
func @update(%w: f32[4,4] parameter "w", %g: f32[4,4] state "grad.w", %rate: f32[] scalar "learning_rate", %weight_decay: f32[] scalar "weight_decay", %max_grad_norm: f32[] scalar "max_grad_norm", %decay_all: bool[] scalar "decay_all", %narrow_copy_w: bf16[4,4] state "narrow_copy.w") -> (%w_after "w", %norm "grad_norm", %narrow_copy_w_after "narrow_copy_w") {
  %norm = global_norm(%g) : f32[]
  %clip = clip_factor(%norm, %max_grad_norm) : f32[]
  %w_after, %narrow_copy_w_after = plain_sgd(%w, %g, %rate, %weight_decay, %clip, %decay_all) {narrow_copies = bf16} : f32[4,4], bf16[4,4]
})";

const std::string layer = R"(
func @forward_backward(%x: f32[2,4] input "x", %w: f32[4,4] parameter "w", %dloss: f32[] scalar "dloss", %g: f32[4,4] state "grad.w", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum") -> (%g_after "g", %loss_sum_after "loss_sum") {
  %y = linear(%x, %w) : f32[2,4]
  %a = relu(%y) : f32[2,4]
  %squares = mul(%a, %a) : f32[2,4]
  %loss = reduce_sum(%squares) {axes = [0, 1], keep_dims = false} : f32[]
  %da = mul(%a, %dloss) : f32[2,4]
  %dw = linear_backward_weight(%da, %x) : f32[4,4]
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[4,4]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
})";

TEST(LowerPrecision, ProductsReadBf16CopiesAndSumsStayF32) {
    Report report;
    EXPECT_EQ(lowered(layer + "\n" + update_before, bf16_options, &report), as_printed(R"(
func @forward_backward(%x: f32[2,4] input "x", %w: f32[4,4] parameter "w", %dloss: f32[] scalar "dloss", %g: f32[4,4] state "grad.w", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum", %narrow_copy_w: bf16[4,4] state "narrow_copy.w") -> (%g_after "g", %loss_sum_after "loss_sum") {
  %x_1 = cast(%x) {dtype = bf16} : bf16[2,4]
  %y = linear(%x_1, %narrow_copy_w) : bf16[2,4]
  %a = relu(%y) : bf16[2,4]
  %squares = mul(%a, %a) : bf16[2,4]
  %squares_1 = cast(%squares) {dtype = f32} : f32[2,4]
  %loss = reduce_sum(%squares_1) {axes = [0, 1], keep_dims = false} : f32[]
  %a_1 = cast(%a) {dtype = f32} : f32[2,4]
  %da = mul(%a_1, %dloss) : f32[2,4]
  %da_1 = cast(%da) {dtype = bf16} : bf16[2,4]
  %dw = linear_backward_weight(%da_1, %x_1) {dtype = f32} : f32[4,4]
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[4,4]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
}
)" + update_after));
    std::string said;
    for (const Note& note : report.notes) said += note.what + ": " + note.text + "\n";
    EXPECT_EQ(said,
              "linear: bf16\nreduce_sum: f32: a reduction of many terms\n"
              "linear_backward_weight: bf16, its result f32: a gradient of parameters\n");
}

// Squares of gradients, which have no scale any more, are below what f16 has; what keeps no states has none to lose.
TEST(LowerPrecision, WarnsOfStatesWithoutRange) {
    const auto warnings = [](const std::string& update, DType optimizer) {
        Report report;
        lowered(layer + "\n" + update, {.compute = DType::f16, .optimizer = optimizer}, &report);
        std::string said;
        for (const Note& note : report.notes)
            if (note.kind == Note::Kind::warning) said += note.what + ": " + note.text + "\n";
        return said;
    };
    const std::string adagrad = R"(
func @update(%w: f32[4,4] parameter "w", %g: f32[4,4] state "grad.w", %s: f32[4,4] state "sum_of_squares.w", %size: f32[] scalar "adagrad.step_size", %eps: f32[] scalar "adagrad.eps", %weight_decay: f32[] scalar "adagrad.weight_decay", %max_grad_norm: f32[] scalar "max_grad_norm", %decay_all: bool[] scalar "decay_all") -> (%w_after "w", %s_after "s", %norm "grad_norm") {
  %norm = global_norm(%g) : f32[]
  %clip = clip_factor(%norm, %max_grad_norm) : f32[]
  %w_after, %s_after = adagrad(%w, %g, %s, %size, %eps, %weight_decay, %clip, %decay_all) : f32[4,4], f32[4,4]
})";
    EXPECT_EQ(warnings(adagrad, DType::f32), "");
    EXPECT_EQ(warnings(adagrad, DType::f16),
              "--optim-dtype f16: the optimizer's states are of gradients that are not scaled, and f16 has no number "
              "between 0 and 6e-08: where a gradient is below 2e-04, its square is 0, and a step that is divided by a "
              "root of such squares is far too large; without it states are f32\n");
    EXPECT_EQ(warnings(update_before, DType::f16), "");
}

TEST(LowerPrecision, NothingIsChangedInF32) {
    EXPECT_EQ(lowered(layer + "\n" + update_before, {}), as_printed(layer + "\n" + update_before));
}

// A loop that reads two frozen families, `norm` in f32 and `w` in products; `again` reads a frozen parameter too.
std::string with_frozen(const std::string& again) {
    return R"(
func @forward_backward(%x: f32[2,4] input "x", %norm: 3 x f32[4] parameter "n.{0..2}" {frozen}, %w: 3 x f32[4,4] parameter "w.{0..2}" {frozen}, %v: f32[4,4] parameter "v", %e: f32[4,4] parameter "e" {frozen}, %loss_sum: f32[] scalar "loss_sum") -> (%z "z", %loss_sum "loss_sum") {
  %y, %saved = repeat(%x, %norm, %w) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = false} : f32[2,4], 3 x f32[2,4]
  %u = linear(%y, %v) : f32[2,4]
  %z = linear(%u, %e) : f32[2,4]
)" + again +
           R"(
}
func @layer(%x: f32[2,4], %norm: f32[4], %w: f32[4,4]) -> (%y, %h) {
  %h = mul(%x, %norm) : f32[2,4]
  %u = linear(%h, %w) : f32[2,4]
  %y = add(%x, %u) : f32[2,4]
}
)" + update_before;
}

// "n.{0..2} f32, w.{0..2} bf16, narrow_copy.v bf16": arguments of forward_backward.
std::string held(const std::string& text, Report& report, const PrecisionOptions& options = bf16_options) {
    const Module m = lower_precision(module_of(text), options, report);
    verify(m);
    std::string out;
    const Function& f = m.main();
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const ArgInfo& info = f.argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter && info.kind != ArgInfo::Kind::state) continue;
        out += (out.empty() ? "" : ", ") + name_pattern(info.names) + " " +
               std::string(name_of(f.type(f.arguments[k]).dtype));
    }
    return out;
}

TEST(LowerPrecision, WhatIsFrozenAndReadByProductsAloneIsBf16) {
    Report report;
    EXPECT_EQ(held(with_frozen(""), report), "n.{0..2} f32, w.{0..2} bf16, v f32, e bf16, narrow_copy.v bf16");
    EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(),
                            [](const Note& n) { return n.text == "4 frozen parameters are held in bf16 alone"; }));
}

// Cut over ranks it is gathered in one type: the weight that a penalty reads has no bf16 copy, and products read it
// rounded where it was gathered; what products alone read keeps its bf16 copy.
TEST(LowerPrecision, WhatIsReadInBothTypesIsGatheredInF32) {
    const std::string text = R"(
func @forward_backward(%x: f32[2,4] input "x", %w: 2 x f32[4,4] parameter "w.{0..1}", %v: f32[4,4] parameter "v", %u: f32[4,4] parameter "u", %loss_sum: f32[] scalar "loss_sum") -> (%y "y", %total "loss_sum") {
  %a = repeat(%x, %w) {body = "layer", carried = 1, n = 2, per_layer = 1, reverse = false} : f32[2,4]
  %b = linear(%a, %v) : f32[2,4]
  %y = linear(%b, %u) : f32[2,4]
  %square = mul(%v, %v) : f32[4,4]
  %s = reduce_sum(%square) {axes = [0, 1], keep_dims = false} : f32[]
  %total = add(%loss_sum, %s) : f32[]
}
func @layer(%x: f32[2,4], %w: f32[4,4]) -> (%y) {
  %mean = reduce_mean(%w) {axes = [0, 1], keep_dims = false} : f32[]
  %u = linear(%x, %w) : f32[2,4]
  %y = mul(%u, %mean) : f32[2,4]
})" + update_before;
    PrecisionOptions options = bf16_options;
    Report report;
    EXPECT_EQ(held(text, report, options),
              "w.{0..1} f32, v f32, u f32, narrow_copy.w.{0..1} bf16, narrow_copy.v bf16, narrow_copy.u bf16");
    options.gathered = true;
    EXPECT_EQ(held(text, report, options), "w.{0..1} f32, v f32, u f32, narrow_copy.u bf16");
    std::string said;
    for (const Note& note : report.notes)
        if (note.text.starts_with("gathered in f32")) said += note.where + " ";
    EXPECT_EQ(said, "w.0 v ");
    const Module m = lower_precision(module_of(text), options, report);
    const Function& layer = *m.find("layer");
    EXPECT_EQ(layer.arguments.size(), 2U);
    EXPECT_TRUE(std::any_of(layer.ops.begin(), layer.ops.end(), [&](const Op& op) {
        return op.name == "cast" && op.operands[0] == layer.arguments[1];
    })) << functions_of(m);
}

// A weight that something reads in f32 beside a product: its master stays, and so do those of all that is frozen, which
// products may take side by side with it.
TEST(LowerPrecision, WhatIsFrozenAndReadInBothTypesKeepsItsMaster) {
    Report report;
    const std::string again =
        "  %square = mul(%e, %e) : f32[4,4]\n"
        "  %s = reduce_sum(%square) {axes = [0, 1], keep_dims = false} : f32[]\n"
        "  %total = add(%loss_sum, %s) : f32[]";
    std::string text = with_frozen(again);
    text.replace(text.find("%loss_sum \"loss_sum\") {"), 9, "%total");
    EXPECT_EQ(
        held(text, report),
        "n.{0..2} f32, w.{0..2} f32, v f32, e f32, narrow_copy.w.{0..2} bf16, narrow_copy.v bf16, narrow_copy.e bf16");
    EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(), [](const Note& n) {
        return n.kind == Note::Kind::declined && n.where == "e" && n.text.starts_with("f32 and bf16 both");
    }));
}

TEST(LowerPrecision, WithoutMastersParametersAreBf16AndSoIsWhatIsAsked) {
    EXPECT_EQ(lowered(layer + "\n" + update_before,
                      {.compute = DType::bf16, .master = false, .gradient = DType::bf16, .optimizer = DType::bf16}),
              as_printed(R"(
func @forward_backward(%x: f32[2,4] input "x", %w: bf16[4,4] parameter "w", %dloss: f32[] scalar "dloss", %g: bf16[4,4] state "grad.w", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum") -> (%g_after "g", %loss_sum_after "loss_sum") {
  %x_1 = cast(%x) {dtype = bf16} : bf16[2,4]
  %y = linear(%x_1, %w) : bf16[2,4]
  %a = relu(%y) : bf16[2,4]
  %squares = mul(%a, %a) : bf16[2,4]
  %squares_1 = cast(%squares) {dtype = f32} : f32[2,4]
  %loss = reduce_sum(%squares_1) {axes = [0, 1], keep_dims = false} : f32[]
  %a_1 = cast(%a) {dtype = f32} : f32[2,4]
  %da = mul(%a_1, %dloss) : f32[2,4]
  %da_1 = cast(%da) {dtype = bf16} : bf16[2,4]
  %dw = linear_backward_weight(%da_1, %x_1) : bf16[4,4]
  %g_after = accumulate_gradient(%g, %dw, %first) : bf16[4,4]
  %loss_sum_after = add(%loss_sum, %loss) : f32[]
}

func @update(%w: bf16[4,4] parameter "w", %g: bf16[4,4] state "grad.w", %rate: f32[] scalar "learning_rate", %weight_decay: f32[] scalar "weight_decay", %max_grad_norm: f32[] scalar "max_grad_norm", %decay_all: bool[] scalar "decay_all") -> (%w_after "w", %norm "grad_norm") {
  %norm = global_norm(%g) : f32[]
  %clip = clip_factor(%norm, %max_grad_norm) : f32[]
  %w_after = plain_sgd(%w, %g, %rate, %weight_decay, %clip, %decay_all) : bf16[4,4]
})"));
}

std::string entry(const std::string& arguments, const std::string& results, const std::string& body,
                  const std::string& others = "") {
    return "func @forward_backward(" + arguments + ") -> (" + results + ") {" + body + "}\n" + others;
}

TEST(LowerPrecision, NormsReadTheirMasterAndKeepTheirStatistics) {
    const std::string before = entry(
        R"(%x: f32[2,4] input "x", %norm: f32[4] parameter "norm", %w: f32[4,4] parameter "w", %loss_sum: f32[] scalar "loss_sum")",
        R"(%rstd "rstd", %p "p", %loss_sum "loss_sum")", R"(
  %h = linear(%x, %w) : f32[2,4]
  %y, %rstd = rms_norm(%h, %norm) {eps = 1e-05} : f32[2,4], f32[2]
  %p = softmax(%y) {axis = 1} : f32[2,4]
)",
        update_before);
    EXPECT_EQ(
        lowered(before),
        as_printed(entry(
            R"(%x: f32[2,4] input "x", %norm: f32[4] parameter "norm", %w: f32[4,4] parameter "w", %loss_sum: f32[] scalar "loss_sum", %narrow_copy_w: bf16[4,4] state "narrow_copy.w")",
            R"(%rstd "rstd", %p_1 "p", %loss_sum "loss_sum")", R"(
  %x_1 = cast(%x) {dtype = bf16} : bf16[2,4]
  %h = linear(%x_1, %narrow_copy_w) : bf16[2,4]
  %y, %rstd = rms_norm(%h, %norm) {eps = 1e-05} : bf16[2,4], f32[2]
  %y_1 = cast(%y) {dtype = f32} : f32[2,4]
  %p = softmax(%y_1) {axis = 1} : f32[2,4]
  %p_1 = cast(%p) {dtype = bf16} : bf16[2,4]
)",
            update_after)));
}

TEST(LowerPrecision, AnglesOfPositionsStayF32) {
    const std::string text = entry(
        R"(%positions: f32[8,1] input "positions", %w: f32[4,4] parameter "w", %loss_sum: f32[] scalar "loss_sum")",
        R"(%cos "cos", %loss_sum "loss_sum")", R"(
  %frequencies = constant() {value = <f32[1,4] splat 0.25>} : f32[1,4]
  %angles = matmul(%positions, %frequencies) {transpose_a = false, transpose_b = false} : f32[8,4]
  %cos = cos(%angles) : f32[8,4]
)");
    // and where no product reads a bf16 copy, there is none
    EXPECT_EQ(lowered(text + update_before), as_printed(text + update_before));
}

TEST(LowerPrecision, ALoopCarriesBf16AndTakesBf16CopiesOfWhatProductsRead) {
    EXPECT_EQ(
        lowered(entry(
            R"(%x: f32[2,4] input "x", %norm: 3 x f32[4] parameter "n.{0..2}", %w: 3 x f32[4,4] parameter "w.{0..2}", %loss_sum: f32[] scalar "loss_sum")",
            R"(%y "y", %loss_sum "loss_sum")", R"(
  %y, %saved = repeat(%x, %norm, %w) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = false} : f32[2,4], 3 x f32[2,4]
)",
            R"(
func @layer(%x: f32[2,4], %norm: f32[4], %w: f32[4,4]) -> (%y, %h) {
  %h = mul(%x, %norm) : f32[2,4]
  %u = linear(%h, %w) : f32[2,4]
  %y = add(%x, %u) : f32[2,4]
}
)" + update_before)),
        as_printed(entry(
            R"(%x: f32[2,4] input "x", %norm: 3 x f32[4] parameter "n.{0..2}", %w: 3 x f32[4,4] parameter "w.{0..2}", %loss_sum: f32[] scalar "loss_sum", %narrow_copy_w: 3 x bf16[4,4] state "narrow_copy.w.{0..2}")",
            R"(%y "y", %loss_sum "loss_sum")", R"(
  %x_1 = cast(%x) {dtype = bf16} : bf16[2,4]
  %y, %saved = repeat(%x_1, %norm, %narrow_copy_w) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = false} : bf16[2,4], 3 x bf16[2,4]
)",
            update_after + R"(

func @layer(%x: bf16[2,4], %norm: f32[4], %narrow_copy_w: bf16[4,4]) -> (%y, %h_1) {
  %x_1 = cast(%x) {dtype = f32} : f32[2,4]
  %h = mul(%x_1, %norm) : f32[2,4]
  %h_1 = cast(%h) {dtype = bf16} : bf16[2,4]
  %u = linear(%h_1, %narrow_copy_w) : bf16[2,4]
  %y = add(%x, %u) : bf16[2,4]
})")));
}

TEST(LowerPrecision, AGradientThatLayersAddUpIsF32AllTheWay) {
    EXPECT_EQ(
        lowered(entry(
            R"(%dx: f32[2,4] input "dx", %w: f32[4,4] parameter "w", %g: f32[4,4] state "grad.w", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum")",
            R"(%g_after "g", %loss_sum "loss_sum")", R"(
  %zero = constant() {value = <f32[4,4] splat 0.0>} : f32[4,4]
  %d, %dw = repeat(%dx, %zero, %w) {body = "layer", carried = 2, n = 3, per_layer = 0, reverse = true} : f32[2,4], f32[4,4]
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[4,4]
)",
            R"(
func @layer(%d: f32[2,4], %sum: f32[4,4], %w: f32[4,4]) -> (%dx, %sum_after) {
  %dx = linear_backward_input(%d, %w) : f32[2,4]
  %dw = linear_backward_weight(%d, %d) : f32[4,4]
  %sum_after = add(%sum, %dw) : f32[4,4]
}
)" + update_before)),
        as_printed(entry(
            R"(%dx: f32[2,4] input "dx", %w: f32[4,4] parameter "w", %g: f32[4,4] state "grad.w", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum", %narrow_copy_w: bf16[4,4] state "narrow_copy.w")",
            R"(%g_after "g", %loss_sum "loss_sum")", R"(
  %zero = constant() {value = <f32[4,4] splat 0.0>} : f32[4,4]
  %dx_1 = cast(%dx) {dtype = bf16} : bf16[2,4]
  %d, %dw = repeat(%dx_1, %zero, %narrow_copy_w) {body = "layer", carried = 2, n = 3, per_layer = 0, reverse = true} : bf16[2,4], f32[4,4]
  %g_after = accumulate_gradient(%g, %dw, %first) : f32[4,4]
)",
            update_after + R"(

func @layer(%d: bf16[2,4], %sum: f32[4,4], %narrow_copy_w: bf16[4,4]) -> (%dx, %sum_after) {
  %dx = linear_backward_input(%d, %narrow_copy_w) : bf16[2,4]
  %dw = linear_backward_weight(%d, %d) {dtype = f32} : f32[4,4]
  %sum_after = add(%sum, %dw) : f32[4,4]
})")));
}

// Of matrices in a batch, of a batch that is summed up, and of what a product reads in place of an input.
TEST(LowerPrecision, GradientsAreF32OutOfEveryProduct) {
    EXPECT_EQ(
        lowered(entry(
            R"(%x: f32[4,2,4] input "x", %w: f32[4,4] parameter "w", %e: f32[4,4,3] parameter "e", %q: f32[2,4] parameter "q", %g: f32[4,4,3] state "grad.e", %h: f32[4,3] state "grad.s", %k: f32[2,4] state "grad.q", %d: f32[4,2,3] input "d", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum")",
            R"(%g_after "g", %h_after "h", %k_after "k", %loss_sum "loss_sum")", R"(
  %y = matmul(%x, %e) {transpose_a = false, transpose_b = false} : f32[4,2,3]
  %dy = mul(%d, %y) : f32[4,2,3]
  %de = matmul(%x, %dy) {transpose_a = true, transpose_b = false} : f32[4,4,3]
  %g_after = accumulate_gradient(%g, %de, %first) : f32[4,4,3]
  %ds = matmul(%x, %dy) {transpose_a = true, transpose_b = false} : f32[4,4,3]
  %sum = reduce_sum(%ds) {axes = [0], keep_dims = false} : f32[4,3]
  %h_after = accumulate_gradient(%h, %sum, %first) : f32[4,3]
  %p = linear(%q, %w) : f32[2,4]
  %dq = linear_backward_input(%p, %w) : f32[2,4]
  %k_after = accumulate_gradient(%k, %dq, %first) : f32[2,4]
)",
            update_before)),
        as_printed(entry(
            R"(%x: f32[4,2,4] input "x", %w: f32[4,4] parameter "w", %e: f32[4,4,3] parameter "e", %q: f32[2,4] parameter "q", %g: f32[4,4,3] state "grad.e", %h: f32[4,3] state "grad.s", %k: f32[2,4] state "grad.q", %d: f32[4,2,3] input "d", %first: bool[] scalar "first_micro_step", %loss_sum: f32[] scalar "loss_sum", %narrow_copy_w: bf16[4,4] state "narrow_copy.w", %narrow_copy_e: bf16[4,4,3] state "narrow_copy.e", %narrow_copy_q: bf16[2,4] state "narrow_copy.q")",
            R"(%g_after "g", %h_after "h", %k_after "k", %loss_sum "loss_sum")", R"(
  %x_1 = cast(%x) {dtype = bf16} : bf16[4,2,4]
  %y = matmul(%x_1, %narrow_copy_e) {transpose_a = false, transpose_b = false} : bf16[4,2,3]
  %y_1 = cast(%y) {dtype = f32} : f32[4,2,3]
  %dy = mul(%d, %y_1) : f32[4,2,3]
  %dy_1 = cast(%dy) {dtype = bf16} : bf16[4,2,3]
  %de = matmul(%x_1, %dy_1) {dtype = f32, transpose_a = true, transpose_b = false} : f32[4,4,3]
  %g_after = accumulate_gradient(%g, %de, %first) : f32[4,4,3]
  %ds = matmul(%x_1, %dy_1) {dtype = f32, transpose_a = true, transpose_b = false} : f32[4,4,3]
  %sum = reduce_sum(%ds) {axes = [0], keep_dims = false} : f32[4,3]
  %h_after = accumulate_gradient(%h, %sum, %first) : f32[4,3]
  %p = linear(%narrow_copy_q, %narrow_copy_w) : bf16[2,4]
  %dq = linear_backward_input(%p, %narrow_copy_w) {dtype = f32} : f32[2,4]
  %k_after = accumulate_gradient(%k, %dq, %first) : f32[2,4]
)",
            update_after)));
}

TEST(LowerPrecision, EveryIslandSaysWhyItIsOne) {
    std::size_t islands = 0, products = 0;
    for (const OpDef* def : all_ops()) {
        const bool island = def->precision.kind == Precision::Kind::island;
        EXPECT_EQ(island, !def->precision.why.empty()) << def->name;
        EXPECT_TRUE(!def->precision.gradient || def->precision.kind == Precision::Kind::product) << def->name;
        islands += island ? 1 : 0;
        products += def->precision.kind == Precision::Kind::product ? 1 : 0;
    }
    EXPECT_GT(islands, 0U);
    EXPECT_GT(products, 0U);
}

TEST(LowerPrecision, AFunctionLibraryIsNoTrainingStep) {
    Report report;
    EXPECT_THROW(lower_precision(module_of(R"(
func @main(%x: f32[2,4], %w: f32[4,4]) -> (%y) {
  %y = linear(%x, %w) : f32[2,4]
})"),
                                 bf16_options, report),
                 InternalError);
}

}  // namespace lower_precision_test
}  // namespace thunderc
