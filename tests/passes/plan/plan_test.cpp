// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "compiler/check/check_plan.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/planned/step_form.h"
#include "runtime-lib/optim/step_scalars.h"

namespace thunderc {
namespace plan_test {

// What plan makes of these functions; the independent checker has looked at it.
Module planned(const std::string& functions) {
    Module m = parse_module("module \"m\" values\n" + functions);
    verify(m);
    Report report;
    m = plan(std::move(m), report);
    verify(m);
    EXPECT_EQ(plan_violations(m), std::vector<std::string>());
    return m;
}

// "scratch+64" for the value of this name; a family with its stride, "saved+0 every 64".
std::string place(const Module& m, const std::string& function, const std::string& value) {
    const Function& f = *m.find(function);
    for (const ValueInfo& info : f.values) {
        if (info.name != value) continue;
        const Placement& p = info.placement;
        std::string out = std::string(name_of(p.arena)) + "+" + std::to_string(p.offset);
        return info.type.is_family() ? out + " every " + std::to_string(p.layer_stride) : out;
    }
    return "no such value";
}

std::string entry(const std::string& arguments, const std::string& ops) {
    return "func @f(\n" + arguments + R"(
    %loss_sum: f32[] scalar "loss_sum") -> (%r "loss_sum") {
)" + ops + R"(
  %r = add(%loss_sum, %s) : f32[]
}
)";
}

const std::string vectors = R"(    %x: f32[16] input "x",
    %w: f32[16] parameter "w",)";

