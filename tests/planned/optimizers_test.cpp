// SPDX-License-Identifier: Apache-2.0
// Every optimizer, planned: against the same step as values in fp64, and shared among ranks against one rank; with
// states that are numbers, and with codes of 8 bits, where a rule has states that may be.
#include "compiler/ops/state_codes.h"
#include "runtime-lib/optim/state_layout.h"
#include "tests/planned/ranks.h"

namespace thunderc {
namespace optimizers_test {

constexpr int steps = 10;
constexpr std::size_t micro_batches = 4;
const std::string model = "ranks_mlp/dyn.logits.onnx", parameters = "ranks_mlp/params.safetensors";

// Where a rule divides by a root, `eps` is larger than usual: what rounding leaves of a gradient that is 0 would else
// be divided by itself.
constexpr double eps = 1e-4;

PlannedOptimizer optimizer_of(const thunder::RuleInfo& rule) {
    PlannedOptimizer out = {.max_grad_norm = 0.5};
    for (const auto& option : rule.options)
        if (option.name == "eps") out.options["eps"] = eps;
    return out;
}

std::vector<MicroBatch> step_batches(const Module& module, std::uint64_t step) {
    std::vector<MicroBatch> out;
    for (std::vector<MicroBatch>& one : rank_batches(module, 1, micro_batches, step))
        out.push_back(std::move(one.front()));
    return out;
}

struct Case {
    std::string rule;
    bool coded;
    std::string name() const { return rule + (coded ? "_8bit" : ""); }
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

class EveryOptimizer : public ::testing::TestWithParam<Case> {
  protected:
    CompileOptions options(Mesh mesh = {}) const {
        CompileOptions o;
        o.optimizer = GetParam().rule;
        if (GetParam().coded) o.optim_dtype = eight_bits;
        o.batch = 6;
        o.mesh = mesh;
        o.bucket_bytes = 600;  // several of them
        return o;
    }
    const thunder::RuleInfo& rule = *thunder::find_rule(GetParam().rule);
    const PlannedOptimizer optimizer = optimizer_of(rule);
};

// Sums of up to 24 rows, rounded to f32 in between: some roundings of 2^-24 of what is added, of which the gradients'
// norm, clipped to 0.5, is the size. A rule moves a parameter by the learning rate times what its gradient is wrong by
// over eps at most, or times what the steps' gradients together are wrong by; and storing the parameter, of less than
// 2, rounds it.
constexpr double gradient_rounding = 1e-6 * 0.5;
double way(const PlannedOptimizer& o) {
    const double most = o.options.contains("eps") ? 1 / eps : steps;
    return steps * (o.learning_rate * gradient_rounding * most + 0x1p-24);
}

TEST_P(EveryOptimizer, IsTheStepInDouble) {
    PlannedProgram program(compiled(model, options()));
    ValuesProgram exact(compiled(model, options(), "compose_step"));
    for (const auto& [name, tensor] : read_safetensors(fixture(parameters))) {
        program.set(name, tensor);
        exact.set(name, tensor);
    }
    clear_states(program);
    const std::vector<std::string> names = trained_names(program.module());
    std::map<std::string, Tensor> start;
    for (const std::string& name : names) start[name] = program.get(name);
    for (int s = 0; s < steps; ++s) {
        const std::vector<MicroBatch> batches = step_batches(program.module(), static_cast<std::uint64_t>(s));
        planned_step(program, batches, optimizer, s);
        exact.step(batches, optimizer, s);
    }
    std::size_t states = 0;
    std::int64_t elements = 0;
    for (const std::string& name : names) {
        EXPECT_LE(largest_difference(program.get(name), exact.values().at(name)), way(optimizer)) << name;
        EXPECT_GT(largest_difference(program.get(name), start[name]), 10 * way(optimizer)) << name << " stands still";
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            const std::string& state = rule.states[k];
            const Tensor& expected = exact.values().at(state + "." + name);
            if (expected.type.dtype == DType::u8) {
                const std::string scales = thunder::scales_of(state) + "." + name;
                const Tensor& of_blocks = exact.values().at(scales);
                EXPECT_EQ(of_blocks.size(), (expected.size() + 255) / 256);
                // What is rounded in f32 goes to another code only where it was as near to both.
                const auto a = coding::decoded(program.get(state + "." + name), program.get(scales), rule.signs[k]),
                           b = coding::decoded(expected, of_blocks, rule.signs[k]);
                for (std::size_t i = 0; i < a.size(); ++i)
                    EXPECT_NEAR(a[i], b[i], steps * gradient_rounding) << state << " of " << name << " at " << i;
                EXPECT_GT(largest(of_blocks), 0) << state << " of " << name;
                elements += (expected.size() + 3) / 4 + of_blocks.size();
                states += 2;
                continue;
            }
            // Sums of ten gradients, or of their squares.
            EXPECT_LE(largest_difference(program.get(state + "." + name), expected), steps * gradient_rounding)
                << state << " of " << name;
            // A matrix that is stepped as a whole has other states than what is stepped by elements.
            EXPECT_TRUE(expected.size() == 0 || largest(expected) > 0) << state << " of " << name;
            elements += expected.size();
            ++states;
        }
    }
    EXPECT_GE(states, names.size() * rule.states.size());
    EXPECT_EQ(states > names.size() * rule.states.size(), GetParam().coded);
    EXPECT_FALSE(names.empty());
    // The arena has them, and what aligns them.
    const std::int64_t in_arena = program.module().arena_bytes.at("optimizer") / 4;
    EXPECT_LE(elements, in_arena);
    EXPECT_LT(in_arena, elements + 32 * static_cast<std::int64_t>(states + 1));
}

// Of tensors that begin anywhere, since products take what lies before them as one with them, and of all types.
TEST_P(EveryOptimizer, IsPlannedForTensorsThatBeginAnywhere) {
    for (const char* graph : {"losses/means_of_two_kinds.onnx", "ranks_llama/dyn.logits.onnx"}) {
        CompileOptions o = options();
        o.batch = 2;
        EXPECT_NO_THROW(compiled(graph, o)) << graph;
        for (const DType dtype : narrow_dtypes()) {
            o.dtype = name_of(dtype);
            for (const char* master : {"f32", "none"})
                for (const std::string& states : {std::string("f32"), o.dtype, std::string("8bit")}) {
                    o.master = master;
                    o.optim_dtype = states;
                    EXPECT_NO_THROW(compiled(graph, o)) << graph << " in " << o.dtype << ", states " << states;
                }
        }
    }
}

TEST_P(EveryOptimizer, StepsShardsAsItStepsTheWhole) {
    PlannedProgram program(compiled(model, options()));
    const Trained alone = train(program, parameters, trained_names(program.module()), steps, [&](std::uint64_t s) {
        return planned_step(program, step_batches(program.module(), s), optimizer, static_cast<std::int64_t>(s));
    });
    for (const Mesh mesh : {Mesh{4, 1}, Mesh{1, 4}, Mesh{2, 2}}) {
        if (rule.steps_wholes() && mesh.has_shards()) continue;  // which thunderc refuses
        SCOPED_TRACE(std::to_string(mesh.replicas) + " copies, " + std::to_string(mesh.shards) + " shards");
        PlannedRanks ranks(compiled(model, options(mesh)));
        const Trained together = train(ranks, parameters, names_of(alone.parameters), steps, [&](std::uint64_t s) {
            return planned_step(ranks, rank_batches(ranks.module(), ranks.size(), 1, s), optimizer,
                                static_cast<std::int64_t>(s), std::nullopt);
        });
        for (const auto& [name, expected] : alone.parameters)
            EXPECT_LE(largest_difference(together.parameters.at(name), expected), way(optimizer)) << name;
    }
}

// Of a model whose norms alone are trained there is nothing to code.
TEST(CodedStates, OfVectorsAloneAreNumbers) {
    for (const Mesh mesh : {Mesh{}, Mesh{1, 2}}) {
        CompileOptions options;
        options.train_only = "norm";
        options.batch = 2;
        options.seq = 16;
        options.mesh = mesh;
        const std::int64_t in_f32 = compiled("llama2/dyn.logits.onnx", options).arena_bytes.at("optimizer");
        options.optim_dtype = eight_bits;
        EXPECT_EQ(compiled("llama2/dyn.logits.onnx", options).arena_bytes.at("optimizer"), in_f32);
    }
}

std::vector<Case> cases() {
    std::vector<Case> out;
    for (const thunder::RuleInfo& rule : thunder::all_rules()) {
        out.push_back({rule.name, false});
        if (rule.codes_states()) out.push_back({rule.name, true});
    }
    return out;
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace optimizers_test
}  // namespace thunderc
