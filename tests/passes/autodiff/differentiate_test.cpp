// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/differentiate.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/check/gradient_check.h"
#include "compiler/passes/layers/unroll_repeats.h"
#include "compiler/support/error.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace differentiate_test {

constexpr const char* mlp = R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %y: f32[4,2] input "y" {batched},
    %w1: f32[3,5] parameter "fc1.weight",
    %b1: f32[5] parameter "fc1.bias",
    %w2: f32[5,2] parameter "fc2.weight") -> (%loss "loss") {
  %h = matmul(%x, %w1) {transpose_a = false, transpose_b = false} : f32[4,5]
  %hb = add(%h, %b1) : f32[4,5]
  %a = tanh(%hb) : f32[4,5]
  %o = matmul(%a, %w2) {transpose_a = false, transpose_b = false} : f32[4,2]
  %d = sub(%o, %y) : f32[4,2]
  %s = mul(%d, %d) : f32[4,2]
  %loss = reduce_sum(%s) {axes = [0, 1], keep_dims = false} : f32[]
}
)";

Module gradients(const std::string& text, RecomputePolicy policy = RecomputePolicy::none) {
    Report report;
    DifferentiateOptions options;
    options.keeping.policy = policy;
    Module module = differentiate(parsed(text), options, report);
    verify(module);
    return module;
}

void expect_right_gradients(const Module& module, std::uint64_t seed = 7) {
    const std::vector<Members> arguments = random_arguments(module.main(), seed);
    for (const GradientCheck& c : check_gradients(module, arguments))
        EXPECT_LT(c.error, 1e-7) << c.what << ": " << c.actual << ", by differences " << c.expected;
}

TEST(Differentiate, GivesAGradientForEachTrainableParameter) {
    const Module module = gradients(mlp);
    EXPECT_EQ(module.main().result_names, (std::vector<std::string>{"loss", "dw1", "db1", "dw2"}));
    EXPECT_EQ(module.main().argument_info.back().names, std::vector<std::string>{"dloss"});
    expect_right_gradients(module);
}

