// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/distributed/distribute.h"

#include "compiler/passes/distributed/schedule_collectives.h"
#include "compiler/support/error.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace distribute_test {

// A loop of three layers between what comes first and what comes last.
const std::string step = R"(func @forward_backward(
    %x: f32[4] input "x",
    %first_weight: f32[4] parameter "first",
    %weight: 3 x f32[4] parameter "layers.{0..2}",
    %last_weight: f32[4] parameter "last",
    %grad_first_weight: f32[4] state "grad.first",
    %grad_weight: 3 x f32[4] state "grad.layers.{0..2}",
    %grad_last_weight: f32[4] state "grad.last",
    %first_micro_step: bool[] scalar "first_micro_step") -> (%g0 "grad_first_weight", %g1 "grad_weight", %g2 "grad_last_weight") {
  %a = mul(%x, %last_weight) : f32[4]
  %g2 = accumulate_gradient(%grad_last_weight, %a, %first_micro_step) : f32[4]
  %b, %g1 = repeat(%a, %weight, %grad_weight, %first_micro_step) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = true} : f32[4], 3 x f32[4]
  %g0 = accumulate_gradient(%grad_first_weight, %b, %first_micro_step) : f32[4]
}
func @update(
    %first_weight: f32[4] parameter "first") -> (%first_weight "first_weight") {
}
func @layer(%dy: f32[4], %w: f32[4], %before: f32[4], %first: bool[]) -> (%dx, %dw) {
  %dx = mul(%dy, %w) : f32[4]
  %dw = accumulate_gradient(%before, %dy, %first) : f32[4]
}
)";

Module distributed(const std::string& text, const DistributeOptions& options) {
    Report report;
    Module out = distribute(parsed(text), options, report);
    verify(out);
    return out;
}

std::string function_text(const Module& module, const std::string& name) {
    return to_string(*module.find(name), {.provenance = false});
}

TEST(Distribute, OneRankChangesNothing) {
    const Module before = parsed(step);
    EXPECT_EQ(to_string(distributed(step, {})), to_string(before));
    Report report;
    EXPECT_EQ(to_string(schedule_collectives(before, report)), to_string(before));
}

TEST(Distribute, EachBucketIsSentBehindTheLastOfItsGradients) {
    // 16 bytes a layer: two layers together reach 32.
    const Module m = distributed(step, {.mesh = {.replicas = 2, .shards = 1}, .bucket_bytes = 32});
    const std::string all = function_text(m, "forward_backward");
    const std::string body = all.substr(all.find("{\n  %a"));
    EXPECT_EQ(body, R"({
  %a = mul(%x, %last_weight) : f32[4]
  %g2 = accumulate_gradient(%grad_last_weight, %a, %first_micro_step) : f32[4]
  %g2_1, %sent = all_reduce_start(%g2, %last_micro_step) {group = "world", name = "bucket_0", ranks = 2, what = "last"} : f32[4], token
  %g2_2 = await(%g2_1, %sent) : f32[4]
  %b, %g1, %sent_1 = repeat(%a, %weight, %grad_weight, %first_micro_step, %last_micro_step) {body = "layer_loop", carried = 1, n = 3, per_layer = 2, reverse = true} : f32[4], 3 x f32[4], token
  %g1_1 = await(%g1, %sent_1) : 3 x f32[4]
  %g0 = accumulate_gradient(%grad_first_weight, %b, %first_micro_step) : f32[4]
  %g0_1, %sent_2 = all_reduce_start(%g0, %last_micro_step) {group = "world", name = "bucket_2", ranks = 2, what = "first"} : f32[4], token
  %g0_2 = await(%g0_1, %sent_2) : f32[4]
}
)");
    EXPECT_NE(all.find("-> (%g0_2 \"grad_first_weight\", %g1_1 \"grad_weight\", %g2_2 \"grad_last_weight\")"),
              std::string::npos)
        << all;
    EXPECT_EQ(
        function_text(m, "layer_loop"),
        R"(func @layer_loop(%dy: f32[4], %w: f32[4], %before: f32[4], %first: bool[], %last_micro_step: bool[]) -> (%dx, %dw_1, %sent) kind "loop" {
  %dx, %dw = call(%dy, %w, %before, %first) {callee = "layer"} : f32[4], f32[4]
  %dw_1, %sent = all_reduce_start(%dw, %last_micro_step) {group = "world", layers = 2, name = "bucket_1", ranks = 2, what = "layers.0"} : f32[4], token
}
)");
    EXPECT_EQ(function_text(m, "layer"), function_text(parsed(step), "layer"));
}

