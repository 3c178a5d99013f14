#include "compiler/transforms/distribute.h"

#include "compiler/support/error.h"
#include "compiler/transforms/schedule_collectives.h"
#include "tests/transforms/transform_text.h"

namespace thunderc {
namespace {

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

TEST(ScheduleCollectives, AwaitsStandAtTheEndAsOne) {
    Report report;
    const Module m =
        schedule_collectives(distributed(step, {.mesh = {.replicas = 2, .shards = 1}, .bucket_bytes = 32}), report);
    verify(m);
    const std::string all = function_text(m, "forward_backward");
    EXPECT_NE(
        all.find(
            R"(  %g2_2, %g1_1, %g0_2 = await(%g2_1, %g1, %g0_1, %sent, %sent_1, %sent_2) {reason = "the update reads what comes of it"} : f32[4], 3 x f32[4], f32[4]
}
)"),
        std::string::npos)
        << all;
    EXPECT_EQ(all.find("await("), all.rfind("await("));
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

}  // namespace
}  // namespace thunderc