TEST(Plan, WritesOverAnOperandThatEnds) {
    const Module m = planned(entry(vectors, R"(
  %a = mul(%x, %w) : f32[16]
  %b = exp(%a) : f32[16]
  %c = add(%a, %b) : f32[16]
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[]
)"));
    EXPECT_EQ(place(m, "f", "a"), "scratch+0");
    EXPECT_EQ(place(m, "f", "b"), "scratch+64");  // a is read again
    EXPECT_EQ(place(m, "f", "c"), "scratch+0");   // a ends here
    EXPECT_EQ(place(m, "f", "s"), "scratch+64");  // b has ended
    EXPECT_EQ(m.arena_bytes.at("scratch"), 128);
}

TEST(Plan, PutsScalarsOfTheStepWhereTheRuntimeHasThem) {
    const Module m = planned(entry(vectors, R"(
  %a = mul(%x, %w) : f32[16]
  %s = reduce_sum(%a) {axes = [0], keep_dims = false} : f32[]
)"));
    EXPECT_EQ(place(m, "f", "loss_sum"), "scalars+136");
    EXPECT_EQ(place(m, "f", "r"), "scalars+136");
}

TEST(Plan, ReadsAViewWhereItLies) {
    const Module m = planned(entry(vectors, R"(
  %a = mul(%x, %w) : f32[16]
  %v = slice(%a) {axis = 0, begin = 4, end = 12, step = 1} : f32[8]
  %c = exp(%v) : f32[8]
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[]
)"));
    EXPECT_EQ(place(m, "f", "v"), "scratch+16");
    // exp may not write over half of a: the other half would be lost, had somebody else a view of it.
    EXPECT_EQ(place(m, "f", "c"), "scratch+64");
}

// Two products of which a kernel makes one tensor; `ops`: what the kernel does.
std::string joined(const std::string& kernel) {
    return entry(R"(    %x: f32[4,8] input "x",
    %u: f32[8,8] parameter "u",
    %w: f32[8,8] parameter "w",)",
                 R"(
  %a = linear(%x, %u) : f32[4,8]
  %b = linear(%x, %w) : f32[4,8]
  %y = fused(%a, %b) {kernel = "join"} : f32[4,16]
  %s = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
)") + "func @join(%a: f32[4,8], %b: f32[4,8]) -> (%y) kind \"kernel:copy\" {\n" +
           kernel + "}\n";
}

Dims strides_of(const Module& m, const std::string& value) {
    for (const ValueInfo& info : m.main().values)
        if (info.name == value) return info.placement.strides;
    return {};
}

bool stands(const Module& m) {
    return std::any_of(m.main().ops.begin(), m.main().ops.end(),
                       [](const Op& op) { return op.attributes.boolean("stands", false); });
}

TEST(Plan, PiecesAreWrittenWhereTheyBelong) {
    const Module m = planned(joined("  %y = concat(%a, %b) {axis = 1} : f32[4,16]\n"));
    EXPECT_EQ(place(m, "f", "y"), "scratch+0");
    EXPECT_EQ(place(m, "f", "a"), "scratch+0");
    EXPECT_EQ(place(m, "f", "b"), "scratch+32");
    EXPECT_EQ(strides_of(m, "b"), (Dims{16, 1}));
    EXPECT_TRUE(stands(m));  // and the kernel has nothing to do
}

TEST(Plan, WhatAKernelTurnsIsTurnedInPlaceBesideAPieceThatItHandsOn) {
    const Module m = planned(joined("  %e = exp(%a) : f32[4,8]\n  %y = concat(%e, %b) {axis = 1} : f32[4,16]\n"));
    EXPECT_EQ(place(m, "f", "b"), "scratch+32");
    EXPECT_EQ(strides_of(m, "a"), Dims());  // by another call, which may as well write it elsewhere
    EXPECT_FALSE(stands(m));
}

TEST(Plan, PiecesOfWhichNoneIsHandedOnStayWhereTheyAre) {
    const Module m = planned(
        joined("  %e = exp(%a) : f32[4,8]\n  %n = neg(%b) : f32[4,8]\n  %y = concat(%e, %n) {axis = 1} : f32[4,16]\n"));
    EXPECT_EQ(strides_of(m, "a"), Dims());
    EXPECT_EQ(strides_of(m, "b"), Dims());
}

TEST(Plan, APieceThatIsReadAgainStaysWhereItIs) {
    std::string text = joined("  %y = concat(%a, %b) {axis = 1} : f32[4,16]\n");
    const std::string sum = "  %s = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]\n";
    text.replace(text.find(sum), sum.size(),
                 "  %t = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]\n"
                 "  %v = reduce_sum(%b) {axes = [0, 1], keep_dims = false} : f32[]\n"
                 "  %s = add(%t, %v) : f32[]\n");
    const Module m = planned(text);
    EXPECT_EQ(strides_of(m, "b"), Dims());
    EXPECT_EQ(strides_of(m, "a"), (Dims{16, 1}));
    EXPECT_FALSE(stands(m));
}

// 24 bytes are no multiple of 64: a tensor that has to follow another begins there all the same.
TEST(Plan, LaysTheWeightsOfAMergedProductSideBySide) {
    const Module m = planned(entry(R"(    %x: f32[4,2] input "x",
    %a: f32[3,2] parameter "a",
    %z: f32[2] parameter "z",
    %b: f32[3,2] parameter "b",)",
                                   R"(
  %n = mul(%x, %z) : f32[4,2]
  %y = linear(%n, %a, _, _, %b) {adjacent_weights = true} : f32[4,6]
  %s = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
)"));
    EXPECT_EQ(place(m, "f", "a"), "parameters+0");
    EXPECT_EQ(place(m, "f", "b"), "parameters+24");
    EXPECT_EQ(place(m, "f", "z"), "parameters+64");
}

// Gradients of merged weights that a sum reads are written by one call all the same: side by side, wherever that is.
// The larger tensors between them would be put in a gap.
TEST(Plan, LaysTheGradientsOfAMergedProductSideBySide) {
    const Module m = planned(entry(R"(    %x: f32[4,2] input "x",
    %w: f32[3,2] parameter "w",)",
                                   R"(
  %y = concat(%x, %x, %x) {axis = 1} : f32[4,6]
  %e = exp(%y) : f32[4,6]
  %da, %db = linear_backward_weight(%e, %x) {adjacent_weights = true, executor = "products", outs = [3, 3]} : f32[3,2], f32[3,2]
  %late = exp(%e) : f32[4,6]
  %first = add(%da, %w) : f32[3,2]
  %later = exp(%late) : f32[4,6]
  %second = add(%db, %first) : f32[3,2]
  %s1 = reduce_sum(%second) {axes = [0, 1], keep_dims = false} : f32[]
  %s2 = reduce_sum(%later) {axes = [0, 1], keep_dims = false} : f32[]
  %s = add(%s1, %s2) : f32[]
)"));
    const Function& f = *m.find("f");
    const auto offset = [&](const std::string& name) {
        for (const ValueInfo& info : f.values)
            if (info.name == name) return info.placement.offset;
        return std::int64_t{-1};
    };
    EXPECT_EQ(offset("db"), offset("da") + 24);
    EXPECT_EQ(place(m, "f", "da").substr(0, 8), "scratch+");
}

// One of them is the function's own result, the other is read by a sum: the result is copied to its place.
TEST(Plan, CopiesAGradientThatIsWrittenBesideAnother) {
    const Module m = planned(R"(
func @f(
    %x: f32[4,6] input "x",
    %w: f32[3,6] parameter "w",
    %v: f32[3,6] parameter "v",
    %grad_w: f32[3,6] state "grad.w",
    %grad_v: f32[3,6] state "grad.v") -> (%dw "grad_w", %sum "grad_v") {
  %e = exp(%x) : f32[4,6]
  %dw, %dv = linear_backward_weight(%e, %x) {adjacent_weights = true, executor = "products", outs = [3, 3]} : f32[3,6], f32[3,6]
  %sum = add(%dv, %grad_v) : f32[3,6]
}
)");
    const Function& f = *m.find("f");
    EXPECT_EQ(std::count_if(f.ops.begin(), f.ops.end(), [](const Op& op) { return op.name == "copy"; }), 1);
    EXPECT_EQ(place(m, "f", "dw").substr(0, 8), "scratch+");
}

constexpr const char* layers = R"(
func @f(
    %x: f32[16] input "x",
    %w: 3 x f32[16] parameter "layers.{0..2}.w",
    %v: 3 x f32[8] parameter "layers.{0..2}.v",
    %grad_w: 3 x f32[16] state "grad.layers.{0..2}.w",
    %loss_sum: f32[] scalar "loss_sum") -> (%after "grad_w", %r "loss_sum") {
  %a = exp(%x) : f32[16]
  %y, %kept = repeat(%a, %w, %v) {body = "forward", carried = 1, n = 3, per_layer = 2, reverse = false} : f32[16], 3 x f32[16]
  %s = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
  %dy = mul(%y, %y) : f32[16]
  %dx, %after = repeat(%dy, %kept, %grad_w) {body = "backward", carried = 1, n = 3, per_layer = 2, reverse = true} : f32[16], 3 x f32[16]
  %r = add(%loss_sum, %s) : f32[]
}
func @forward(%x: f32[16], %w: f32[16], %v: f32[8]) -> (%y, %x) {
  %e = exp(%x) : f32[16]
  %h = mul(%x, %w) : f32[16]
  %y = add(%e, %h) : f32[16]
}
func @backward(%dy: f32[16], %x: f32[16], %g: f32[16]) -> (%dx, %after) {
  %after = add(%g, %dy) : f32[16]
  %dx = mul(%dy, %x) : f32[16]
}
)";

TEST(Plan, LaysALayersTensorsTogether) {
    const Module m = planned(layers);
    // 64 and 32 bytes, 96 together: the next layer begins at 128.
    EXPECT_EQ(place(m, "f", "w"), "parameters+0 every 128");
    EXPECT_EQ(place(m, "f", "v"), "parameters+64 every 128");
    EXPECT_EQ(place(m, "f", "grad_w"), "gradients+0 every 128");
    EXPECT_EQ(place(m, "f", "after"), "gradients+0 every 128");
    EXPECT_EQ(m.arena_bytes.at("parameters"), 384);
}

// What trains comes first, layer by layer, and gradients, states and bf16 copies end with it; what is frozen and has a
// bf16 copy comes next, then what has nothing beside it, the wider type first. 32 elements are a cache line of the
// narrowest.
constexpr const char* partly_frozen = R"(
func @forward_backward(
    %x: f32[16] input "x",
    %low: bf16[48] parameter "low" {frozen},
    %still: 3 x f32[16] parameter "layers.{0..2}.still" {frozen},
    %w: 3 x f32[40] parameter "layers.{0..2}.w",
    %both: f32[8] parameter "both" {frozen},
    %head: f32[16] parameter "head",
    %grad_w: 3 x f32[40] state "grad.layers.{0..2}.w",
    %grad_head: f32[16] state "grad.head",
    %narrow_copy_w: 3 x bf16[40] state "narrow_copy.layers.{0..2}.w",
    %narrow_copy_both: bf16[8] state "narrow_copy.both",
    %narrow_copy_head: bf16[16] state "narrow_copy.head",
    %loss_sum: f32[] scalar "loss_sum") -> (%r "loss_sum") {
  %y = repeat(%x, %still, %w) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = false} : f32[16]
  %s = reduce_sum(%y) {axes = [0], keep_dims = false} : f32[]
  %r = add(%loss_sum, %s) : f32[]
}
func @update(
    %w: 3 x f32[40] parameter "layers.{0..2}.w",
    %head: f32[16] parameter "head",
    %grad_w: 3 x f32[40] state "grad.layers.{0..2}.w",
    %grad_head: f32[16] state "grad.head",
    %m: 3 x f32[40] state "first_moment.layers.{0..2}.w",
    %m_head: f32[16] state "first_moment.head",
    %v: 3 x f32[40] state "second_moment.layers.{0..2}.w",
    %last: f32[16] state "second_moment.head",
    %one_minus_beta1: f32[] scalar "adamw.one_minus_beta1",
    %beta2: f32[] scalar "adamw.beta2",
    %one_minus_beta2: f32[] scalar "adamw.one_minus_beta2",
    %step_size: f32[] scalar "adamw.step_size",
    %bias_correction2_sqrt: f32[] scalar "adamw.bias_correction2_sqrt",
    %eps: f32[] scalar "adamw.eps",
    %kept: f32[] scalar "adamw.kept",
    %clip_factor: f32[] scalar "clip_factor",
    %decay_all: bool[] scalar "decay_all") -> (%w_1 "w", %head_1 "head", %m_1 "m", %m_head_1 "m_head", %v_1 "v", %last_1 "last") {
  %w_1, %head_1, %m_1, %m_head_1, %v_1, %last_1 = adamw(%w, %head, %grad_w, %grad_head, %m, %m_head, %v, %last, %one_minus_beta1, %beta2, %one_minus_beta2, %step_size, %bias_correction2_sqrt, %eps, %kept, %clip_factor, %decay_all) : 3 x f32[40], f32[16], 3 x f32[40], f32[16], 3 x f32[40], f32[16]
}
func @layer(%x: f32[16], %still: f32[16], %w: f32[40]) -> (%y) {
  %y = mul(%x, %still) : f32[16]
}
)";

