// SPDX-License-Identifier: Apache-2.0
// Every way to share a model among ranks, each against one rank: the same 24 rows a step, on one rank in one
// micro-batch, on W ranks in W * A micro-batches. Ten steps: loss, norm, gradients, parameters.
//
// No tensor of the models divides by 3, 4 or 8, rows have different counts of valid tokens, some have none; where 24
// rows are not enough for all micro-batches to have as many, the last ones are rows without a valid token.
//
// Outside of the long form it is a selection of the matrix, in which each value of each
// axis meets each value of every other axis, and under sanitizers two steps; THUNDER_MATRIX=whole runs everything.
#include <cstdlib>

#include "tests/planned/ranks.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace ranks_matrix_test {

constexpr std::int64_t rows = 24;

bool whole() {
    const char* wanted = std::getenv("THUNDER_MATRIX");
    return full_form || (wanted != nullptr && std::string(wanted) == "whole");
}

const int steps = short_form ? 2 : 10;

// `eps` is larger than AdamW's own: where a gradient is 0 but for rounding (the keys' biases), AdamW would divide what
// rounding left by itself, and a parameter's way would be a coin's.
const PlannedOptimizer optimizer = {.learning_rate = 1e-3,
                                    .weight_decay = 0.1,
                                    .options = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-4}},
                                    .max_grad_norm = 0.5,
                                    .decay_all = false};

struct Case {
    std::string model;
    Mesh mesh;
    std::string reshard = "forward";  // of sharded ones
    std::int64_t micro_steps = 1;
    std::string recompute = "none";

    std::string sharding() const {
        if (!mesh.communicates()) return "alone";
        if (!mesh.has_shards()) return "dp";
        return mesh.has_copies() ? "hsdp" : "fsdp_" + reshard;
    }
    std::string name() const {
        return model + "_" + sharding() + "_" + std::to_string(mesh.replicas) + "x" + std::to_string(mesh.shards) +
               "_accum" + std::to_string(micro_steps) + "_" + recompute;
    }
    std::vector<std::string> axes() const {
        return {model, sharding(), std::to_string(mesh.world()), "accum" + std::to_string(micro_steps), recompute};
    }
    std::int64_t micro_batches() const { return mesh.world() * micro_steps; }
    std::int64_t batch() const { return (rows + micro_batches() - 1) / micro_batches(); }
    CompileOptions options() const {
        CompileOptions o;
        o.batch = batch();
        o.recompute = recompute;
        // With one of the policies the loss comes in chunks of rows: a head's gradient is there before all others.
        if (recompute == "selective") o.logits_chunk = "4";
        o.mesh = mesh;
        o.reshard = reshard;
        o.bucket_bytes = model == "mlp" ? 600 : 12000;  // several buckets, layers two and two
        return o;
    }
    std::string folder() const { return "ranks_" + model; }
};

std::vector<Case> whole_matrix() {
    std::vector<Case> out;
    for (const char* model : {"llama", "gpt2", "mlp"})
        for (std::int64_t micro_steps : {1, 3})
            for (const char* recompute : {"none", "selective", "block"}) {
                auto add = [&](Mesh mesh, const char* reshard) {
                    out.push_back({model, mesh, reshard, micro_steps, recompute});
                };
                add({1, 1}, "forward");
                // One rank that does with itself what several do: --dp 1, --fsdp 1, --hsdp 1x1.
                for (const Mesh::Alone alone : {Mesh::Alone::copies, Mesh::Alone::shards, Mesh::Alone::both})
                    add({1, 1, alone}, "forward");
                for (std::int64_t world : {2, 3, 4, 8}) {
                    add({world, 1}, "forward");
                    for (const char* reshard : {"never", "forward", "always"}) add({1, world}, reshard);
                }
                for (Mesh mesh : {Mesh{2, 2}, Mesh{2, 4}, Mesh{4, 2}}) add(mesh, "forward");
            }
    return out;
}

// Pairs of values of two axes.
Facets pairs_of(const Case& c) {
    Facets out;
    const std::vector<std::string> axes = c.axes();
    for (std::size_t a = 0; a < axes.size(); ++a)
        for (std::size_t b = a + 1; b < axes.size(); ++b) out.insert(axes[a] + " " + axes[b]);
    return out;
}

// Rows `begin` to `begin + count` of a step's rows. Of row r in step s, (3 r + s) % 6 tokens of five have a label, and
// a row of numbers has one or none; rows from 24 on have none.
MicroBatch rows_of(const Module& module, std::uint64_t step, std::int64_t begin, std::int64_t count) {
    MicroBatch out;
    const Function& main = module.main();
    for (std::size_t a = 0; a < main.arguments.size(); ++a) {
        const ArgInfo& info = main.argument_info[a];
        if (info.kind != ArgInfo::Kind::input) continue;
        Tensor t(main.type(main.arguments[a]).member());
        const std::int64_t width = t.size() / count;
        const bool labels = info.ignore_index < 0;
        for (std::int64_t r = begin; r < begin + count; ++r) {
            std::mt19937_64 random(step * 1000 + static_cast<std::uint64_t>(r) * 2 + (labels ? 1 : 0));
            for (std::int64_t k = 0; k < width; ++k) {
                const double u = static_cast<double>(random() >> 11) * 0x1p-53;
                const bool valid = r < rows && k < (3 * r + static_cast<std::int64_t>(step)) % (width + 1);
                t.set((r - begin) * width + k, t.floating()       ? 2 * u - 1
                                               : labels && !valid ? static_cast<double>(info.ignore_index)
                                                                  : std::floor(u * static_cast<double>(info.entries)));
            }
        }
        out[info.names.front()] = std::move(t);
    }
    return out;
}