TEST(Distribute, ParametersLieInTheOrderOfTheirBuckets) {
    // The parameter whose gradient is ready last stands between two that are sent together.
    const std::string text = R"(func @forward_backward(
    %a: f32[4] parameter "a",
    %b: f32[4] parameter "b",
    %c: f32[4] parameter "c",
    %grad_a: f32[4] state "grad.a",
    %grad_b: f32[4] state "grad.b",
    %grad_c: f32[4] state "grad.c",
    %first: bool[] scalar "first_micro_step") -> (%ga "grad_a", %gb "grad_b", %gc "grad_c") {
  %ga = accumulate_gradient(%grad_a, %b, %first) : f32[4]
  %gc = accumulate_gradient(%grad_c, %c, %first) : f32[4]
  %gb = accumulate_gradient(%grad_b, %a, %first) : f32[4]
}
func @update(
    %a: f32[4] parameter "a") -> (%a "a") {
}
)";
    auto order = [&](std::int64_t bytes) {
        const Module m = distributed(text, {.mesh = {.replicas = 2, .shards = 1}, .bucket_bytes = bytes});
        std::string out;
        for (const ArgInfo& info : m.main().argument_info)
            if (info.kind == ArgInfo::Kind::parameter) out += info.names.front();
        return out;
    };
    EXPECT_EQ(order(16), "abc");  // each alone: nothing has to move
    EXPECT_EQ(order(1 << 20), "abc");
    EXPECT_EQ(order(32), "bac");  // a and c are sent together, then b
}

// The same with matrices, and the step of the optimizer.
const std::string matrices = R"(func @forward_backward(
    %x: f32[4,4] input "x",
    %w: 3 x f32[4,4] parameter "layers.{0..2}.w",
    %scale: f32[4] parameter "scale",
    %grad_w: 3 x f32[4,4] state "grad.layers.{0..2}.w",
    %grad_scale: f32[4] state "grad.scale",
    %first_micro_step: bool[] scalar "first_micro_step") -> (%g_w "grad_w", %g_scale "grad_scale") {
  %a = mul(%x, %scale) : f32[4,4]
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[4]
  %g_scale = accumulate_gradient(%grad_scale, %s, %first_micro_step) : f32[4]
  %b, %g_w = repeat(%a, %w, %grad_w, %first_micro_step) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = true} : f32[4,4], 3 x f32[4,4]
}
func @update(
    %w: 3 x f32[4,4] parameter "layers.{0..2}.w",
    %scale: f32[4] parameter "scale",
    %grad_w: 3 x f32[4,4] state "grad.layers.{0..2}.w",
    %grad_scale: f32[4] state "grad.scale",
    %rate: f32[] scalar "learning_rate",
    %decay: f32[] scalar "weight_decay",
    %most: f32[] scalar "max_grad_norm",
    %all: bool[] scalar "decay_all") -> (%w_1 "w", %scale_1 "scale", %norm "grad_norm") {
  %norm = global_norm(%grad_w, %grad_scale) {executor = "optimizer"} : f32[]
  %clip = clip_factor(%norm, %most) {executor = "optimizer"} : f32[]
  %w_1, %scale_1 = plain_sgd(%w, %scale, %grad_w, %grad_scale, %rate, %decay, %clip, %all) : 3 x f32[4,4], f32[4]
}
func @layer(%dy: f32[4,4], %w: f32[4,4], %before: f32[4,4], %first: bool[]) -> (%dx, %dw) {
  %dx = mul(%dy, %w) : f32[4,4]
  %dw = accumulate_gradient(%before, %dy, %first) : f32[4,4]
}
)";