TEST(Plan, PutsFirstWhatTrains) {
    const Module m = planned(partly_frozen);
    EXPECT_EQ(place(m, "forward_backward", "w"), "parameters+0 every 256");
    EXPECT_EQ(place(m, "forward_backward", "head"), "parameters+768");
    EXPECT_EQ(place(m, "forward_backward", "both"), "parameters+896");
    EXPECT_EQ(place(m, "forward_backward", "still"), "parameters+1024 every 128");
    EXPECT_EQ(place(m, "forward_backward", "low"), "parameters+1408");
    EXPECT_EQ(m.arena_bytes.at("parameters"), 1536);
    EXPECT_EQ(place(m, "forward_backward", "grad_w"), "gradients+0 every 256");
    EXPECT_EQ(place(m, "forward_backward", "grad_head"), "gradients+768");
    EXPECT_EQ(m.arena_bytes.at("gradients"), 896);
    EXPECT_EQ(place(m, "update", "m"), "optimizer+0 every 256");
    EXPECT_EQ(place(m, "update", "v"), "optimizer+896 every 256");
    EXPECT_EQ(place(m, "update", "last"), "optimizer+1664");
    EXPECT_EQ(m.arena_bytes.at("optimizer"), 1792);
    EXPECT_EQ(place(m, "forward_backward", "narrow_copy_head"), "narrow_copies+384");
    EXPECT_EQ(place(m, "forward_backward", "narrow_copy_both"), "narrow_copies+448");
    EXPECT_EQ(m.arena_bytes.at("narrow_copies"), 512);
    EXPECT_EQ(plan_violations(m), std::vector<std::string>());
}