// As in torch.nn.Embedding: a row that pads is read, and gets nothing back; finite differences would not agree.
TEST(Differentiate, ARowThatPadsHasNoGradient) {
    for (const char* op : {"embedding(%w, %ids) {padding_idx = 2}", "gather(%w, %ids) {axis = 0, padding_idx = 2}"}) {
        const Module module = gradients(std::string(R"(
func @main(%ids: i64[2,3] input "ids", %c: f32[2,3,2] input "c", %w: f32[4,2] parameter "w") -> (%loss "loss") {
  %y = )") + op + R"( : f32[2,3,2]
  %p = mul(%y, %c) : f32[2,3,2]
  %loss = reduce_sum(%p) {axes = [0, 1, 2], keep_dims = false} : f32[]
}
)");
        Tensor ids = Tensor::ints({2, 0, 1, 2, 0, 3});
        ids.type = Type::tensor(DType::i64, {2, 3});
        const Tensor c = Tensor::floats({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
        const Tensor w = Tensor::floats({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
        const std::vector<Tensor> out =
            evaluate(module, module.main(), std::vector<Tensor>{ids, c, w, Tensor::scalar(DType::f32, 1)});
        ASSERT_EQ(out.size(), 2U) << op;
        // Of c: (3, 4) and (9, 10) where the id is 0, (5, 6) where it is 1, (11, 12) where it is 3.
        EXPECT_EQ(out[1].f, (std::vector<double>{12, 14, 5, 6, 0, 0, 11, 12})) << op;
        EXPECT_EQ(out[0].at(0), 1 * 4 + 2 * 5 + 4 * 1 + 5 * 2 + 6 * 3 + 7 * 4 + 8 * 5 + 10 * 1 + 11 * 6 + 12 * 7) << op;
    }
}

TEST(Differentiate, AStraightProgramReadsWell) {
    EXPECT_EQ(printed_functions(gradients(R"(
func @main(
    %x: f32[4,3] input "x",
    %w: f32[3,5] parameter "w") -> (%loss "loss") {
  %h = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,5]
  %a = exp(%h) : f32[4,5]
  %loss = reduce_sum(%a) {axes = [0, 1], keep_dims = false} : f32[]
}
)")),
              R"(func @main(
    %x: f32[4,3] input "x",
    %w: f32[3,5] parameter "w",
    %dloss: f32[] scalar "dloss") -> (%loss "loss", %dw "dw") {
  %h = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,5]
  %a = exp(%h) : f32[4,5]
  %loss = reduce_sum(%a) {axes = [0, 1], keep_dims = false} : f32[]
  %reshape = reshape(%dloss) {dims = [1, 1]} : f32[1,1]
  %da = broadcast_to(%reshape) {dims = [4, 5]} : f32[4,5]
  %dh = mul(%da, %a) : f32[4,5]
  %dw = matmul(%x, %dh) {transpose_a = true, transpose_b = false} : f32[3,5]
}
)");
}

TEST(Differentiate, RecomputesInPlaceWhereAsked) {
    for (RecomputePolicy policy : {RecomputePolicy::selective, RecomputePolicy::block}) {
        const Module module = gradients(mlp, policy);
        expect_right_gradients(module);
        const Module plain = gradients(mlp);
        const std::vector<Members> arguments = random_arguments(plain.main(), 3);
        expect_same_bits(evaluate(module, module.main(), std::span<const Members>(arguments)),
                         evaluate(plain, plain.main(), std::span<const Members>(arguments)));
        EXPECT_GT(module.main().ops.size(), plain.main().ops.size());  // tanh is there twice
    }
}

TEST(Differentiate, SumsGradientsOfATiedParameter) {
    const Module module = gradients(R"(
func @main(
    %ids: i64[2,3] input "ids" {batched, entries = 7},
    %w: f32[7,4] parameter "embed.weight",
    %labels: i64[6] input "labels" {entries = 7, ignore = -100}) -> (%loss "loss", %n "weight") {
  %e = embedding(%w, %ids) : f32[2,3,4]
  %t = tanh(%e) : f32[2,3,4]
  %l = linear(%t, %w) : f32[2,3,7]
  %r = reshape(%l) {dims = [6,7]} : f32[6,7]
  %loss, %lse = cross_entropy(%r, %labels) {ignore_index = -100} : f32[], f32[6]
  %n = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
}
)");
    EXPECT_EQ(module.main().result_names, (std::vector<std::string>{"loss", "weight", "dw"}));
    expect_right_gradients(module);
}

TEST(Differentiate, FreezesWhatTheLossDoesNotDependOn) {
    Report report;
    const Module module = differentiate(parsed(R"(
func @main(
    %x: f32[3] input "x",
    %w: f32[3] parameter "used",
    %u: f32[3] parameter "unused",
    %f: f32[3] parameter "frozen" {frozen}) -> (%loss "loss") {
  %a = mul(%x, %w) : f32[3]
  %b = mul(%a, %f) : f32[3]
  %c = mul(%b, %u) : f32[3]
  %loss = reduce_sum(%b) {axes = [0], keep_dims = false} : f32[]
}
)"),
                                        {}, report);
    verify(module);
    EXPECT_EQ(module.main().result_names, (std::vector<std::string>{"loss", "dw"}));
    EXPECT_FALSE(module.main().argument_info[2].trainable);
    ASSERT_FALSE(report.notes.empty());
    EXPECT_EQ(report.notes.back().where, "unused");
    EXPECT_EQ(report.notes.back().text, "the loss does not depend on it: it is left as it is");
    expect_right_gradients(module);
}

TEST(Differentiate, AGraphWithoutALossIsTheUsersFault) {
    try {
        gradients(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "w") -> (%y "y") {
  %y = mul(%x, %w) : f32[3]
}
)");
        FAIL() << "no error";
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: the graph does not end in a scalar loss\n"
                  "  expected: f32[] as the first result\n"
                  "  found: f32[3]\n"
                  "help: export the model with its loss, or add one with --loss\n");
    }
}

TEST(Differentiate, TakesACotangentForEachResultOfALibraryFunction) {
    Report report;
    DifferentiateOptions options;
    options.cotangent_for_each_result = true;
    options.wanted = [](const ArgInfo&) { return true; };
    const Module module = differentiate(parsed(R"(
func @main(%x: f32[3] input "x", %w: f32[3] parameter "w") -> (%y "y", %z "z") {
  %y = mul(%x, %w) : f32[3]
  %z = exp(%x) : f32[3]
}
)"),
                                        options, report);
    verify(module);
    EXPECT_EQ(module.main().result_names, (std::vector<std::string>{"y", "z", "dx", "dw"}));
    EXPECT_EQ(module.main().argument_info[2].names, std::vector<std::string>{"dy"});
    EXPECT_EQ(module.main().argument_info[3].names, std::vector<std::string>{"dz"});
    const Tensor x = Tensor::floats({3}, {1, 2, 3}), w = Tensor::floats({3}, {4, 5, 6}),
                 dy = Tensor::floats({3}, {1, 0, 2}), dz = Tensor::floats({3}, {0, 1, 0});
    const std::vector<Tensor> out = evaluate(module, module.main(), std::vector<Tensor>{x, w, dy, dz});
    EXPECT_EQ(out[2].f, (std::vector<double>{4, std::exp(2.0), 12}));
    EXPECT_EQ(out[3].f, (std::vector<double>{1, 0, 6}));
}

// ---- calls and loops ------------------------------------------------------------------------------------------------

constexpr const char* layer = R"(
func @layer(%x: f32[2,6,8], %norm: f32[8], %up: f32[16,8], %down: f32[8,16], %scale: f32[8]) -> (%y) {
  %n, %rstd = rms_norm(%x, %norm) {eps = 0.00001} : f32[2,6,8], f32[2,6]
  %s = mul(%n, %scale) : f32[2,6,8]
  %u = linear(%s, %up) : f32[2,6,16]
  %a = silu(%u) : f32[2,6,16]
  %d = linear(%a, %down) : f32[2,6,8]
  %y = add(%x, %d) : f32[2,6,8]
}
)";

