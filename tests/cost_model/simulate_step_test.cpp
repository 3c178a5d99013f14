// SPDX-License-Identifier: Apache-2.0
// Simulated time against times worked out by hand, and against the longest chain of a program's events.
#include "compiler/cost_model/simulate_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/check/check_plan.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "tests/planned/pipeline_of_layers.h"

namespace thunderc {
namespace {

const std::string head =
    "module \"m\" planned\narena batch 64\narena parameters 256\narena scratch 384\nstream gather\n";

// A stream beside compute, whose copy and whose reduction meet on one link.
const std::string three_streams = R"(
func @f(
    %x: f32[4] @batch+0 input "x",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  record() {event = "begin"}
  wait() {event = "begin"} on gather
  wait() {event = "begin"} on reduce
  %g = copy(%x) : f32[4] @scratch+0 on gather
  record() {event = "gathered"} on gather
  %h = neg(%x) : f32[4] @scratch+64 on reduce
  record() {event = "reduced"} on reduce
  %a = mul(%x, %x) : f32[4] @scratch+128
  wait() {event = "gathered"}
  wait() {event = "reduced"}
  %b = add(%g, %h) : f32[4] @scratch+192
  %s = reduce_sum(%b) {axes = [0], keep_dims = false} : f32[] @scratch+256
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
)";

Module parsed(const std::string& text) {
    Module m = parse_module(text);
    verify(m);
    EXPECT_EQ(plan_violations(m), std::vector<std::string>());
    return m;
}

// By op: seconds, and where.
using Needs = std::map<std::string, Work>;
Simulation simulated(const Module& m, const Needs& needs) {
    return simulate(expand_plan(m, m.main()), m.streams, [&](const PlannedAction& action) {
        const auto at = needs.find(action.op->name);
        return at == needs.end() ? Work{} : at->second;
    });
}

Work compute(double seconds) {
    return {.seconds = seconds, .kind = "compute"};
}
Work send(double seconds, double latency = 0, Resource link = Resource::between) {
    return {.latency = latency,
            .seconds = seconds,
            .resource = link,
            .kind = "send",
            .collective = true,
            .name = "send of s"};
}

std::string text_of(const std::string& body, bool reduce = false) {
    return head + (reduce ? "stream reduce\n" : "") + body;
}

// n = 4 layers of C seconds, each with a copy of G seconds ahead of it: the first copy is never hidden.
TEST(SimulateStep, GathersHideBehindLayersThatTakeLonger) {
    // The first copy stands behind the one before the loop, on another stream; both of it are sends here.
    const Simulation s = simulated(parsed(text_of(pipeline_of_layers)), {{"mul", compute(3)}, {"copy", send(2)}});
    // copy %n on compute 2, then: gather 2, 4 layers of 3, all later gathers behind them.
    EXPECT_DOUBLE_EQ(s.seconds, 2 + 2 + 4 * 3);
    EXPECT_DOUBLE_EQ(s.busy.at(0), 2 + 4 * 3);
    EXPECT_DOUBLE_EQ(s.busy.at(1), 4 * 2);
    EXPECT_DOUBLE_EQ(s.computing(), 4 * 3);  // the copy before the loop is sent, on compute
    EXPECT_DOUBLE_EQ(s.exposed(), 2 + 2);
    EXPECT_DOUBLE_EQ(s.communicating(), 2 + 4 * 2);
    EXPECT_DOUBLE_EQ(s.critical().at("compute"), 4 * 3);
    EXPECT_DOUBLE_EQ(s.critical().at("send"), 4);
}

TEST(SimulateStep, LayersWaitForGathersThatTakeLonger) {
    const Simulation s = simulated(parsed(text_of(pipeline_of_layers)), {{"mul", compute(1)}, {"copy", send(5)}});
    EXPECT_DOUBLE_EQ(s.seconds, 5 + 4 * 5 + 1);
    EXPECT_DOUBLE_EQ(s.exposed(), 5 + 4 * 5 + 1 - 4 * 1);
    EXPECT_DOUBLE_EQ(s.critical().at("send"), 5 + 4 * 5);
    EXPECT_DOUBLE_EQ(s.critical().at("compute"), 1);
}

// With one slot a gather waits for the layer before it.
TEST(SimulateStep, OneSlotHidesNothing) {
    std::string one = text_of(pipeline_of_layers);
    one.replace(one.find("distance = 2"), 12, "distance = 1");
    const Simulation s = simulated(parsed(one), {{"mul", compute(3)}, {"copy", send(2)}});
    EXPECT_DOUBLE_EQ(s.seconds, 2 + 4 * (2 + 3));
    EXPECT_DOUBLE_EQ(s.exposed(), 2 + 4 * 2);
}

// Times of actions are where they have to be: the third gather begins when the first slot is free.
TEST(SimulateStep, SlotsLimitTheRate) {
    const Module m = parsed(text_of(pipeline_of_layers));  // actions point into it
    const Simulation s = simulated(m, {{"mul", compute(10)}, {"copy", send(1)}});
    std::vector<double> begins;
    for (const SimulatedAction& a : s.actions)
        if (a.op->name == "copy" && a.stream == 1) begins.push_back(a.begin);
    // 1 s of copying before the loop; layers end at 12, 22, 32, 42.
    EXPECT_EQ(begins, (std::vector<double>{1, 2, 12, 22}));
    EXPECT_DOUBLE_EQ(s.seconds, 42);
}

TEST(SimulateStep, SendersOfOneLinkShareIt) {
    const Module m = parsed(text_of(three_streams, true));
    // 2 and 3 s of one link: 4 s until the shorter one is done, 1 more for the rest of the other; and 1 s behind them.
    Needs needs = {{"copy", send(2)}, {"neg", send(3)}, {"mul", compute(0.5)}, {"add", compute(1)}};
    Simulation s = simulated(m, needs);
    EXPECT_DOUBLE_EQ(s.seconds, 5 + 1 + 1);
    EXPECT_DOUBLE_EQ(s.exposed(), 7 - 0.5 - 2);
    EXPECT_DOUBLE_EQ(s.communicating(), 5);
    // On links of their own nobody waits for the other.
    needs["neg"] = send(3, 0, Resource::inside);
    s = simulated(m, needs);
    EXPECT_DOUBLE_EQ(s.seconds, 3 + 1 + 1);
    EXPECT_DOUBLE_EQ(s.communicating(), 3);
    // What passes before a link is used is not shared: from 1 on they share it, until 5; then the longer one is alone.
    needs["copy"] = send(2, 1);
    needs["neg"] = send(3, 1);
    EXPECT_DOUBLE_EQ(simulated(m, needs).seconds, 1 + 5 + 1 + 1);
    // The copy is alone for 2 s, until the other has come so far.
    needs["neg"] = send(3, 3);
    EXPECT_DOUBLE_EQ(simulated(m, needs).seconds, 3 + 3 + 1 + 1);
}

// The copies of the first test: 2 s ahead of 4 layers of 3 s, and one before the loop, on compute. The first of the
// others hides under nothing, each later one under 2 of the 3 s of the layer before it.
TEST(SimulateStep, SaysWhatIsComputedUnderACollective) {
    const Module m = parsed(text_of(pipeline_of_layers));
    const Simulation s = simulated(m, {{"mul", compute(3)}, {"copy", send(2)}});
    const CollectiveUse use = s.collectives().at("send");
    EXPECT_EQ(use.calls, 1 + 4);
    EXPECT_DOUBLE_EQ(use.running, 5 * 2);
    EXPECT_DOUBLE_EQ(use.under.at("compute"), 3 * 2);
    EXPECT_DOUBLE_EQ(use.computed_under(), 3 * 2);
    EXPECT_DOUBLE_EQ(use.exposed, 2 * 2);
    // Collectives that take longer than layers: 4 of 5 s, beside all layers but the last, of 1 s.
    const Simulation slow = simulated(m, {{"mul", compute(1)}, {"copy", send(5)}});
    EXPECT_DOUBLE_EQ(slow.collectives().at("send").computed_under(), 3 * 1);
    EXPECT_DOUBLE_EQ(slow.collectives().at("send").exposed, slow.seconds - 4 * 1);
    // By name it is the same here, where there is one.
    const auto named = s.named_collectives();
    ASSERT_EQ(named.size(), 1U);
    EXPECT_EQ(named.front().first, "send of s");
    EXPECT_EQ(named.front().second.calls, use.calls);
    EXPECT_DOUBLE_EQ(named.front().second.computed_under(), use.computed_under());
}

// A rank of two sends half of what is summed twice: to add it, and what comes of it. On GPUs that passes in f32, on
// CPUs as it is stored.
TEST(SimulateStep, SumsOfBf16PassInF32OnGpus) {
    const auto sent = [](const std::string& type, const char* machine) {
        const std::string text =
            "module \"m\" planned\nmesh 2 replicas 1 shards\narena gradients 4096\nstream reduce\n\n"
            "func @forward_backward(%g: " +
            type +
            "[1024] @gradients+0 input \"g\") -> (%s \"s\") {\n  %s = all_reduce(%g, _) {group = "
            "\"world\", name = \"g\", ranks = 2, what = \"g\"} : " +
            type + "[1024] @gradients+0 on reduce\n}\n";
        return simulate_step(parse_module(text), *find_machine(machine), {})
            .collectives()
            .at("all_reduce (world)")
            .sent_bytes;
    };
    EXPECT_DOUBLE_EQ(sent("f32", "h100"), 4096);
    EXPECT_DOUBLE_EQ(sent("bf16", "h100"), 4096);
    EXPECT_DOUBLE_EQ(sent("bf16", "cpu"), 2048);
}

// Without a shared link, an action ends when the chain of actions before it allows: computed over the list, whatever
// the durations.
TEST(SimulateStep, IsTheLongestChain) {
    for (const bool loop : {true, false}) {
        const Module m = parsed(text_of(loop ? pipeline_of_layers : three_streams, true));
        const ExpandedPlan plan = expand_plan(m, m.main());
        for (std::uint64_t seed = 0; seed < 50; ++seed) {
            std::mt19937_64 random(seed);
            std::vector<double> durations;
            for (std::size_t k = 0; k < plan.actions.size(); ++k)
                durations.push_back(static_cast<double>(random() % 1000) / 100);
            std::size_t k = 0;
            const Simulation s = simulate(plan, m.streams, [&](const PlannedAction& action) {
                while (&plan.actions[k] != &action) ++k;
                return Work{.seconds = durations[k], .resource = static_cast<Resource>(action.stream), .kind = "any"};
            });
            std::vector<double> ends(plan.actions.size()), streams(3);
            double longest = 0;
            for (std::size_t i = 0; i < plan.actions.size(); ++i) {
                const PlannedAction& a = plan.actions[i];
                const bool event = a.op->name == "record" || a.op->name == "wait";
                double& stream = streams.at(a.stream);
                if (a.awaits) stream = std::max(stream, ends[*a.awaits]);
                ends[i] = stream += event ? 0 : durations[i];
                longest = std::max(longest, stream);
                EXPECT_NEAR(s.actions[i].end, ends[i], 1e-9);
            }
            EXPECT_NEAR(s.seconds, longest, 1e-9);
            double critical = 0;
            for (const auto& [kind, seconds] : s.critical()) critical += seconds;
            EXPECT_NEAR(critical, s.seconds, 1e-9);
        }
    }
}

}  // namespace
}  // namespace thunderc
