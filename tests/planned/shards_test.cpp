// Models that are cut over ranks (FSDP), and copies of such (HSDP), on all ranks in this process, against one rank that
// sees the same micro-batches one behind the other.
#include "compiler/analysis/check_plan.h"
#include "tests/planned/ranks.h"

namespace thunderc {
namespace {

struct Case {
    std::string model;
    Mesh mesh;
    std::string reshard = "forward";
    std::size_t micro_steps = 1;
    std::string recompute = "none";
    bool roll = true;
    std::string dtype = "auto", master = "f32";

    std::string name() const {
        return model + "_" + std::to_string(mesh.replicas) + "x" + std::to_string(mesh.shards) + "_" + reshard +
               "_accum" + std::to_string(micro_steps) + "_" + recompute + (roll ? "" : "_unrolled") +
               (dtype == "auto" ? "" : "_" + dtype + "_" + master);
    }
    std::string graph() const { return model + "/dynamo.logits.onnx"; }
    std::string parameters() const { return model + "/params.safetensors"; }
    CompileOptions options() const {
        CompileOptions o;
        o.recompute = recompute;
        o.roll = roll;
        o.mesh = mesh;
        o.reshard = reshard;
        o.dtype = dtype;
        o.master = master;
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

// Worlds of 3 divide no parameter of these models.
std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const char* model : {"mlp", "llama5", "llama2_tied"})
        for (std::int64_t world : {2, 3, 4, 8})
            for (std::size_t micro_steps : {1, 3}) out.push_back({model, {1, world}, "forward", micro_steps});
    for (const char* reshard : {"never", "always"})
        for (std::int64_t world : {2, 3})
            for (std::size_t micro_steps : {1, 3}) out.push_back({"llama5", {1, world}, reshard, micro_steps});
    for (const char* reshard : {"never", "always"}) out.push_back({"llama2_tied", {1, 2}, reshard, 3});
    for (const char* model : {"mlp", "llama5", "llama2_tied"})
        for (Mesh mesh : {Mesh{2, 2}, Mesh{2, 3}, Mesh{3, 2}}) out.push_back({model, mesh, "forward", 3});
    for (const char* recompute : {"selective", "block"}) out.push_back({"llama5", {1, 2}, "forward", 3, recompute});
    out.push_back({"llama5", {1, 3}, "forward", 3, "none", false});
    for (const char* model : {"mlp", "llama5", "llama2_tied"})
        out.push_back({model, {1, 3}, "forward", 3, "none", true, "bf16"});
    return out;
}

// Parameters that differ in the last bit of f32 may round to other bits of bf16: then one step is compared.
int steps_of(const Case& c) {
    return c.dtype == "auto" ? 2 : 1;
}

class Shards : public ::testing::TestWithParam<Case> {};

TEST_P(Shards, TrainAsOneRankDoes) {
    const Case& c = GetParam();
    const Trained alone = train_alone(c.graph(), c.options_alone(), c.parameters(),
                                      static_cast<std::size_t>(c.mesh.world()) * c.micro_steps, steps_of(c));
    std::vector<std::string> names;
    for (const auto& [name, tensor] : alone.gradients) names.push_back(name);
    ASSERT_FALSE(names.empty());
    expect_same_training(train_ranks(c.graph(), c.options(), c.parameters(), names, c.micro_steps, steps_of(c)), alone);
}

INSTANTIATE_TEST_SUITE_P(All, Shards, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

// Other orders of streams and ranks, to the last bit.
TEST(ShardsInAnyOrder, GiveTheSameBits) {
    for (const Case& c : {Case{"llama5", {1, 3}, "forward", 2}, Case{"llama5", {2, 2}, "always", 2}}) {
        const std::vector<std::string> names = {"model.layers.4.mlp.up_proj.weight", "model.embed_tokens.weight",
                                                "model.layers.0.input_layernorm.weight"};
        const Trained listed = train_ranks(c.graph(), c.options(), c.parameters(), names, c.micro_steps, 1);
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            const Trained drawn = train_ranks(c.graph(), c.options(), c.parameters(), names, c.micro_steps, 1, seed);
            EXPECT_EQ(drawn.steps[0].loss, listed.steps[0].loss);
            EXPECT_EQ(drawn.steps[0].grad_norm, listed.steps[0].grad_norm);
            for (const std::string& name : names) {
                EXPECT_EQ(drawn.gradients.at(name).f, listed.gradients.at(name).f) << name;
                EXPECT_EQ(drawn.parameters.at(name).f, listed.parameters.at(name).f) << name;
            }
        }
    }
}

}  // namespace
}  // namespace thunderc