TEST(Plan, FrozenParametersThatTrainAreAsTheyWereWhereAllTrain) {
    // The same program with nothing frozen: the arguments' order, but for the families of one loop.
    std::string text = partly_frozen;
    for (std::size_t at; (at = text.find(" {frozen}")) != std::string::npos;) text.erase(at, 9);
    for (std::size_t at; (at = text.find("bf16[48]")) != std::string::npos;) text.replace(at, 8, "f32[48]");
    const Module m = planned(text);
    EXPECT_EQ(place(m, "forward_backward", "low"), "parameters+0");
    EXPECT_EQ(place(m, "forward_backward", "still"), "parameters+256 every 384");
    EXPECT_EQ(place(m, "forward_backward", "w"), "parameters+384 every 384");
    EXPECT_EQ(m.arena_bytes.at("gradients"), m.arena_bytes.at("parameters"));
    EXPECT_EQ(m.arena_bytes.at("optimizer"), 2 * m.arena_bytes.at("parameters"));
}

TEST(Plan, KeepsWhatGoesIntoEachLayerWhereItIsMade) {
    const Module m = planned(layers);
    // Four values of a chain, the first three of which are what the loop collects: nothing is copied.
    EXPECT_EQ(place(m, "f", "a"), "saved+0");
    EXPECT_EQ(place(m, "f", "kept"), "saved+0 every 64");
    EXPECT_EQ(place(m, "f", "y"), "saved+192");
    EXPECT_EQ(m.arena_bytes.at("saved"), 256);
    for (const Op& op : m.find("f")->ops) EXPECT_NE(op.name, "copy");
}

