// SPDX-License-Identifier: Apache-2.0
// Models of which a part is frozen, on one rank and on several, in f32 and in bf16: what is trained is trained as on
// one rank, what is frozen stays, and gradients and optimizer states are as large as what trains.
#include <regex>

#include "compiler/planned/parameter_arenas.h"
#include "tests/planned/ranks.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace frozen_ranks_test {

struct Part {
    std::string name, model, graph, freeze, train_only;
};

// The table of what may be frozen.
const std::vector<Part>& parts() {
    static const std::vector<Part> all = {
        {"nothing", "llama5", "dynamo.logits", "", ""},
        {"some_layers", "llama5", "dynamo.logits", "layers\\.[01]\\.", ""},
        {"all_but_one", "llama5", "dynamo.logits", "", "layers\\.1\\.mlp\\.down_proj"},
        {"all_but_one_kind", "llama5", "dynamo.logits", "", "o_proj"},
        {"all_matrices", "llama5", "dynamo.logits", "", "norm"},
        {"all_but_the_adapters", "lora", "dyn.logits", "", "lora_"},
        {"embedding_and_tied_head", "llama2_tied", "dynamo.logits", "embed_tokens", ""},
        {"all_but_embedding_and_tied_head", "llama2_tied", "dynamo.logits", "", "lm_head"},
        {"a_bias_of_many", "mlp", "dynamo.logits", "net\\.2\\.bias", ""},
    };
    return all;
}

struct Case {
    Part part;
    Mesh mesh;
    std::string dtype, reshard = "forward";

    std::string name() const {
        const std::string how = !mesh.communicates() ? "alone"
                                : !mesh.has_shards() ? "dp"
                                : mesh.has_copies()  ? "hsdp"
                                                     : "fsdp";
        return part.name + "_" + how + (reshard == "forward" ? "" : "_" + reshard) + "_" + dtype;
    }
    std::string graph() const { return part.model + "/" + part.graph + ".onnx"; }
    std::string parameters() const { return part.model + "/params.safetensors"; }
    CompileOptions options(const Mesh& ranks) const {
        CompileOptions o;
        o.freeze = part.freeze;
        o.train_only = part.train_only;
        o.dtype = dtype;
        o.mesh = ranks;
        o.reshard = reshard;
        if (part.graph.starts_with("dyn.")) {
            o.batch = 2;
            o.seq = 8;
        }
        return o;
    }
    bool trains(const std::string& name) const {
        const auto matches = [&](const std::string& pattern) {
            // The name that a tied one has in the fixture is the embedding's.
            return std::regex_search(name, std::regex(pattern)) ||
                   (part.model == "llama2_tied" && name == "model.embed_tokens.weight" && pattern == "lm_head");
        };
        if (!part.freeze.empty()) return !matches(part.freeze);
        return part.train_only.empty() || matches(part.train_only);
    }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const Part& part : parts())
        for (const char* dtype : {"f32", "bf16"}) {
            for (const Mesh mesh : {Mesh{1, 1}, Mesh{2, 1}, Mesh{1, 2}, Mesh{2, 2}}) out.push_back({part, mesh, dtype});
            for (const char* reshard : {"never", "always"})
                if (part.name == "all_but_the_adapters") out.push_back({part, {1, 3}, dtype, reshard});
        }
    // At least each part, and each kind of ranks in each type.
    return all_or_covering(out, [](const Case& c) {
        const std::string mesh = std::to_string(c.mesh.replicas) + "x" + std::to_string(c.mesh.shards);
        return Facets{c.part.name, mesh + " " + c.reshard + " " + c.dtype};
    });
}

struct Counts {
    std::int64_t trained = 0, trained_tensors = 0;
};

class FrozenOnRanks : public ::testing::TestWithParam<Case> {};

// Padding of the memory of a rank: of each tensor to 32 elements, of each unit to 32 for each shard.
void expect_as_large_as_what_trains(const Module& module, const Counts& counts) {
    const std::int64_t shards = module.mesh.shards;
    const auto arena = [&](const char* name) { return module.arena_bytes.at(name); };
    const std::int64_t elements = arena("gradients") / 4;
    EXPECT_GE(elements * shards, counts.trained);
    EXPECT_LE(elements * shards, counts.trained + counts.trained_tensors * 32 * (shards + 1));
    EXPECT_EQ(arena("optimizer"), 2 * arena("gradients"));
    const ParameterArenas arenas(module);
    EXPECT_EQ(arenas.trained(), elements);
    if (module.arena_bytes.contains("narrow_copies")) {
        EXPECT_EQ(arena("narrow_copies"), elements * 2);
    }
}

