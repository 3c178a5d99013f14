// SPDX-License-Identifier: Apache-2.0
// The parts of an update that runs beside the next forward pass, and faults planted in them: the checker, which looks
// at every read and write of the pass written out, finds each.
#include "compiler/planned/update_parts.h"

#include "compiler/check/check_plan.h"
#include "compiler/cost_model/step_costs.h"
#include "compiler/cost_model/update_overlap.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace update_parts_test {

Module planned(const std::string& model, CompileOptions options = {}) {
    return compiled(model, std::move(options));
}

const std::string llama = "llama2/noopt.logits.onnx";

// "embed_tokens @embedding 0..768"
std::vector<std::string> described(const Module& m) {
    std::vector<std::string> out;
    const UpdateParts parts = update_parts(m);
    const std::vector<Op>& ops = m.find(forward_backward_function)->ops;
    for (const UpdatePart& part : parts.parts) {
        std::string line = part.name + " @" + (part.op < ops.size() ? ops[part.op].name : "end");
        if (part.layered) line += " x" + std::to_string(part.count);
        for (const UpdateRange& r : part.ranges)
            line += " " + std::to_string(r.begin) + ".." + std::to_string(r.end) +
                    (r.stride == 0 ? "" : "+" + std::to_string(r.stride));
        out.push_back(line);
    }
    return out;
}

bool finds(const Module& m, const UpdateParts& parts, const std::string& what) {
    const std::vector<std::string> all = update_violations(m, parts);
    const bool found =
        std::any_of(all.begin(), all.end(), [&](const std::string& v) { return v.find(what) != std::string::npos; });
    for (const std::string& v : all)
        if (!found) ADD_FAILURE() << v;
    return found;
}

TEST(UpdateParts, FollowTheForwardPass) {
    const Module m = planned(llama);
    EXPECT_EQ(described(m),
              (std::vector<std::string>{"embed_tokens @embedding 0..768", "layers @repeat x2 768..2720+1952",
                                        // the norm is small, and the head beside it is as well
                                        "norm @fused 4672..5456"}));
    const UpdateParts parts = update_parts(m);
    EXPECT_EQ(parts.count(), 4);
    EXPECT_EQ(m.find(forward_backward_function)->ops.at(parts.join).name, "linear_backward_weight");
    const std::size_t loop = parts.parts[1].op;
    EXPECT_EQ(parts.done_before(loop, 0), 2);
    EXPECT_EQ(parts.done_before(loop, 1), 3);
    EXPECT_EQ(parts.done_before(loop - 1, 0), 1);
    EXPECT_EQ(update_violations(m, parts), std::vector<std::string>());
}

// A table that is looked up first and multiplied last is one part.
TEST(UpdateParts, ATiedTableIsSteppedOnce) {
    const Module m = planned("llama2_tied/fresh.logits.onnx");
    EXPECT_EQ(described(m).front().substr(0, 23), "embed_tokens @embedding");
    EXPECT_EQ(described(m).size(), 3U);
}

TEST(UpdateParts, LayersByThemselvesAreAPartEach) {
    CompileOptions straight;
    straight.roll = false;
    straight.batch = 6;
    const std::vector<std::string> parts = described(planned("ranks_mlp/dyn.logits.onnx", straight));
    ASSERT_FALSE(parts.empty());
    for (const std::string& part : parts) EXPECT_EQ(part.find(" x"), std::string::npos) << part;
}

TEST(UpdateParts, WhatIsFrozenIsInNone) {
    CompileOptions adapters;
    adapters.train_only = "lora_";
    adapters.batch = 1;
    adapters.seq = 8;
    const Module m = planned("lora/dyn.logits.onnx", adapters);
    const UpdateParts parts = update_parts(m);
    std::int64_t elements = 0;
    for (const UpdatePart& part : parts.parts) elements += part.elements() * part.count;
    EXPECT_GT(elements, 0);
    EXPECT_LE(elements * 4, m.arena_bytes.at("gradients"));
}

