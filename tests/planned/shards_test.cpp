// SPDX-License-Identifier: Apache-2.0
// Models that are cut over ranks (FSDP), and copies of such (HSDP), on all ranks in this process, against one rank that
// sees the same micro-batches one behind the other.
#include <algorithm>
#include <tuple>

#include "compiler/check/check_plan.h"
#include "compiler/ir/structure.h"
#include "tests/planned/ranks.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace shards_test {

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

// What ranks_matrix_test.cpp has not: six ranks, layers that are not rolled, products of bf16.
std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const char* model : {"mlp", "llama5", "llama2_tied"})
        for (Mesh mesh : {Mesh{2, 3}, Mesh{3, 2}}) out.push_back({model, mesh, "forward", 3});
    for (const char* reshard : {"never", "always"}) out.push_back({"llama5", {2, 2}, reshard, 3});
    out.push_back({"llama5", {1, 3}, "forward", 3, "none", false});
    out.push_back({"llama5", {2, 2}, "always", 3, "selective", false});
    out.push_back({"llama5", {1, 2}, "never", 2, "none", false});
    out.push_back({"llama2_tied", {1, 2}, "forward", 2, "none", false});
    out.push_back({"llama5", {1, 2}, "forward", 2, "none", false, "bf16"});
    for (const char* model : {"mlp", "llama5", "llama2_tied"})
        out.push_back({model, {1, 3}, "forward", 3, "none", true, "bf16"});
    // Under sanitizers each model, mesh and type.
    return all_or_covering(out, [](const Case& c) {
        const std::string mesh = std::to_string(c.mesh.replicas) + "x" + std::to_string(c.mesh.shards);
        return Facets{c.model, mesh, c.reshard, c.roll ? "rolled" : "unrolled", c.dtype};
    });
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
    const std::vector<std::string> names = names_of(alone.gradients);
    ASSERT_FALSE(names.empty());
    expect_same_training(
        train_ranks(PlannedRanks(compiled(c.graph(), c.options())), c.parameters(), names, c.micro_steps, steps_of(c)),
        alone);
}

INSTANTIATE_TEST_SUITE_P(All, Shards, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

// Loops over time steps, whose pieces are parts of one tensor, among copies and shards, and in bf16.
TEST(TimeSteps, TrainOnRanksAsOnOne) {
    for (const auto& [model, mesh, dtype] :
         {std::tuple("gru", Mesh{1, 2}, "auto"), std::tuple("lstm_masked", Mesh{1, 2}, "bf16"),
          std::tuple("gru", Mesh{2, 1}, "bf16")}) {
        SCOPED_TRACE(std::string(model) + " " + dtype);
        const std::string folder = std::string("models/") + model;
        const std::string graph = folder + "/noopt.logits.onnx", parameters = folder + "/params.safetensors";
        CompileOptions options;
        options.dtype = dtype;
        const Trained alone = train_alone(graph, options, parameters, 4, 1);
        options.mesh = mesh;
        const Module ranks = compiled(graph, options);
        EXPECT_TRUE(std::any_of(ranks.functions[0].ops.begin(), ranks.functions[0].ops.end(), is_unstack));
        EXPECT_EQ(plan_violations(ranks), std::vector<std::string>());
        expect_same_training(train_ranks(PlannedRanks(ranks), parameters, names_of(alone.gradients), 2, 1), alone);
    }
}

// Layers that no loop has are let go as well: the same bits as where all stays for the step, in less memory.
TEST(ShardsInTurns, AreTheBitsOfThoseThatStay) {
    for (const char* reshard : {"forward", "always"}) {
        const Case turns{"llama5", {1, 2}, reshard, 2, "none", false},
            stay{"llama5", {1, 2}, "never", 2, "none", false};
        const Module a = compiled(turns.graph(), turns.options()), b = compiled(stay.graph(), stay.options());
        EXPECT_EQ(plan_violations(a), std::vector<std::string>());
        EXPECT_LT(a.arena_bytes.at("gathered"), b.arena_bytes.at("gathered") / 2);
        const std::vector<std::string> names = trained_names(compiled(turns.graph(), turns.options_alone()));
        const Trained x = train_ranks(PlannedRanks(a), turns.parameters(), names, 2, 2);
        const Trained y = train_ranks(PlannedRanks(b), stay.parameters(), names, 2, 2);
        for (const std::string& name : names) {
            EXPECT_EQ(x.gradients.at(name).f, y.gradients.at(name).f) << name;
            EXPECT_EQ(x.parameters.at(name).f, y.parameters.at(name).f) << name;
        }
    }
}

// Gradients whose squares f32 has not, but f64: too large for it, and too small. The norm of n equal numbers is theirs
// times the root of n, and is one rounding to f32 away from it, as the gradients themselves are.
TEST(ShardsNorm, HasSquaresThatF32HasNot) {
    const Case c{"mlp", {2, 2}};
    PlannedRanks ranks(compiled(c.graph(), c.options()));
    PlannedProgram alone(compiled(c.graph(), c.options_alone()));
    const std::vector<std::string> names = trained_names(alone.module());
    for (const double gradient : {1e25, 1e-30, 3.0}) {
        std::int64_t elements = 0;
        clear_states(ranks);
        for (const std::string& name : names) {
            Tensor t(alone.type("grad." + name));
            for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, gradient);
            elements += t.size();
            ranks.set("grad." + name, t);
        }
        for (std::size_t r = 0; r < ranks.size(); ++r) set_step_scalars(ranks.rank(r), ranks_optimizer, 0);
        ranks.run("update");
        const double norm = gradient * std::sqrt(static_cast<double>(elements));
        for (std::size_t r = 0; r < ranks.size(); ++r)
            EXPECT_NEAR(ranks.rank(r).scalar("grad_norm"), norm, 2 * 0x1p-24 * norm) << gradient;
    }
}

// By their own names, which a module of units does not have among its arguments.
std::vector<std::string> parameters_of(const Case& c) {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : read_safetensors(fixture(c.parameters()))) out.push_back(name);
    return out;
}

TEST(ShardsInAnyOrder, GiveTheSameBits) {
    for (const Case& c :
         {Case{"llama5", {1, 3}, "forward", 2}, Case{"llama5", {2, 2}, "always", 2},
          Case{"llama5", {1, 2}, "forward", 2, "none", false}, Case{"llama2_tied", {1, 2}, "never", 2, "selective"}}) {
        SCOPED_TRACE(c.name());
        const std::vector<std::string> names = parameters_of(c);
        expect_same_bits_in_any_order(PlannedRanks(compiled(c.graph(), c.options())), c.parameters(), names,
                                      c.micro_steps, 2);
    }
}

}  // namespace shards_test
}  // namespace thunderc