TEST_P(FrozenOnRanks, TrainTheRestAsOneRankDoes) {
    const Case& c = GetParam();
    const std::size_t micro_steps = 2;
    // Parameters that differ in the last bit of f32 may round to other bits of bf16: then one step is compared.
    const int steps = c.dtype == "f32" ? 3 : 1;
    const auto stored = read_safetensors(fixture(c.parameters()));
    std::vector<std::string> trained, still;
    Counts counts;
    for (const auto& [name, tensor] : stored) {
        if (!c.trains(name)) {
            still.push_back(name);
            continue;
        }
        trained.push_back(name);
        counts.trained += tensor.size();
        ++counts.trained_tensors;
    }
    ASSERT_FALSE(trained.empty());
    ASSERT_EQ(still.empty(), c.part.name == "nothing");

    const auto batches = [&](const Module& module, std::size_t world, std::uint64_t s) {
        return rank_batches(module, world, micro_steps * static_cast<std::size_t>(c.mesh.world()) / world, s);
    };
    PlannedProgram one(compiled(c.graph(), c.options({})));
    expect_as_large_as_what_trains(one.module(), counts);
    for (const std::string& name : still) EXPECT_FALSE(one.has("grad." + name)) << name;
    const auto expect_still = [&](const auto& program) {
        for (const std::string& name : still) {
            Tensor before = stored.at(name);
            const Tensor after = program.get(name);
            before.type.dtype = after.type.dtype;  // bf16 where products alone read it
            round_to_dtype(before);
            EXPECT_EQ(after.f, before.f) << name;
        }
    };
    if (!c.mesh.communicates()) {
        // Beside the same steps as values in fp64, or in f32 and bf16 op by op, neither rolled nor planned.
        CompileOptions plain = c.options({});
        const bool exact = c.dtype == "f32";
        plain.roll = !exact;
        ValuesProgram values(compiled(c.graph(), plain, exact ? "compose_step" : "fuse"),
                             {.round_to_dtype = !exact, .observe = {}});
        for (const auto& [name, tensor] : stored) {
            one.set(name, tensor);
            values.set(name, tensor);
            for (const std::string& of : {name, std::string("narrow_copy.") + name}) {
                if (exact || !values.has(of)) continue;
                Tensor as_stored = tensor;
                as_stored.type = values.values().at(of).type;
                round_to_dtype(as_stored);
                values.set(of, as_stored);
            }
        }
        clear_states(one);
        make_narrow_copies(one);
        for (int s = 0; s < steps; ++s) {
            std::vector<MicroBatch> rows;
            for (std::vector<MicroBatch>& micro_step : batches(one.module(), 1, static_cast<std::uint64_t>(s)))
                rows.push_back(std::move(micro_step.front()));
            const PlannedStep a = planned_step(one, rows, ranks_optimizer, s);
            const PlannedStep b = values.step(rows, ranks_optimizer, s);
            // As in run_planned_test.cpp and bf16_test.cpp: f32 after every op, or bf16 rounded to the other neighbour.
            EXPECT_NEAR(a.loss, b.loss, exact ? 8e-6 : 0x1p-8 * b.loss);
            EXPECT_NEAR(a.grad_norm, b.grad_norm, exact ? 2e-5 : 0x1p-8 * b.grad_norm);
        }
        for (const std::string& name : trained) {
            const Tensor& expected = values.values().at(name);
            EXPECT_LE(largest_difference(one.get(name), expected), exact ? 2e-5 : 0x1p-8 * largest(expected)) << name;
            EXPECT_GT(largest_difference(one.get(name), stored.at(name)), 0) << name << " is not trained";
        }
        expect_still(one);
        return;
    }
    const Trained alone = train(one, c.parameters(), trained, steps, [&](std::uint64_t s) {
        std::vector<MicroBatch> rows;
        for (std::vector<MicroBatch>& micro_step : batches(one.module(), 1, s))
            rows.push_back(std::move(micro_step.front()));
        return planned_step(one, rows, ranks_optimizer, static_cast<std::int64_t>(s));
    });
    PlannedRanks ranks(compiled(c.graph(), c.options(c.mesh)));
    expect_as_large_as_what_trains(ranks.module(), counts);
    for (const std::string& name : still) EXPECT_FALSE(ranks.has("grad." + name)) << name;
    // What is frozen has gradients on no stream: no reduce-scatter, no bucket.
    for (const ShardUnit& unit : ranks.module().units) {
        bool reduced = false;
        for (const Function& f : ranks.module().functions)
            for (const Op& op : f.ops)
                reduced = reduced || (op.name == "reduce_scatter" && op.attributes.string("unit") == unit.name);
        for (const ShardUnit::Tensor& t : unit.tensors)
            for (const std::string& name : t.info.names) EXPECT_EQ(reduced, c.trains(name)) << name;
    }
    expect_same_training(train(ranks, c.parameters(), trained, steps,
                               [&](std::uint64_t s) {
                                   return planned_step(ranks, batches(ranks.module(), ranks.size(), s), ranks_optimizer,
                                                       static_cast<std::int64_t>(s));
                               }),
                         alone);
    expect_still(ranks);
}

INSTANTIATE_TEST_SUITE_P(All, FrozenOnRanks, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

TEST(FrozenOnRanks, GiveTheSameBitsInAnyOrder) {
    for (const char* dtype : {"f32", "bf16"})
        for (const Mesh mesh : {Mesh{1, 2}, Mesh{2, 2}}) {
            Case c{parts()[5], mesh, dtype};
            ASSERT_EQ(c.part.model, "lora");
            SCOPED_TRACE(c.name());
            std::vector<std::string> trained;
            for (const auto& [name, tensor] : read_safetensors(fixture(c.parameters())))
                if (c.trains(name)) trained.push_back(name);
            expect_same_bits_in_any_order(PlannedRanks(compiled(c.graph(), c.options(mesh))), c.parameters(), trained,
                                          2, 1);
        }
}

}  // namespace frozen_ranks_test
}  // namespace thunderc