TEST(UpdateParts, AreDeclinedForAReason) {
    const auto why = [](CompileOptions options) { return update_parts(planned(llama, std::move(options))).declined; };
    EXPECT_EQ(why({}), "");
    CompileOptions shards, muon;
    shards.mesh.shards = 2;
    EXPECT_EQ(why(shards), "each rank steps a shard");
    muon.optimizer = "muon";
    EXPECT_EQ(why(muon), "Muon needs memory of the step's for a matrix");
    CompileOptions copies;
    copies.mesh.replicas = 2;
    EXPECT_EQ(why(copies), "");
}

// Where waits would stand nowhere, or not before all that reads parameters.
TEST(UpdateParts, AreDeclinedWhereNothingWouldWait) {
    Module m = planned(llama);
    Function& weigh = *m.find(loss_weight_function);
    Placement& place = weigh.info(weigh.arguments[0]).placement;
    const Placement::Arena before = std::exchange(place.arena, Placement::Arena::parameters);
    EXPECT_EQ(update_parts(m).declined, "the weight of the loss is of parameters");
    place.arena = before;
    for (ValueInfo& info : m.find(forward_backward_function)->values)
        if (info.placement.arena == Placement::Arena::gradients) info.placement.arena = Placement::Arena::scratch;
    EXPECT_EQ(update_parts(m).declined, "nothing writes a gradient");
}

// ---- planted faults ----

TEST(UpdateParts, AWaitBehindItsReaderIsFound) {
    const Module m = planned(llama);
    UpdateParts parts = update_parts(m);
    parts.parts[0].op = parts.parts[1].op;
    EXPECT_TRUE(finds(m, parts, "embedding touches %model.embed_tokens.weight, and does not wait for part 0"));
}

TEST(UpdateParts, LayersInTheOtherOrderAreFound) {
    const Module m = planned(llama);
    UpdateParts parts = update_parts(m);
    UpdateRange& range = parts.parts[1].ranges[0];
    range.begin += range.stride;
    range.end += range.stride;
    range.stride = -range.stride;
    EXPECT_TRUE(finds(m, parts, "does not wait for part 2"));
}

TEST(UpdateParts, AParameterOfNoPartAndOneOfTwoAreFound) {
    const Module m = planned(llama);
    UpdateParts parts = update_parts(m);
    const UpdateRange whole = parts.parts[2].ranges.back(), head = {whole.begin + 16, whole.end, 0};
    parts.parts[2].ranges.back().end = head.begin;
    EXPECT_TRUE(finds(m, parts, "no part of the update steps all of lm_head.weight"));
    parts.parts[2].ranges.back() = whole;
    parts.parts[0].ranges.push_back(head);
    EXPECT_TRUE(finds(m, parts, "in part 3 and in part 0"));
}

TEST(UpdateParts, AGradientThatIsWrittenBeforeTheUpdateHasReadItIsFound) {
    const Module m = planned(llama);
    UpdateParts parts = update_parts(m);
    // as a parameter that the forward pass does not read would be, if the last wait came too late
    parts.join = m.find(forward_backward_function)->ops.size();
    parts.parts[2].op = parts.join;
    EXPECT_TRUE(finds(m, parts, "%grad_lm_head.weight"));
}

// ---- what it gains ----

// By hand: layers of equal work under equal parts. Where products are bound by multiprocessors, seven of eight are left
// while the update has a quarter of the memory's rate.
TEST(UpdateOverlap, IsLessThanTheUpdateAndMoreThanNothing) {
    CompileOptions narrow;
    narrow.dtype = "bf16";
    const Module m = planned(llama, narrow);
    for (const Machine& machine : machines()) {
        const UpdateOverlap overlap = update_overlap(m, machine, {});
        const double update = seconds(*op_cost(m, *m.find(update_function), *parameter_step(m)), machine);
        EXPECT_GE(overlap.gained(), -1e-12) << machine.name;
        EXPECT_LT(overlap.gained(), update) << machine.name;
    }
    CompileOptions shards;
    shards.mesh.shards = 2;
    EXPECT_EQ(update_overlap(planned(llama, shards), *find_machine("h100"), {}).behind, 0);
}

}  // namespace update_parts_test
}  // namespace thunderc