const std::string rolled = std::string(R"(
func @main(
    %x: f32[2,6,8] input "x" {batched},
    %embed: f32[8,8] parameter "embed",
    %norm: 3 x f32[8] parameter "layers.{0..2}.norm",
    %up: 3 x f32[16,8] parameter "layers.{0..2}.up",
    %down: 3 x f32[8,16] parameter "layers.{0..2}.down",
    %scale: f32[8] parameter "scale") -> (%loss "loss") {
  %h = linear(%x, %embed) : f32[2,6,8]
  %y = repeat(%h, %norm, %up, %down, %scale) {body = "layer", carried = 1, n = 3, per_layer = 3, reverse = false} : f32[2,6,8]
  %z = mul(%y, %scale) : f32[2,6,8]
  %q = mul(%z, %z) : f32[2,6,8]
  %loss = reduce_sum(%q) {axes = [0, 1, 2], keep_dims = false} : f32[]
}
)") + layer;

const std::string calls = std::string(R"(
func @main(
    %x: f32[2,6,8] input "x" {batched},
    %embed: f32[8,8] parameter "embed",
    %norm: 3 x f32[8] parameter "layers.{0..2}.norm",
    %up: 3 x f32[16,8] parameter "layers.{0..2}.up",
    %down: 3 x f32[8,16] parameter "layers.{0..2}.down",
    %scale: f32[8] parameter "scale") -> (%loss "loss") {
  %h = linear(%x, %embed) : f32[2,6,8]
  %norm0 = member(%norm) {index = 0} : f32[8]
  %up0 = member(%up) {index = 0} : f32[16,8]
  %down0 = member(%down) {index = 0} : f32[8,16]
  %y0 = call(%h, %norm0, %up0, %down0, %scale) {callee = "layer"} : f32[2,6,8]
  %norm1 = member(%norm) {index = 1} : f32[8]
  %up1 = member(%up) {index = 1} : f32[16,8]
  %down1 = member(%down) {index = 1} : f32[8,16]
  %y1 = call(%y0, %norm1, %up1, %down1, %scale) {callee = "layer"} : f32[2,6,8]
  %norm2 = member(%norm) {index = 2} : f32[8]
  %up2 = member(%up) {index = 2} : f32[16,8]
  %down2 = member(%down) {index = 2} : f32[8,16]
  %y2 = call(%y1, %norm2, %up2, %down2, %scale) {callee = "layer"} : f32[2,6,8]
  %z = mul(%y2, %scale) : f32[2,6,8]
  %q = mul(%z, %z) : f32[2,6,8]
  %loss = reduce_sum(%q) {axes = [0, 1, 2], keep_dims = false} : f32[]
}
)") + layer;

class DifferentiateLoop : public testing::TestWithParam<RecomputePolicy> {};

