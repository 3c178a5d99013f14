// SPDX-License-Identifier: Apache-2.0
// Hazards planted in the schedule of a training step on two ranks: the checker finds each of them.
#include "compiler/check/check_plan.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "tests/planned/ranks.h"

namespace thunderc {
namespace replicas_hazards_test {

Module planned() {
    CompileOptions o;
    o.mesh.replicas = 2;
    o.bucket_bytes = 16000;  // three of five layers together
    return compiled("llama5/dynamo.logits.onnx", o);
}

void drop(Module& m, const std::string& op, const std::string& event) {
    std::size_t gone = 0;
    for (Function& f : m.functions)
        gone += std::erase_if(f.ops,
                              [&](const Op& o) { return o.name == op && o.attributes.string("event", "") == event; });
    ASSERT_EQ(gone, 1U) << event;
}

Op& find(Module& m, const std::string& op, const std::string& attribute, const std::string& value) {
    for (Function& f : m.functions)
        for (Op& o : f.ops)
            if (o.name == op && o.attributes.string(attribute, "") == value) return o;
    throw InternalError("there is no " + op + " " + value);
}

bool says(const std::vector<std::string>& violations, const std::string& what) {
    for (const std::string& v : violations)
        if (v.find(what) != std::string::npos) return true;
    return false;
}

std::string all(const std::vector<std::string>& violations) {
    std::string out;
    for (const std::string& v : violations) out += v + "\n";
    return out;
}

TEST(ReplicasHazards, TheScheduleAsItIsHasNone) {
    EXPECT_EQ(plan_violations(planned()), std::vector<std::string>());
}

TEST(ReplicasHazards, ASumThatDoesNotWaitForItsGradients) {
    Module m = planned();
    drop(m, "wait", "bucket_0_ready");
    verify(m);
    const auto found = plan_violations(m);
    EXPECT_TRUE(says(found, "all_reduce %grad_lm_head.weight_after_1 on reduce waits for nothing on compute"))
        << all(found);
    EXPECT_TRUE(says(found, "linear_backward_weight %grad_lm_head.weight_after on compute writes")) << all(found);
}

TEST(ReplicasHazards, LayersThatAreSentBeforeTheyAreDone) {
    Module m = planned();
    drop(m, "wait", "bucket_1_ready");
    verify(m);
    const auto found = plan_violations(m);
    EXPECT_TRUE(says(found, "@decoder_layer_backward_loop: all_reduce")) << all(found);
    EXPECT_TRUE(says(found, "neither waits for the other")) << all(found);
}

TEST(ReplicasHazards, AGroupOfLayersThatIsRecordedTooEarly) {
    // The event of the layer before: the last of the three is still computed.
    Module m = planned();
    find(m, "wait", "event", "bucket_1_ready").attributes.set("distance", std::int64_t{1});
    find(m, "record", "event", "bucket_1_ready").attributes.erase("layers");
    verify(m);
    EXPECT_TRUE(says(plan_violations(m), "neither waits for the other"));
}

TEST(ReplicasHazards, AnUpdateThatDoesNotWaitForTheLastSum) {
    Module m = planned();
    drop(m, "wait", "bucket_2_done");
    verify(m);
    EXPECT_TRUE(says(plan_violations(m), "@forward_backward: what reduce does last is not waited for on compute"));
}

TEST(ReplicasHazards, AWaitForAnotherBucket) {
    // The event of the first bucket says nothing of those behind it.
    Module m = planned();
    for (Function& f : m.functions)
        for (std::size_t k = 0; k < f.ops.size(); ++k)
            if (f.ops[k].name == "all_reduce" && f.ops[k].attributes.string("name") == "bucket_0") {
                Op record = find(m, "record", "event", "bucket_2_done");
                drop(m, "record", "bucket_2_done");
                f.ops.insert(f.ops.begin() + static_cast<std::ptrdiff_t>(k) + 1, record);
                k = f.ops.size();
            }
    verify(m);
    EXPECT_TRUE(says(plan_violations(m), "what reduce does last is not waited for on compute"));
}

TEST(ReplicasHazards, AGradientThatIsSentFromWhereAnotherValueIsWritten) {
    // The last bucket lies where the loop's first layer is still added up.
    Module m = planned();
    Function& f = m.main();
    const Op& sum = find(m, "all_reduce", "name", "bucket_0");
    for (Value v : {sum.operands[0], sum.results[0]}) f.info(v).placement.offset = 3072;
    EXPECT_FALSE(plan_violations(m).empty());
}

}  // namespace replicas_hazards_test
}  // namespace thunderc