TEST(Plan, TakesTwoSlotsByTurnsWhereNothingIsKept) {
    const Module m = planned(layers);
    for (const Op& op : m.find("f")->ops) {
        if (op.name != "repeat" || op.attributes.string("body") != "backward") continue;
        const CarrySlots slots = carry_slots(op, 0);
        EXPECT_EQ(slots.arena, Placement::Arena::scratch);
        EXPECT_EQ(slots.period, 2);
        EXPECT_EQ(place(m, "f", "dy"), "scratch+" + std::to_string(slots.at(0)));
        EXPECT_EQ(place(m, "f", "dx"), "scratch+" + std::to_string(slots.at(3)));
        EXPECT_EQ(slots.at(3), slots.base + 64);
    }
}

// A loop that keeps nothing overwrites what goes into it, unless that is copied.
std::size_t copies_before_loop(const std::string& initial, const std::string& shared, const std::string& behind) {
    const Module m = planned(R"(
func @f(
    %x: f32[16] input "x",
    %w: 3 x f32[16] parameter "layers.{0..2}.w",
    %loss_sum: f32[] scalar "loss_sum") -> (%r "loss_sum") {
  %a = exp(%x) : f32[16]
  %b = reshape(%a) {dims = [16]} : f32[16]
  %y = repeat()" + initial + ", %w, " +
                             shared +
                             R"() {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[16]
  %z = mul(%y, )" + behind + R"() : f32[16]
  %s = reduce_sum(%z) {axes = [0], keep_dims = false} : f32[]
  %r = add(%loss_sum, %s) : f32[]
}
func @layer(%x: f32[16], %w: f32[16], %v: f32[16]) -> (%y) {
  %h = mul(%x, %w) : f32[16]
  %y = add(%h, %v) : f32[16]
}
)");
    std::size_t copies = 0;
    for (const Op& op : m.find("f")->ops) {
        if (op.name == "repeat") break;
        copies += op.name == "copy" ? 1 : 0;
    }
    return copies;
}