TEST_P(DifferentiateLoop, LoopsAndCallsGiveEqualBits) {
    const Module a = gradients(rolled, GetParam());
    const Module b = gradients(calls, GetParam());
    const std::vector<Members> arguments = random_arguments(a.main(), 11);
    expect_same_bits(evaluate(a, a.main(), std::span<const Members>(arguments)),
                     evaluate(b, b.main(), std::span<const Members>(arguments)));
    expect_right_gradients(a);
}

INSTANTIATE_TEST_SUITE_P(Policies, DifferentiateLoop,
                         testing::Values(RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::block));

// Saved are the input of the layer, the statistic of its norm and what goes into silu. The normed input (with the kept
// statistic), its product with the scale and the result of silu are computed again.
TEST(Differentiate, SavesDeliberately) {
    EXPECT_EQ(printed_functions(gradients(rolled)), R"(func @main(
    %x: f32[2,6,8] input "x" {batched},
    %embed: f32[8,8] parameter "embed",
    %norm: 3 x f32[8] parameter "layers.{0..2}.norm",
    %up: 3 x f32[16,8] parameter "layers.{0..2}.up",
    %down: 3 x f32[8,16] parameter "layers.{0..2}.down",
    %scale: f32[8] parameter "scale",
    %dloss: f32[] scalar "dloss") -> (%loss "loss", %dembed "dembed", %dnorm "dnorm", %dup "dup", %ddown "ddown", %dscale "dscale") {
  %h = linear(%x, %embed) : f32[2,6,8]
  %y, %x_2, %rstd, %u = repeat(%h, %norm, %up, %down, %scale) {body = "layer_forward", carried = 1, n = 3, per_layer = 3, reverse = false} : f32[2,6,8], 3 x f32[2,6,8], 3 x f32[2,6], 3 x f32[2,6,16]
  %z = mul(%y, %scale) : f32[2,6,8]
  %q = mul(%z, %z) : f32[2,6,8]
  %loss = reduce_sum(%q) {axes = [0, 1, 2], keep_dims = false} : f32[]
  %reshape = reshape(%dloss) {dims = [1, 1, 1]} : f32[1,1,1]
  %dq = broadcast_to(%reshape) {dims = [2, 6, 8]} : f32[2,6,8]
  %dz_part = mul(%dq, %z) : f32[2,6,8]
  %dz_part_2 = mul(%dq, %z) : f32[2,6,8]
  %dz = add(%dz_part, %dz_part_2) : f32[2,6,8]
  %dy = mul(%dz, %scale) : f32[2,6,8]
  %dscale_part_terms = mul(%dz, %y) : f32[2,6,8]
  %dscale_part = reduce_sum(%dscale_part_terms) {axes = [0, 1], keep_dims = false} : f32[8]
  %dh, %dscale, %dnorm, %dup, %ddown = repeat(%dy, %dscale_part, %x_2, %rstd, %u, %norm, %up, %down, %scale) {body = "layer_backward", carried = 2, n = 3, per_layer = 6, reverse = true} : f32[2,6,8], f32[8], 3 x f32[8], 3 x f32[16,8], 3 x f32[8,16]
  %dembed = linear_backward_weight(%dh, %x) : f32[8,8]
}
func @layer_forward(%x: f32[2,6,8], %norm: f32[8], %up: f32[16,8], %down: f32[8,16], %scale: f32[8]) -> (%y, %x, %rstd, %u) {
  %n, %rstd = rms_norm(%x, %norm) {eps = 1e-05} : f32[2,6,8], f32[2,6]
  %s = mul(%n, %scale) : f32[2,6,8]
  %u = linear(%s, %up) : f32[2,6,16]
  %a = silu(%u) : f32[2,6,16]
  %d = linear(%a, %down) : f32[2,6,8]
  %y = add(%x, %d) : f32[2,6,8]
}
func @layer_backward(%dy: f32[2,6,8], %dscale_sum: f32[8], %x: f32[2,6,8], %rstd: f32[2,6], %u: f32[2,6,16], %norm: f32[8], %up: f32[16,8], %down: f32[8,16], %scale: f32[8]) -> (%dx, %dscale, %dnorm, %dup, %ddown) {
  %da = linear_backward_input(%dy, %down) : f32[2,6,16]
  %a = silu(%u) : f32[2,6,16]
  %ddown = linear_backward_weight(%dy, %a) : f32[8,16]
  %du = silu_backward(%da, %u) : f32[2,6,16]
  %ds = linear_backward_input(%du, %up) : f32[2,6,8]
  %reshape = reshape(%rstd) {dims = [2, 6, 1]} : f32[2,6,1]
  %normed = mul(%x, %reshape) : f32[2,6,8]
  %n = mul(%normed, %norm) : f32[2,6,8]
  %s = mul(%n, %scale) : f32[2,6,8]
  %dup = linear_backward_weight(%du, %s) : f32[16,8]
  %dn = mul(%ds, %scale) : f32[2,6,8]
  %dscale_terms = mul(%ds, %n) : f32[2,6,8]
  %dscale_part = reduce_sum(%dscale_terms) {axes = [0, 1], keep_dims = false} : f32[8]
  %dx_part, %dnorm = rms_norm_backward(%dn, %x, %norm, %rstd) : f32[2,6,8], f32[8]
  %dx = add(%dy, %dx_part) : f32[2,6,8]
  %dscale = add(%dscale_sum, %dscale_part) : f32[8]
}
)");
}

