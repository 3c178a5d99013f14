// SPDX-License-Identifier: Apache-2.0
// Copies of a model that train as one (DDP), on all ranks in this process, against one rank that sees the same
// micro-batches one behind the other.
#include "compiler/check/check_plan.h"
#include "compiler/support/error.h"
#include "tests/planned/ranks.h"

namespace thunderc {
namespace replicas_test {

struct Case {
    std::string model;
    std::int64_t world = 1;
    std::size_t micro_steps = 1;
    std::string recompute = "none";
    bool roll = true;

    std::string name() const {
        return model + "_world" + std::to_string(world) + "_accum" + std::to_string(micro_steps) + "_" + recompute +
               (roll ? "" : "_unrolled");
    }
    std::string graph() const { return model + "/dynamo.logits.onnx"; }
    std::string parameters() const { return model + "/params.safetensors"; }
    CompileOptions options() const {
        CompileOptions o;
        o.recompute = recompute;
        o.roll = roll;
        o.mesh.replicas = world;
        o.bucket_bytes = model == "mlp" ? 600 : 16000;  // several buckets, three layers together
        return o;
    }
    CompileOptions options_alone() const {
        CompileOptions o = options();
        o.mesh = {};
        return o;
    }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

// What ranks_matrix_test.cpp has not: layers that are not rolled, six ranks.
std::vector<Case> all_cases() {
    return {{"llama5", 3, 1, "none", false}, {"llama2_tied", 6, 3, "selective", false}, {"mlp", 6, 3}};
}

constexpr int steps = 2;

class Replicas : public ::testing::TestWithParam<Case> {};

TEST_P(Replicas, TrainAsOneRankDoes) {
    const Case& c = GetParam();
    const Trained alone = train_alone(c.graph(), c.options_alone(), c.parameters(),
                                      static_cast<std::size_t>(c.world) * c.micro_steps, steps);
    const std::vector<std::string> names = names_of(alone.gradients);
    ASSERT_FALSE(names.empty());
    expect_same_training(
        train_ranks(PlannedRanks(compiled(c.graph(), c.options())), c.parameters(), names, c.micro_steps, steps),
        alone);
}

INSTANTIATE_TEST_SUITE_P(All, Replicas, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

TEST(ReplicasInAnyOrder, GiveTheSameBits) {
    for (const Case& c : {Case{"llama5", 3, 2}, Case{"llama2_tied", 4, 1, "selective"}}) {
        SCOPED_TRACE(c.name());
        const PlannedRanks ranks(compiled(c.graph(), c.options()));
        expect_same_bits_in_any_order(ranks, c.parameters(), trained_names(ranks.module()), c.micro_steps, 1);
    }
}

TEST(ReplicasThatDisagree, AreADeadlockThatIsTold) {
    const Case c = {"llama5", 2, 1};
    PlannedRanks ranks(compiled(c.graph(), c.options()));
    for (const auto& [name, tensor] : read_safetensors(fixture(c.parameters()))) ranks.set(name, tensor);
    for (std::size_t r = 0; r < 2; ++r) load_batch(ranks.rank(r), random_batch(ranks.module(), r));
    ranks.set_scalar("dloss", 1);
    ranks.set_scalar("first_micro_step", 1);
    ranks.rank(0).set_scalar("last_micro_step", 1);
    ranks.rank(1).set_scalar("last_micro_step", 0);
    try {
        ranks.run("forward_backward", 7);
        FAIL() << "rank 0 went on alone";
    } catch (const InternalError& e) {
        EXPECT_STREQ(e.what(),
                     "@forward_backward: no rank can go on\n"
                     "  rank 0 stands at wait bucket_2_done on compute\n"
                     "  rank 0 stands at all_reduce bucket_0 on reduce");
    }
}

}  // namespace replicas_test
}  // namespace thunderc