// What is evaluated between steps reads shards, too: gathered whatever the micro-step, and nothing is summed.
TEST(DistributeShards, AnEvaluationGathersWhatItReads) {
    const std::string evaluate = R"(func @evaluate(
    %x: f32[4,4] input "x",
    %w: 3 x f32[4,4] parameter "layers.{0..2}.w",
    %scale: f32[4] parameter "scale") -> (%b "y") {
  %a = mul(%x, %scale) : f32[4,4]
  %b = repeat(%a, %w) {body = "layer_evaluation", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[4,4]
}
func @layer_evaluation(%x: f32[4,4], %w: f32[4,4]) -> (%y) {
  %y = mul(%x, %w) : f32[4,4]
}
)";
    const Module m = distributed(matrices + evaluate, {.mesh = {.replicas = 1, .shards = 2}});
    const Module without = distributed(matrices, {.mesh = {.replicas = 1, .shards = 2}});
    for (const char* name : {"forward_backward", "update", "layer", "layer_loop"})
        EXPECT_EQ(function_text(m, name), function_text(without, name));
    EXPECT_EQ(m.units.size(), without.units.size());
    EXPECT_EQ(function_text(m, "layer_evaluation"), function_text(parsed(matrices + evaluate), "layer_evaluation"));
    EXPECT_EQ(function_text(m, "evaluate"), R"(func @evaluate(
    %x: f32[4,4] input "x",
    %layers: 3 x f32[32] parameter "layers.{0..2}",
    %norms: f32[32] parameter "norms") -> (%b "y") {
  %norms_1, %sent = all_gather_start(%norms, _) {group = "shard", name = "norms", ranks = 2, unit = "norms", what = "all vectors"} : f32[64], token
  %norms_2 = await(%norms_1, %sent) : f32[64]
  %scale = unpack(%norms_2) {dims = [4], offset = 0} : f32[4]
  %a = mul(%x, %scale) : f32[4,4]
  %b = repeat(%a, %layers) {body = "layer_evaluation_loop", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[4,4]
}
)");
    EXPECT_EQ(function_text(m, "layer_evaluation_loop"),
              R"(func @layer_evaluation_loop(%x: f32[4,4], %layers: f32[32]) -> (%y) kind "loop" {
  %layers_1, %sent = all_gather_start(%layers, _) {group = "shard", name = "layers", ranks = 2, resident = 0, slots = 2, unit = "layers", what = "layers"} : f32[64], token
  %layers_2 = await(%layers_1, %sent) : f32[64]
  %w = unpack(%layers_2) {dims = [4, 4], offset = 0} : f32[4,4]
  %y = call(%x, %w) {callee = "layer_evaluation"} : f32[4,4]
}
)");
}

TEST(DistributeShards, LayersAreGatheredAndTheirGradientsSummedAroundTheCall) {
    const Module m = distributed(matrices, {.mesh = {.replicas = 1, .shards = 2}});
    const std::string all = to_string(m, {.provenance = false});
    EXPECT_EQ(all.substr(0, all.find("func")), R"(module "m" values
mesh 1 replicas 2 shards
unit "layers" 3 x 64 {
  [4,4] + 0 parameter "layers.{0..2}.w"
}
unit "norms" 1 x 64 {
  [4] + 0 parameter "scale"
}

)");
    EXPECT_EQ(function_text(m, "forward_backward"), R"(func @forward_backward(
    %x: f32[4,4] input "x",
    %layers: 3 x f32[32] parameter "layers.{0..2}",
    %norms: f32[32] parameter "norms",
    %grad_layers: 3 x f32[32] state "grad.layers.{0..2}",
    %grad_norms: f32[32] state "grad.norms",
    %first_micro_step: bool[] scalar "first_micro_step") -> (%grad_layers_after "grad_layers", %grad_norms_after "grad_norms") {
  %norms_1, %sent = all_gather_start(%norms, %first_micro_step) {group = "shard", name = "norms", ranks = 2, unit = "norms", what = "all vectors"} : f32[64], token
  %overwrite = constant() {value = <bool[] splat 1.0>} : bool[]
  %norms_2 = await(%norms_1, %sent) : f32[64]
  %scale = unpack(%norms_2) {dims = [4], offset = 0} : f32[4]
  %a = mul(%x, %scale) : f32[4,4]
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[4]
  %dnorms = unwritten() {dtype = f32, elements = 64, unit = "norms"} : f32[64]
  %grad_scale = unpack(%dnorms) {dims = [4], offset = 0} : f32[4]
  %g_scale = accumulate_gradient(%grad_scale, %s, %overwrite) : f32[4]
  %dnorms_1 = pack(%g_scale) {elements = 64, offsets = [0], strides = [0], unit = "norms"} : f32[64]
  %grad_norms_1, %sent_1 = reduce_scatter_start(%dnorms_1, %grad_norms, %first_micro_step) {group = "shard", name = "norms_gradients", ranks = 2, unit = "norms", what = "gradients of all vectors"} : f32[32], token
  %grad_norms_after = await(%grad_norms_1, %sent_1) : f32[32]
  %b, %grad_layers_1, %sent_2 = repeat(%a, %layers, %grad_layers, %overwrite, %first_micro_step) {body = "layer_loop", carried = 1, n = 3, per_layer = 2, reverse = true} : f32[4,4], 3 x f32[32], token
  %grad_layers_after = await(%grad_layers_1, %sent_2) : 3 x f32[32]
}
)");
    EXPECT_EQ(
        function_text(m, "layer_loop"),
        R"(func @layer_loop(%dy: f32[4,4], %layers: f32[32], %grad_layers: f32[32], %first: bool[], %first_micro_step: bool[]) -> (%dx, %grad_layers_1, %sent_1) kind "loop" {
  %layers_1, %sent = all_gather_start(%layers, _) {group = "shard", name = "layers", ranks = 2, resident = 0, slots = 2, unit = "layers", what = "layers"} : f32[64], token
  %layers_2 = await(%layers_1, %sent) : f32[64]
  %w = unpack(%layers_2) {dims = [4, 4], offset = 0} : f32[4,4]
  %dlayers = unwritten() {dtype = f32, elements = 64, slots = 2, unit = "layers"} : f32[64]
  %before = unpack(%dlayers) {dims = [4, 4], offset = 0} : f32[4,4]
  %dx, %dw = call(%dy, %w, %before, %first) {callee = "layer"} : f32[4,4], f32[4,4]
  %dlayers_1 = pack(%dw) {elements = 64, offsets = [0], slots = 2, strides = [0], unit = "layers"} : f32[64]
  %grad_layers_1, %sent_1 = reduce_scatter_start(%dlayers_1, %grad_layers, %first_micro_step) {group = "shard", name = "layers_gradients", ranks = 2, unit = "layers", what = "gradients of layers"} : f32[32], token
}
)");
    EXPECT_EQ(function_text(m, "layer"), function_text(parsed(matrices), "layer"));
}