// What the forward pass compares with a maximum that is kept is kept too, though a product and a sum give it: computed
// again it may have other bits. Where nothing of a layer is kept, both are computed again. The gradient of a maximum
// alone takes it anew, of what it compares.
TEST(Differentiate, KeepsWhatIsComparedWithAMaximum) {
    const auto saved = [](const std::string& rest, RecomputePolicy policy) {
        const Module m = gradients(fmt::format(R"(
func @main(
    %x: f32[4,8] input "x" {{batched}},
    %w: 3 x f32[8] parameter "w.{{0..2}}",
    %b: 3 x f32[8] parameter "b.{{0..2}}") -> (%loss "loss") {{
  %y = repeat(%x, %w, %b) {{body = "layer", carried = 1, n = 3, per_layer = 2, reverse = false}} : f32[4,8]
  %loss = reduce_sum(%y) {{axes = [0, 1], keep_dims = false}} : f32[]
}}
func @layer(%x: f32[4,8], %w: f32[8], %b: f32[8]) -> (%y) {{
  %p = mul(%x, %w) : f32[4,8]
  %level = add(%p, %b) : f32[4,8]
  %most = reduce_max(%level) {{axes = [1], keep_dims = true}} : f32[4,1]
{}}}
)",
                                               rest),
                                   policy);
        const Function& forward = *m.find("layer_forward");
        std::string names;
        for (Value v : forward.results) names += forward.info(v).name + " ";
        return names;
    };
    const std::string compared =
        "  %hit = ge(%level, %most) : bool[4,8]\n  %t = select(%hit, %level, %x) : f32[4,8]\n"
        "  %y = mul(%t, %level) : f32[4,8]\n";
    EXPECT_EQ(saved(compared, RecomputePolicy::none), "y x level most ");
    EXPECT_EQ(saved(compared, RecomputePolicy::block), "y x ");
    EXPECT_EQ(saved("  %y = mul(%x, %most) : f32[4,8]\n", RecomputePolicy::none), "y x most ");
}

// Two carried values, of which only one is read behind the loop; the loss reads what the loop collects as well, one
// member of it twice; the loop runs from the last layer to the first.
constexpr const char* crossed = R"(
func @main(
    %x: f32[4] input "x",
    %a: f32[4] parameter "a",
    %w: 3 x f32[4] parameter "w.{0..2}",
    %s: f32[4] parameter "s") -> (%loss "loss") {
  %u, %v, %c = repeat(%x, %a, %w, %s) {body = "layer", carried = 2, n = 3, per_layer = 1, reverse = true} : f32[4], f32[4], 3 x f32[4]
  %c0 = member(%c) {index = 0} : f32[4]
  %c2 = member(%c) {index = 2} : f32[4]
  %p = mul(%u, %c0) : f32[4]
  %q = mul(%p, %c2) : f32[4]
  %r = add(%q, %c0) : f32[4]
  %loss = reduce_sum(%r) {axes = [0], keep_dims = false} : f32[]
}
func @layer(%x: f32[4], %y: f32[4], %w: f32[4], %s: f32[4]) -> (%n, %m, %c) {
  %n = mul(%y, %w) : f32[4]
  %t = tanh(%x) : f32[4]
  %m = add(%t, %s) : f32[4]
  %c = mul(%m, %n) : f32[4]
}
)";