Trained alone(const Case& c) {
    CompileOptions options;
    options.batch = rows;
    PlannedProgram program(compiled(c.folder() + "/dyn.logits.onnx", options));
    return train(program, c.folder() + "/params.safetensors", trained_names(program.module()), steps,
                 [&](std::uint64_t s) {
                     return planned_step(program, {rows_of(program.module(), s, 0, rows)}, optimizer,
                                         static_cast<std::int64_t>(s));
                 });
}

Trained together(const Case& c, const std::vector<std::string>& names) {
    PlannedRanks ranks(compiled(c.folder() + "/dyn.logits.onnx", c.options()));
    return train(ranks, c.folder() + "/params.safetensors", names, steps, [&](std::uint64_t s) {
        RankBatches batches(static_cast<std::size_t>(c.micro_steps));
        std::int64_t row = 0;
        for (std::vector<MicroBatch>& micro_step : batches)
            for (std::size_t r = 0; r < ranks.size(); ++r, row += c.batch())
                micro_step.push_back(rows_of(ranks.module(), s, row, c.batch()));
        return planned_step(ranks, batches, optimizer, static_cast<std::int64_t>(s));
    });
}

// Both add the same terms in other orders, and round to f32 in between: a sum over 24 rows of five tokens, layer by
// layer in the backward pass. Sixteen roundings of 2^-24, all in one direction, are 1e-6 of what is added.
constexpr double rounding = 1e-6;

void expect_same(const Trained& ranks, const Trained& expected) {
    ASSERT_EQ(ranks.steps.size(), static_cast<std::size_t>(steps));
    for (std::size_t s = 0; s < expected.steps.size(); ++s) {
        const PlannedStep &a = ranks.steps[s], &b = expected.steps[s];
        EXPECT_EQ(a.loss_weight, b.loss_weight) << "step " << s;
        EXPECT_NEAR(a.loss, b.loss, rounding * b.loss) << "step " << s;
        EXPECT_NEAR(a.grad_norm, b.grad_norm, rounding * b.grad_norm) << "step " << s;
    }
    // A gradient of which all terms cancel (the keys' biases) has the rounding of these terms, not its own.
    double most = 0;
    for (const auto* gradients : {&expected.gradients, &expected.last_gradients})
        for (const auto& [name, tensor] : *gradients) most = std::max(most, largest(tensor));
    auto near = [&](const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b, const char* when) {
        for (const auto& [name, tensor] : b)
            EXPECT_LE(largest_difference(a.at(name), tensor), rounding * largest(tensor) + rounding / 10 * most)
                << name << " " << when;
    };
    near(ranks.gradients, expected.gradients, "in the first step");
    near(ranks.last_gradients, expected.last_gradients, "in the last step");
    // AdamW moves a parameter by lr * m / (sqrt(v) + eps): what m is wrong by moves it by 1 / eps of that at most, and
    // storing it is wrong by half a unit in the last place of numbers below 2.
    const double way = optimizer.learning_rate * rounding * most / optimizer.options.at("eps") + 0x1p-24;
    for (const auto& [name, tensor] : expected.parameters)
        EXPECT_LE(largest_difference(ranks.parameters.at(name), tensor), steps * way) << name;
}

// A part of the matrix: all that has one model and one number of micro-steps, which share what one rank gets.
using Part = std::pair<std::string, std::int64_t>;

class RanksMatrix : public ::testing::TestWithParam<Part> {};

TEST_P(RanksMatrix, TrainsAsOneRankDoes) {
    std::optional<Trained> expected;
    for (const Case& c : whole() ? whole_matrix() : covering(whole_matrix(), pairs_of)) {
        if (Part(c.model, c.micro_steps) != GetParam()) continue;
        SCOPED_TRACE(c.name());
        if (!expected) expected = alone(c);
        ASSERT_FALSE(expected->parameters.empty());
        expect_same(together(c, names_of(expected->parameters)), *expected);
    }
    EXPECT_TRUE(expected.has_value());
}

INSTANTIATE_TEST_SUITE_P(All, RanksMatrix,
                         ::testing::ValuesIn(std::vector<Part>{
                             {"llama", 1}, {"llama", 3}, {"gpt2", 1}, {"gpt2", 3}, {"mlp", 1}, {"mlp", 3}}),
                         [](const auto& info) {
                             return info.param.first + "_accum" + std::to_string(info.param.second);
                         });

TEST(RanksMatrixSelection, HasEachPairOfValues) {
    const std::vector<Case> all = whole_matrix(), some = covering(all, pairs_of);
    EXPECT_EQ(all.size(), 414U);
    EXPECT_EQ(facets_of_all(some, pairs_of), facets_of_all(all, pairs_of));
    EXPECT_LT(some.size(), all.size() / 8);
}

}  // namespace ranks_matrix_test
}  // namespace thunderc