TEST(DistributeShards, TheNormIsASumOverRanksAndTheStepIsOfShards) {
    const std::string update = function_text(distributed(matrices, {.mesh = {.replicas = 1, .shards = 2}}), "update");
    EXPECT_EQ(update.substr(update.find("{\n  %squares")), R"({
  %squares = sum_of_squares(%grad_layers, %grad_norms) {executor = "optimizer"} : f64[]
  %squares_1, %sent = all_reduce_start(%squares, _) {group = "shard", name = "norm", ranks = 2, what = "the squares of gradients"} : f64[], token
  %squares_2 = await(%squares_1, %sent) : f64[]
  %grad_norm = norm_of_squares(%squares_2) {executor = "optimizer"} : f32[]
  %clip = clip_factor(%grad_norm, %most) {executor = "optimizer"} : f32[]
  %layers_after, %norms_after = plain_sgd(%layers, %norms, %grad_layers, %grad_norms, %rate, %decay, %clip, %all) {matrices = [1, 1, 1, 0]} : 3 x f32[32], f32[32]
}
)");
}

TEST(DistributeShards, UnitsReadBack) {
    const std::string text = to_string(distributed(matrices, {.mesh = {.replicas = 1, .shards = 2}}));
    const Module again = parse_module(text);
    verify(again);
    EXPECT_EQ(to_string(again), text);
}

TEST(DistributeShards, OneRankCommunicatesWhereItIsAskedTo) {
    EXPECT_EQ(to_string(distributed(matrices, {.mesh = {1, 1}})), to_string(parsed(matrices)));
    const std::string text = to_string(distributed(matrices, {.mesh = {1, 1, Mesh::Alone::both}}));
    EXPECT_NE(text.find("mesh 1 replicas 1 shards\n"), std::string::npos) << text;
    for (const char* collective : {"all_gather_start", "reduce_scatter_start", "all_reduce_start"}) {
        const std::size_t at = text.find(collective);
        ASSERT_NE(at, std::string::npos) << collective;
        const std::string line = text.substr(at, text.find('\n', at) - at);
        EXPECT_NE(line.find(" ranks = 1,"), std::string::npos) << line;
    }
    EXPECT_NE(text.find("{group = \"replica\""), std::string::npos) << text;
    const Module again = parse_module(text);
    verify(again);
    EXPECT_EQ(to_string(again), text);
}