TEST(Plan, CopiesWhatGoesIntoALoopOnlyWhereItIsReadAgain) {
    EXPECT_EQ(copies_before_loop("%a", "%x", "%y"), 0u);
    EXPECT_EQ(copies_before_loop("%a", "%x", "%a"), 1u);  // behind the loop
    EXPECT_EQ(copies_before_loop("%a", "%a", "%y"), 1u);  // by every layer
    EXPECT_EQ(copies_before_loop("%a", "%x", "%b"), 1u);  // as a view
    EXPECT_EQ(copies_before_loop("%a", "%b", "%y"), 1u);
    EXPECT_EQ(copies_before_loop("%x", "%x", "%y"), 1u);  // what the caller owns
}

// What a sum is added to is written before the sum, where the sum will be: nothing else may lie there by then.
TEST(Plan, ASumsMemoryIsTakenWhenItsFirstPartIsWritten) {
    planned(entry(R"(    %x: f32[4,4] input "x",
    %w: f32[4,4] parameter "w",)",
                  R"(
  %a = exp(%x) : f32[4,4]
  %first = linear_backward_weight(%a, %x) {executor = "products"} : f32[4,4]
  %b = exp(%w) : f32[4,4]
  %sum = linear_backward_weight(%b, %x, %first) {executor = "products"} : f32[4,4]
  %c = mul(%sum, %sum) : f32[4,4]
  %s = reduce_sum(%c) {axes = [0, 1], keep_dims = false} : f32[]
)"));
}

// Each carried sum of two is a gradient at the end: both leave their slots.
TEST(Plan, SeveralCarriedValuesMayBeResults) {
    const Module m = planned(R"(
func @f(
    %u: f32[16] parameter "u",
    %v: f32[16] parameter "v",
    %grad_u: f32[16] state "grad.u",
    %grad_v: f32[16] state "grad.v") -> (%a "grad_u", %b "grad_v") {
  %a, %b = repeat(%u, %v) {body = "layer", carried = 2, n = 3, per_layer = 0, reverse = true} : f32[16], f32[16]
}
func @layer(%u: f32[16], %v: f32[16]) -> (%a, %b) {
  %a = exp(%v) : f32[16]
  %b = exp(%u) : f32[16]
}
)");
    EXPECT_EQ(place(m, "f", "a"), "gradients+0");
    EXPECT_EQ(place(m, "f", "b"), "gradients+64");
    for (const Op& op : m.find("f")->ops) {
        if (op.name != "repeat") continue;
        EXPECT_GE(carry_slots(op, 0).base, 0);
        EXPECT_GE(carry_slots(op, 1).base, 0);
        EXPECT_NE(carry_slots(op, 0).base, carry_slots(op, 1).base);
    }
}

