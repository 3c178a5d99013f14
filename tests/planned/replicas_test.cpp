// Copies of a model that train as one (DDP), on all ranks in this process, against one rank that sees the same
// micro-batches one behind the other.
#include "compiler/analysis/check_plan.h"
#include "compiler/support/error.h"
#include "tests/planned/ranks.h"

namespace thunderc {
namespace {

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

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const char* model : {"mlp", "llama5", "llama2_tied"})
        for (std::int64_t world : {1, 2, 3, 4, 8})
            for (std::size_t micro_steps : {1, 3}) out.push_back({model, world, micro_steps});
    for (const char* recompute : {"selective", "block"}) out.push_back({"llama5", 2, 3, recompute});
    out.push_back({"llama5", 3, 1, "none", false});
    return out;
}

constexpr int steps = 2;

class Replicas : public ::testing::TestWithParam<Case> {};

TEST_P(Replicas, TrainAsOneRankDoes) {
    const Case& c = GetParam();
    const Trained alone = train_alone(c.graph(), c.options_alone(), c.parameters(),
                                      static_cast<std::size_t>(c.world) * c.micro_steps, steps);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : alone.gradients) names.push_back(name);
    ASSERT_FALSE(names.empty());
    expect_same_training(train_ranks(c.graph(), c.options(), c.parameters(), names, c.micro_steps, steps), alone);
}

INSTANTIATE_TEST_SUITE_P(All, Replicas, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

// Other orders of streams and ranks, to the last bit.
TEST(ReplicasInAnyOrder, GiveTheSameBits) {
    const Case c = {"llama5", 3, 2};
    const std::vector<std::string> names = {"model.layers.4.mlp.up_proj.weight", "model.embed_tokens.weight",
                                            "lm_head.weight"};
    const Trained listed = train_ranks(c.graph(), c.options(), c.parameters(), names, c.micro_steps, 1);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Trained drawn = train_ranks(c.graph(), c.options(), c.parameters(), names, c.micro_steps, 1, seed);
        for (std::size_t s = 0; s < listed.steps.size(); ++s) {
            EXPECT_EQ(drawn.steps[s].loss, listed.steps[s].loss);
            EXPECT_EQ(drawn.steps[s].grad_norm, listed.steps[s].grad_norm);
        }
        for (const std::string& name : names) {
            EXPECT_EQ(drawn.gradients.at(name).f, listed.gradients.at(name).f) << name;
            EXPECT_EQ(drawn.parameters.at(name).f, listed.parameters.at(name).f) << name;
        }
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

}  // namespace
}  // namespace thunderc