TEST(ScheduleCollectives, AwaitsStandAtTheEndAsOne) {
    Report report;
    const Module m =
        schedule_collectives(distributed(step, {.mesh = {.replicas = 2, .shards = 1}, .bucket_bytes = 32}), report);
    verify(m);
    const std::string all = function_text(m, "forward_backward");
    EXPECT_NE(
        all.find(
            R"(  %g2_2, %g1_1, %g0_2 = await(%g2_1, %g1, %g0_1, %sent, %sent_1, %sent_2) {reason = "the update reads the summed gradients; what a stream sends last is there last"} : f32[4], 3 x f32[4], f32[4]
}
)"),
        std::string::npos)
        << all;
    EXPECT_EQ(all.find("await("), all.rfind("await("));
}

// ---- where loops begin to gather ----

// A forward pass over layers, and a backward pass that reads them again; something is computed before, between and
// behind.
const std::string turning = R"(func @forward_backward(
    %x: f32[4,4] input "x",
    %first: f32[4,4] parameter "first",
    %w: 3 x f32[4,4] parameter "layers.{0..2}.w",
    %last: f32[4,4] parameter "last",
    %grad_first: f32[4,4] state "grad.first",
    %first_micro_step: bool[] scalar "first_micro_step") -> (%g "grad_first") {
  %a = mul(%x, %first) : f32[4,4]
  %b = repeat(%a, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[4,4]
  %c = mul(%b, %last) : f32[4,4]
  %d = repeat(%c, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = true} : f32[4,4]
  %g = accumulate_gradient(%grad_first, %d, %first_micro_step) : f32[4,4]
}
func @update(
    %first: f32[4,4] parameter "first",
    %grad_first: f32[4,4] state "grad.first",
    %rate: f32[] scalar "learning_rate",
    %decay: f32[] scalar "weight_decay",
    %most: f32[] scalar "max_grad_norm",
    %all: bool[] scalar "decay_all") -> (%first_1 "first", %norm "grad_norm") {
  %norm = global_norm(%grad_first) {executor = "optimizer"} : f32[]
  %clip = clip_factor(%norm, %most) {executor = "optimizer"} : f32[]
  %first_1 = plain_sgd(%first, %grad_first, %rate, %decay, %clip, %all) : f32[4,4]
}
func @layer(%x: f32[4,4], %w: f32[4,4]) -> (%y) {
  %y = mul(%x, %w) : f32[4,4]
}
)";

// The names of @forward_backward's ops as far as its last loop, and of what the gathers and the beginnings among them
// are.
std::string scheduled(const std::string& text, const DistributeOptions& options) {
    Report report;
    const Module m = schedule_collectives(distributed(text, options), report);
    verify(m);
    std::string out;
    for (const Op& op : m.main().ops) {
        if (op.name == "unpack" || op.name == "constant") continue;
        out += op.name;
        if (op.name == "all_gather_start") out += " " + op.attributes.string("name");
        if (op.name == "begin_ahead" || op.name == "repeat") out += " " + op.attributes.string("body");
        out += "\n";
    }
    return out.substr(0, out.find('\n', out.rfind("repeat")) + 1);
}

TEST(BeginAhead, TheFirstLayerIsGatheredInTheOrderInWhichUnitsAreRead) {
    EXPECT_EQ(scheduled(turning, {.mesh = {.replicas = 1, .shards = 2}, .reshard = "forward"}),
              R"(all_gather_start first
begin_ahead layer_loop
all_gather_start last
await
mul
repeat layer_loop
await
mul
repeat layer_loop_2
)");
}

TEST(BeginAhead, OnTheWayBackBehindTheLoopThatHadTheSlots) {
    EXPECT_EQ(scheduled(turning, {.mesh = {.replicas = 1, .shards = 2}, .reshard = "always"}), R"(all_gather_start first
begin_ahead layer_loop
all_gather_start last
await
mul
repeat layer_loop
begin_ahead layer_loop_2
await
mul
repeat layer_loop_2
)");
}

TEST(BeginAhead, WhatIsThereIsNotGathered) {
    // Every layer has memory of its own and stays there, so the backward pass gathers nothing.
    const std::string never = scheduled(turning, {.mesh = {.replicas = 1, .shards = 2}, .reshard = "never"});
    EXPECT_EQ(never.find("layer_loop_2"), never.rfind("layer_loop_2")) << never;
}

TEST(BeginAhead, ALoopThatNothingStandsBeforeBeginsWhereItIs) {
    // Nothing is computed before the first loop, and nothing between the two.
    std::string text = turning;
    auto replace = [&](const std::string& from, const std::string& to) {
        text.replace(text.find(from), from.size(), to);
    };
    replace("  %a = mul(%x, %first) : f32[4,4]\n", "");
    replace("repeat(%a, %w)", "repeat(%x, %w)");
    replace("  %c = mul(%b, %last) : f32[4,4]\n", "");
    replace("repeat(%c, %w)", "repeat(%b, %w)");
    for (const char* reshard : {"never", "forward", "always"})
        EXPECT_EQ(scheduled(text, {.mesh = {.replicas = 1, .shards = 2}, .reshard = reshard}),
                  "repeat layer_loop\nrepeat layer_loop_2\n")
            << reshard;
}