TEST(Plan, KnowsWhereTheRuntimesScalarsAre) {
    using thunder::StepScalars;
    const std::vector<std::pair<const char*, std::size_t>> fields = {
        {"learning_rate", offsetof(StepScalars, learning_rate)},
        {"max_grad_norm", offsetof(StepScalars, max_grad_norm)},
        {"seed", offsetof(StepScalars, seed)},
        {"step", offsetof(StepScalars, step)},
        {"loss_weight", offsetof(StepScalars, loss_weight)},
        {"dloss", offsetof(StepScalars, dloss)},
        {"loss_sum", offsetof(StepScalars, loss_sum)},
        {"grad_norm", offsetof(StepScalars, grad_norm)},
        {"clip_factor", offsetof(StepScalars, clip_factor)},
        {"rounding", offsetof(StepScalars, rounding)}};
    static_assert(sizeof(StepScalars) == step_scalars_bytes);
    for (const auto& [name, offset] : fields) {
        EXPECT_EQ(step_scalar_offset(name), std::optional<std::int64_t>(offset)) << name;
        EXPECT_EQ(step_scalar_at(static_cast<std::int64_t>(offset)), std::optional<std::string>(name));
    }
    for (const char* flag : {"first_micro_step", "decay_all", "last_micro_step"}) {  // the host's
        const std::optional<std::int64_t> offset = step_scalar_offset(flag);
        ASSERT_TRUE(offset.has_value()) << flag;
        EXPECT_EQ(step_scalar_dtype(*offset), DType::boolean) << flag;
        EXPECT_EQ(step_scalar_at(*offset), std::nullopt) << flag;
    }
    for (const thunder::RuleInfo& rule : thunder::all_rules())
        for (std::size_t k = 0; k < rule.numbers.size(); ++k) {
            const auto offset = static_cast<std::int64_t>(offsetof(StepScalars, rule) + k * sizeof(double));
            const std::string name = rule.name + "." + rule.numbers[k];
            EXPECT_EQ(step_scalar_offset(name), std::optional(offset)) << name;
            EXPECT_EQ(step_scalar_at(offset), std::optional("rule[" + std::to_string(k) + "]")) << name;
            EXPECT_EQ(step_scalar_dtype(offset), DType::f64);
        }
    EXPECT_EQ(step_scalar_offset("adamw.no_such_number"), std::nullopt);
    EXPECT_EQ(step_scalar_offset("no_such_rule.beta2"), std::nullopt);
    EXPECT_EQ(step_scalar_dtype(offsetof(StepScalars, max_grad_norm)), DType::f64);
    EXPECT_EQ(step_scalar_dtype(offsetof(StepScalars, step)), DType::i64);
    EXPECT_EQ(step_scalar_dtype(offsetof(StepScalars, clip_factor)), DType::f32);
    EXPECT_EQ(step_scalar_dtype(step_scalars_bytes), DType::f32);
    // Behind it floats, as many as there are terms.
    static_assert(step_scalars_bytes % alignof(float) == 0);
    for (std::int64_t k = 0; k < 200; ++k) {
        const std::string name = "loss_weights[" + std::to_string(k) + "]";
        const std::int64_t offset = step_scalars_bytes + k * static_cast<std::int64_t>(sizeof(float));
        EXPECT_EQ(step_scalar_offset(name), std::optional(offset)) << name;
        EXPECT_EQ(step_scalar_at(offset), std::optional(name));
        EXPECT_EQ(
            step_scalars_bytes_with({LossForm::Kind::terms, std::vector<std::string>(static_cast<std::size_t>(k) + 1)}),
            offset + static_cast<std::int64_t>(sizeof(float)));
    }
    EXPECT_EQ(step_scalars_bytes_with({LossForm::Kind::mean, {"loss_weight"}}), step_scalars_bytes);
    for (const char* name :
         {"loss_weights", "loss_weights[]", "loss_weights[-1]", "loss_weights[01]", "loss_weights[1"})
        EXPECT_EQ(step_scalar_offset(name), std::nullopt) << name;
    EXPECT_EQ(step_scalar_at(step_scalars_bytes - 1), std::nullopt);
    EXPECT_EQ(step_scalar_at(step_scalars_bytes + 2), std::nullopt);
    EXPECT_EQ(step_scalar_offset("no_such_field"), std::nullopt);
}

}  // namespace plan_test
}  // namespace thunderc
