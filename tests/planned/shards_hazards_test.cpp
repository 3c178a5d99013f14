// SPDX-License-Identifier: Apache-2.0
// Hazards planted in the schedule of a model that is cut over two ranks: the checker finds each of them, and for some
// the numbers show them as well.
#include "compiler/check/check_plan.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "tests/planned/ranks.h"

namespace thunderc {
namespace shards_hazards_test {

Module planned(const std::string& reshard = "forward") {
    CompileOptions o;
    o.mesh.shards = 2;
    o.reshard = reshard;
    return compiled("llama5/dynamo.logits.onnx", o);
}

// The ops of this name whose event, or whose own name, is this one, in loops that run forwards or backwards.
std::vector<Op*> find(Module& m, const std::string& op, const std::string& name, const std::string& function) {
    std::vector<Op*> out;
    for (Function& f : m.functions)
        for (Op& o : f.ops)
            if (f.name == function && o.name == op &&
                (o.attributes.string("event", "") == name || o.attributes.string("name", "") == name))
                out.push_back(&o);
    return out;
}

void drop(Module& m, const std::string& op, const std::string& name, const std::string& function) {
    const std::vector<Op*> found = find(m, op, name, function);
    ASSERT_EQ(found.size(), 1U) << name;
    std::vector<Op>& ops = m.find(function)->ops;
    ops.erase(ops.begin() + (found.front() - ops.data()));
    verify(m);
}

const std::string forward = "decoder_layer_forward_loop", backward = "decoder_layer_backward_loop";

// The sentence that contains both; all sentences where there is none.
std::string finding(const Module& m, const std::string& what, const std::string& other = "") {
    std::string all;
    for (const std::string& v : plan_violations(m)) {
        if (v.find(what) != std::string::npos && v.find(other) != std::string::npos) return "";
        all += v + "\n";
    }
    return "not found in: " + all;
}

const std::string unordered = "neither waits for the other";

TEST(ShardsHazards, TheScheduleAsItIsHasNone) {
    for (const char* reshard : {"never", "forward", "always"})
        EXPECT_EQ(plan_violations(planned(reshard)), std::vector<std::string>()) << reshard;
}

TEST(ShardsHazards, ALayerThatIsComputedBeforeItIsGathered) {
    for (const std::string& loop : {forward, backward}) {
        Module m = planned();
        drop(m, "wait", "layers_done", loop);
        EXPECT_EQ(finding(m, "all_gather %layers_1 on gather writes", unordered), "");
    }
}

TEST(ShardsHazards, ASlotThatIsFilledWhileItIsRead) {
    for (const std::string& loop : {forward, backward}) {
        Module m = planned();
        drop(m, "wait", "layers_free", loop);
        EXPECT_EQ(finding(m, "all_gather %layers_1 on gather writes", unordered), "") << loop;
    }
}

TEST(ShardsHazards, AWaitForTheReleaseOfTheWrongLayer) {
    Module m = planned();
    find(m, "wait", "layers_free", forward).at(0)->attributes.set("distance", std::int64_t{3});
    EXPECT_EQ(finding(m, "all_gather %layers_1 on gather writes", unordered), "");
}

TEST(ShardsHazards, OneSlotForAllLayers) {
    // Every wait stands, and the layer that is gathered ahead is written over the one that is computed.
    Module m = planned();
    for (Function& f : m.functions)
        for (ValueInfo& v : f.values)
            if (v.placement.arena == Placement::Arena::gathered && v.placement.slots > 0) v.placement.slots = 1;
    EXPECT_EQ(finding(m, "all_gather %layers_1 on gather writes", "what it reads is gone by then"), "");
}

TEST(ShardsHazards, LayersThatAreNotThereAnyMore) {
    // Three are said to have stayed, in two slots.
    Module m = planned();
    for (Op& op : m.find(backward)->ops)
        if (op.attributes.has("resident")) op.attributes.set("resident", std::int64_t{3});
    EXPECT_EQ(finding(m, "", "what it reads is gone by then"), "");
}

TEST(ShardsHazards, GradientsThatAreWrittenOverWhileTheyAreSent) {
    Module m = planned();
    drop(m, "wait", "layers_gradients_summed", backward);
    EXPECT_EQ(finding(m, "reduce_scatter %grad_layers_1 on reduce reads %dlayers_1", unordered), "");
}

TEST(ShardsHazards, GradientsThatAreSentBeforeTheyAreDone) {
    Module m = planned();
    drop(m, "wait", "layers_gradients_ready", backward);
    EXPECT_EQ(finding(m, "reduce_scatter %grad_layers_1 on reduce reads %dlayers_1", unordered), "");
}

TEST(ShardsHazards, GathersThatBeginBeforeTheStep) {
    // The update before may still write the shards.
    Module m = planned();
    drop(m, "wait", "begin", "forward_backward");
    EXPECT_EQ(finding(m, "on gather waits for nothing on compute: what came before @forward_backward may not be done"),
              "");
}

TEST(ShardsHazards, GathersOnTheWayBackThatDoNotWaitForTheTurn) {
    Module m = planned("always");
    drop(m, "wait", backward + "_turn", "forward_backward");
    EXPECT_EQ(finding(m, "all_gather %layers_1 on gather writes", unordered), "");
}

TEST(ShardsHazards, AWayBackThatBeginsToGatherBeforeTheWayForwardIsDone) {
    // With the wait for the turn, and without it: what is gathered lies where the forward pass has its layers.
    Module m = planned("always");
    std::vector<Op>& ops = m.find("forward_backward")->ops;
    auto begin = [&](const std::string& body) {
        return std::find_if(ops.begin(), ops.end(), [&](const Op& op) {
            return op.name == "begin_ahead" && op.attributes.string("body") == body;
        });
    };
    ASSERT_NE(begin(backward), ops.end());
    ASSERT_LT(begin(forward), begin(backward));
    std::rotate(begin(forward) + 1, begin(backward), begin(backward) + 1);
    verify(m);
    EXPECT_EQ(finding(m, "all_gather %layers_1 on gather writes", "what it reads is gone by then"), "");
}

// ---- what is there in some micro-steps alone ------------------------------------------------------------------------

Module hybrid() {
    CompileOptions o;
    o.mesh = {2, 2};
    o.reshard = "never";
    return compiled("llama5/dynamo.logits.onnx", o);
}

TEST(ShardsHazards, AMicroStepThatSendsNothingToReplicasWaitsForItsReductions) {
    Module m = hybrid();
    EXPECT_EQ(plan_violations(m), std::vector<std::string>());
    // Without it compute would wait for the reductions through the replicas' sums alone, which only the last
    // micro-step has.
    std::vector<Op>& ops = m.main().ops;
    const std::size_t gone = std::erase_if(ops, [](const Op& op) {
        return op.name == "wait" && op.stream.empty() &&
               op.attributes.string("event") == "model.embed_tokens_gradients_done";
    });
    ASSERT_EQ(gone, 1U);
    verify(m);
    const std::vector<std::string> found = plan_violations(m);
    ASSERT_FALSE(found.empty());
    for (const std::string& v : found) EXPECT_NE(v.find(", where not last_micro_step"), std::string::npos) << v;
    EXPECT_EQ(finding(m, "what reduce does last is not waited for on compute, where not last_micro_step"), "");
}

TEST(ShardsHazards, AWaitForWhatOnlyTheLastMicroStepRecords) {
    Module m = hybrid();
    for (Op* wait : find(m, "wait", "model.embed_tokens_replicas_done", "forward_backward")) wait->operands.clear();
    verify(m);
    EXPECT_EQ(finding(m, "waits for the event model.embed_tokens_replicas_done, which nothing records",
                      ", where not last_micro_step"),
              "");
}

TEST(ShardsHazards, WhatWasGatheredInTheFirstMicroStepIsWrittenOver) {
    // Behind the last op that reads it: the micro-step itself loses nothing, the next one finds gradients there.
    Module m = hybrid();
    Function& f = m.main();
    const std::vector<Op*> gather = find(m, "all_gather", "model.embed_tokens", "forward_backward");
    ASSERT_EQ(gather.size(), 1U);
    const Placement parameters = f.info(gather[0]->results[0]).placement;
    std::size_t moved = 0;
    for (const Op& op : f.ops) {
        if (op.name != "pack" || op.attributes.string("unit") != gather[0]->attributes.string("unit")) continue;
        const std::int64_t gradients = f.info(op.results[0]).placement.offset;
        for (ValueInfo& v : f.values)
            if (v.placement.arena == Placement::Arena::unit_gradients && v.placement.offset == gradients) {
                v.placement.arena = parameters.arena;
                v.placement.offset = parameters.offset;
                ++moved;
            }
    }
    ASSERT_GT(moved, 0U);
    const std::vector<std::string> found = plan_violations(m);
    ASSERT_FALSE(found.empty());
    for (const std::string& v : found) {
        EXPECT_NE(v.find("what it reads is gone by then"), std::string::npos) << v;
        EXPECT_NE(v.find("not first_micro_step"), std::string::npos) << v;
    }
}

// On compute, as the text has it: what comes before and behind is its order, and there is no event to lose.
TEST(ShardsHazards, TheSumOfTheNormIsOnNoStreamOfItsOwn) {
    const Module m = planned();
    std::size_t sums = 0;
    for (const Op& op : m.find("update")->ops) {
        EXPECT_TRUE(op.stream.empty()) << op.name;
        EXPECT_TRUE(op.name != "record" && op.name != "wait");
        sums += op.name == "all_reduce" ? 1 : 0;
    }
    EXPECT_EQ(sums, 1U);
}

TEST(ShardsHazards, APieceOfAUnitInAnotherPlace) {
    Module m = planned();
    Function& f = *m.find(forward);
    for (const Op& op : f.ops)
        if (op.name == "unpack" && op.attributes.integer("offset") > 0) {
            f.info(op.results[0]).placement.offset += 64;
            break;
        }
    EXPECT_EQ(finding(m, "the unpack", "does not lie where it views"), "");
}

}  // namespace shards_hazards_test
}  // namespace thunderc