TEST(BeginAhead, CopiesGatherNothing) {
    EXPECT_EQ(scheduled(turning, {.mesh = {.replicas = 2, .shards = 1}}).find("begin_ahead"), std::string::npos);
}

std::string refused_beginning(const std::string& before, const std::string& behind, std::int64_t ahead = 1) {
    Report report;
    Module m = schedule_collectives(distributed(turning, {.mesh = {.replicas = 1, .shards = 2}}), report);
    if (ahead == 0)
        for (Op& op : m.find("layer_loop")->ops) op.attributes.set("ahead", std::int64_t{0});
    std::string text = to_string(m, {.provenance = false});
    const std::size_t at = text.find("  begin_ahead("), end = text.find('\n', at) + 1;
    text.replace(at, end - at, before);
    text.insert(text.find('\n', text.find("\"layer_loop\", carried")) + 1, behind);
    try {
        verify(parse_module(text));
    } catch (const InternalError& e) {
        return e.what();
    }
    return "";
}

TEST(BeginAhead, StandsOnceBeforeItsLoop) {
    const std::string op = "  begin_ahead() {body = \"layer_loop\"}\n";
    const std::string in = "@forward_backward, in begin_ahead: ";
    EXPECT_EQ(refused_beginning(op, ""), "");
    EXPECT_EQ(refused_beginning("", op), in + "no loop over @layer_loop comes later");
    EXPECT_EQ(refused_beginning(op + op, ""), in + "the loop over @layer_loop begins ahead twice");
    EXPECT_EQ(refused_beginning("  begin_ahead() {body = \"layer\"}\n", ""), in + "no loop over @layer comes later");
    EXPECT_EQ(refused_beginning(op, "", 0), in + "nothing in @layer_loop runs ahead");
}

// ---- what the verifier refuses ----

std::string refused(const std::string& ops, const std::string& results = "%r \"a\"") {
    try {
        Module m = parse_module(
            "module \"m\" values\nmesh 2 replicas 1 shards\nfunc @f(\n    %a: f32[4] parameter \"a\") -> (" + results +
            ") {\n" + ops + "}\n");
        verify(m);
    } catch (const InternalError& e) {
        return e.what();
    }
    return "";
}

const std::string start =
    "  %s, %t = all_reduce_start(%a, _) {group = \"world\", name = \"b\", ranks = 2, what = \"a\"} : f32[4], token\n";

TEST(VerifyCollectives, ResultsAreReadBehindTheirAwait) {
    EXPECT_EQ(refused(start + "  %r = await(%s, %t) : f32[4]\n"), "");
    EXPECT_EQ(refused(start + "  %r = add(%s, %a) : f32[4]\n"), "@f, in add: %s is read before it is awaited");
    EXPECT_EQ(refused(start, "%s \"a\""), "@f: %s is a result, and no await stands before it");
    EXPECT_EQ(refused(start + "  %u, %v = all_reduce_start(%a, _) {group = \"world\", name = \"c\", ranks = 2, what = "
                              "\"a\"} : f32[4], token\n"
                              "  %r = await(%s, %v) : f32[4]\n"),
              "@f, in await: %s is read before it is awaited");
}

TEST(VerifyCollectives, GroupsAreThoseOfTheMesh) {
    EXPECT_EQ(refused("  %r, %t = all_reduce_start(%a, _) {group = \"all\", name = \"b\", ranks = 2, what = \"a\"} : "
                      "f32[4], token\n"),
              "@f, in all_reduce_start: there is no group all");
    EXPECT_EQ(refused("  %r, %t = all_reduce_start(%a, _) {group = \"world\", name = \"b\", ranks = 4, what = \"a\"} : "
                      "f32[4], token\n"),
              "@f, in all_reduce_start: the group world has 2 ranks, not 4");
    EXPECT_EQ(refused("  %r = all_reduce(%a, _) {group = \"world\", name = \"b\", ranks = 2, what = \"a\"} : f32[4]\n"),
              "@f, in all_reduce: before plan a collective has a start and an await");
}

}  // namespace distribute_test
}  // namespace thunderc