TEST_P(DifferentiateLoop, CarriesCollectsAndRunsBackwards) {
    const Module loops = gradients(crossed, GetParam());
    expect_right_gradients(loops);
    Report report;
    DifferentiateOptions options;
    options.keeping.policy = GetParam();
    const Module calls = differentiate(unroll_repeats(parsed(crossed), report), options, report);
    verify(calls);
    const std::vector<Members> arguments = random_arguments(loops.main(), 4);
    expect_same_bits(evaluate(loops, loops.main(), std::span<const Members>(arguments)),
                     evaluate(calls, calls.main(), std::span<const Members>(arguments)));
}

// What starts the loop is read by every layer as well, and by what stands behind the loop; one value is shared twice.
constexpr const char* met = R"(
func @main(
    %x: f32[4] input "x",
    %e: f32[4] parameter "e",
    %w: 3 x f32[4] parameter "w.{0..2}") -> (%loss "loss") {
  %h = mul(%x, %e) : f32[4]
  %y, %kept = repeat(%h, %w, %h, %e, %e) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[4], 3 x f32[4]
  %k0 = member(%kept) {index = 0} : f32[4]
  %z = mul(%y, %h) : f32[4]
  %r = add(%z, %k0) : f32[4]
  %loss = reduce_sum(%r) {axes = [0], keep_dims = false} : f32[]
}
func @layer(%x: f32[4], %w: f32[4], %h: f32[4], %e: f32[4], %f: f32[4]) -> (%y, %x) {
  %a = mul(%x, %w) : f32[4]
  %t = tanh(%a) : f32[4]
  %u = mul(%t, %h) : f32[4]
  %v = mul(%u, %e) : f32[4]
  %g = mul(%f, %f) : f32[4]
  %s = add(%v, %g) : f32[4]
  %y = add(%x, %s) : f32[4]
}
)";

TEST_P(DifferentiateLoop, SumsGradientsOfAValueInSeveralPlaces) {
    const Module loops = gradients(met, GetParam());
    EXPECT_EQ(loops.main().result_names, (std::vector<std::string>{"loss", "de", "dw"}));
    expect_right_gradients(loops);
}

// The backward pass of the second layer is not called: a has no gradient.
TEST_P(DifferentiateLoop, NothingRunsBackwardsForNobody) {
    const Module module = gradients(R"(
func @main(%x: f32[4] input "x", %a: f32[4] parameter "a", %w: f32[4] parameter "w") -> (%loss "loss") {
  %u = call(%x, %a) {callee = "first"} : f32[4]
  %y, %c = repeat(%u, %w) {body = "layer", carried = 1, n = 2, per_layer = 0, reverse = false} : f32[4], 2 x f32[4]
  %c0 = member(%c) {index = 0} : f32[4]
  %loss = reduce_sum(%c0) {axes = [0], keep_dims = false} : f32[]
}
func @first(%x: f32[4], %a: f32[4]) -> (%y) {
  %y = mul(%x, %a) : f32[4]
}
func @layer(%x: f32[4], %w: f32[4]) -> (%y, %c) {
  %y = mul(%w, %w) : f32[4]
  %c = exp(%w) : f32[4]
}
)",
                                    GetParam());
    EXPECT_EQ(module.main().result_names, (std::vector<std::string>{"loss", "dw"}));
    expect_right_gradients(module);
}

TEST_P(DifferentiateLoop, LoopsInsideLoopsAreUnrolled) {
    const Module module = gradients(R"(
func @main(%x: f32[4] input "x", %w: 2 x f32[4] parameter "w.{0..1}", %v: f32[4] parameter "v") -> (%loss "loss") {
  %y = repeat(%x, %w, %v) {body = "outer", carried = 1, n = 2, per_layer = 1, reverse = false} : f32[4]
  %loss = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
}
func @outer(%x: f32[4], %w: f32[4], %v: f32[4]) -> (%y) {
  %y = repeat(%x, %w, %v) {body = "inner", carried = 1, n = 3, per_layer = 0, reverse = false} : f32[4]
}
func @inner(%x: f32[4], %w: f32[4], %v: f32[4]) -> (%y) {
  %a = mul(%x, %w) : f32[4]
  %b = add(%a, %v) : f32[4]
  %y = tanh(%b) : f32[4]
}
)",
                                    GetParam());
    expect_right_gradients(module);
}

TEST(Differentiate, SavesTheBlocksInputAlone) {
    const Module module = gradients(rolled, RecomputePolicy::block);
    const Function* forward = module.find("layer_forward");
    ASSERT_NE(forward, nullptr);
    EXPECT_EQ(forward->results.size(), 2u);
    EXPECT_EQ(forward->results[1], forward->arguments[0]);
}

// ---- stops of the gradient

const Note* note_of(const Report& report, const std::string& what) {
    for (const Note& note : report.notes)
        if (note.what == what) return &note;
    return nullptr;
}

// x + stop(x²): of its slope, which is 1 + 2x, the gradient has the first part alone, and differences that hold what
// passes the stop agree with it.
TEST(Differentiate, NothingPassesAStop) {
    Report report;
    const Module module = differentiate(parsed(R"(
func @main(%w: f32[2] parameter "w", %v: f32[2] parameter "v") -> (%loss "loss") {
  %square = mul(%w, %w) : f32[2]
  %t = stop_gradient(%square) : f32[2] at "model.probe" "Probe" [Identity "node_detach"]
  %u = stop_gradient(%v) : f32[2]
  %a = add(%w, %t) : f32[2]
  %b = mul(%a, %u) : f32[2]
  %loss = reduce_sum(%b) {axes = [0], keep_dims = false} : f32[]
}
)"),
                                        {}, report);
    verify(module);
    expect_right_gradients(module);
    const std::vector<Members> arguments = {
        {Tensor::floats({2}, {3, 5})}, {Tensor::floats({2}, {7, 11})}, {Tensor::scalar(DType::f32, 1)}};
    const std::vector<Members> results = evaluate(module, module.main(), std::span<const Members>(arguments));
    EXPECT_EQ(results.at(0).at(0).at(0), 12 * 7 + 30 * 11);
    ASSERT_EQ(results.size(), 2U);  // what v multiplies is stopped: it has no gradient
    EXPECT_EQ(results[1][0].f, (std::vector<double>{7, 11}));
    EXPECT_FALSE(module.main().argument_info[1].trainable);
    const Note* note = note_of(report, "stop_gradient");
    ASSERT_NE(note, nullptr);
    EXPECT_EQ(note->kind, Note::Kind::done);
}

// Straight through: h + stop(round(h) - h) has the gradient of h.
TEST(Differentiate, StraightThroughAStop) {
    const Module module = gradients(R"(
func @main(%w: f32[3] parameter "w") -> (%loss "loss") {
  %round = round(%w) : f32[3]
  %d = sub(%round, %w) : f32[3]
  %t = stop_gradient(%d) : f32[3]
  %h = add(%w, %t) : f32[3]
  %s = mul(%h, %h) : f32[3]
  %loss = reduce_sum(%s) {axes = [0], keep_dims = false} : f32[]
}
)");
    expect_right_gradients(module);
    const std::vector<Members> arguments = {{Tensor::floats({3}, {0.3, 1.8, -2.6})}, {Tensor::scalar(DType::f32, 1)}};
    const std::vector<Members> results = evaluate(module, module.main(), std::span<const Members>(arguments));
    EXPECT_EQ(results.at(1).at(0).f, (std::vector<double>{0, 4, -6}));
}

// In the body of a loop, under every way of keeping what the backward pass reads.
TEST(Differentiate, StopsInLoops) {
    for (const RecomputePolicy policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::block})
        expect_right_gradients(gradients(R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: 4 x f32[3,3] parameter "layers.{0..3}.weight") -> (%loss "loss") {
  %y = repeat(%x, %w) {body = "layer", carried = 1, n = 4, per_layer = 1, reverse = false} : f32[2,3]
  %s = mul(%y, %y) : f32[2,3]
  %loss = reduce_sum(%s) {axes = [0, 1], keep_dims = false} : f32[]
}
func @layer(%x: f32[2,3], %w: f32[3,3]) -> (%y) {
  %h = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[2,3]
  %t = tanh(%h) : f32[2,3]
  %stopped = stop_gradient(%x) : f32[2,3]
  %gate = sigmoid(%stopped) : f32[2,3]
  %g = mul(%t, %gate) : f32[2,3]
  %y = add(%x, %g) : f32[2,3]
}
)",
                                         policy));
}

}  // namespace differentiate_test
}  // namespace thunderc
