// SPDX-License-Identifier: Apache-2.0
// What tests of several ranks share: a model's parameters, batches of uneven padding, and the run on one rank that
// every mesh is compared with.
#pragma once

#include <cstdlib>
#include <random>

#include "compiler/plan_interpreter/run_ranks.h"
#include "tests/planned/reference_step.h"
#include "tests/support/full_form.h"

namespace thunderc {

// Clipping is on; what decays are matrices.
inline const PlannedOptimizer ranks_optimizer = {.learning_rate = 1e-3,
                                                 .weight_decay = 0.1,
                                                 .options = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}},
                                                 .max_grad_norm = 0.5,
                                                 .decay_all = false};

// Ids or numbers for the model's inputs; of the labels some are -100, of micro-batch k about k in 7, so that ranks have
// different counts.
inline MicroBatch random_batch(const Module& module, std::uint64_t k) {
    std::mt19937_64 random(k + 1);
    MicroBatch out;
    const Function& main = module.main();
    for (std::size_t a = 0; a < main.arguments.size(); ++a) {
        const ArgInfo& info = main.argument_info[a];
        if (info.kind != ArgInfo::Kind::input) continue;
        Tensor t(main.type(main.arguments[a]).member());
        for (std::int64_t i = 0; i < t.size(); ++i) {
            const double u = static_cast<double>(random() >> 11) * 0x1p-53;
            if (t.floating())
                t.set(i, 2 * u - 1);
            else if (info.ignore_index < 0 && i > 0 && random() % 7 < k % 6)
                t.set(i, static_cast<double>(info.ignore_index));
            else
                t.set(i, std::floor(u * static_cast<double>(info.entries)));
        }
        out[info.names.front()] = std::move(t);
    }
    return out;
}

// `micro_steps` micro-batches for each of `world` ranks: micro-step m of rank r takes number m * world + r.
inline RankBatches rank_batches(const Module& module, std::size_t world, std::size_t micro_steps, std::uint64_t step) {
    RankBatches out(micro_steps);
    for (std::size_t m = 0; m < micro_steps; ++m)
        for (std::size_t r = 0; r < world; ++r) out[m].push_back(random_batch(module, step * 100 + m * world + r));
    return out;
}

// What a run leaves: losses and norms of its steps, the gradients of the first and of the last, the parameters at the
// end.
struct Trained {
    std::vector<PlannedStep> steps;
    std::map<std::string, Tensor> gradients, last_gradients, parameters;
};

inline std::vector<std::string> trained_names(const Module& module) {
    std::vector<std::string> out;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter && info.trainable)
            out.insert(out.end(), info.names.begin(), info.names.end());
    return out;
}

// PlannedProgram or PlannedRanks; `one_step` makes the step of a number.
template <typename Program, typename OneStep>
Trained train(Program& program, const std::string& parameters, const std::vector<std::string>& names, int steps,
              const OneStep& one_step) {
    for (const auto& [name, tensor] : read_safetensors(fixture(parameters))) program.set(name, tensor);
    clear_states(program);
    make_narrow_copies(program);
    Trained out;
    auto gradients = [&] {
        std::map<std::string, Tensor> all;
        for (const std::string& name : names) all[name] = program.get("grad." + name);
        return all;
    };
    for (int s = 0; s < steps; ++s) {
        out.steps.push_back(one_step(static_cast<std::uint64_t>(s)));
        if (s == 0) out.gradients = gradients();
    }
    out.last_gradients = gradients();
    for (const std::string& name : names) out.parameters[name] = program.get(name);
    return out;
}

// The same micro-batches on one rank, one behind the other.
inline Trained train_alone(const std::string& model, const CompileOptions& options, const std::string& parameters,
                           std::size_t micro_batches, int steps) {
    PlannedProgram program(compiled(model, options));
    return train(program, parameters, trained_names(program.module()), steps, [&](std::uint64_t s) {
        std::vector<MicroBatch> batches;
        for (std::vector<MicroBatch>& one : rank_batches(program.module(), 1, micro_batches, s))
            batches.push_back(std::move(one.front()));
        return planned_step(program, batches, ranks_optimizer, static_cast<std::int64_t>(s));
    });
}

inline Trained train_ranks(PlannedRanks ranks, const std::string& parameters, const std::vector<std::string>& names,
                           std::size_t micro_steps, int steps, std::optional<std::uint64_t> seed = std::nullopt) {
    return train(ranks, parameters, names, steps, [&](std::uint64_t s) {
        return planned_step(ranks, rank_batches(ranks.module(), ranks.size(), micro_steps, s), ranks_optimizer,
                            static_cast<std::int64_t>(s), seed ? std::optional(*seed + 1000 * s) : std::nullopt);
    });
}

inline std::vector<std::string> names_of(const std::map<std::string, Tensor>& tensors) {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : tensors) out.push_back(name);
    return out;
}

// Streams and ranks in other orders give the same bits: 20 orders, or THUNDER_SEEDS of them.
inline void expect_same_bits_in_any_order(const PlannedRanks& ranks, const std::string& parameters,
                                          const std::vector<std::string>& names, std::size_t micro_steps, int steps) {
    const Trained listed = train_ranks(ranks, parameters, names, micro_steps, steps);
    const char* wanted = std::getenv("THUNDER_SEEDS");
    const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : short_form ? 3 : 20;
    ASSERT_GE(seeds, 1U);
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Trained drawn = train_ranks(ranks, parameters, names, micro_steps, steps, seed);
        for (std::size_t s = 0; s < listed.steps.size(); ++s) {
            EXPECT_EQ(drawn.steps[s].loss, listed.steps[s].loss);
            EXPECT_EQ(drawn.steps[s].grad_norm, listed.steps[s].grad_norm);
        }
        for (const std::string& name : names) {
            EXPECT_EQ(drawn.gradients.at(name).f, listed.gradients.at(name).f) << name;
            EXPECT_EQ(drawn.last_gradients.at(name).f, listed.last_gradients.at(name).f) << name;
            EXPECT_EQ(drawn.parameters.at(name).f, listed.parameters.at(name).f) << name;
        }
    }
}

// Both round to f32 and add the same terms in other orders: a gradient's element is a sum over micro-batches of sums
// over rows, and 64 * 2^-24 is 4e-6 of the largest. AdamW divides by the gradient's own size: an element of relative
// error e moves by lr * e a step, and 2e-5 is 1% of the way of two steps.
inline void expect_same_training(const Trained& ranks, const Trained& alone) {
    ASSERT_EQ(ranks.steps.size(), alone.steps.size());
    for (std::size_t s = 0; s < alone.steps.size(); ++s) {
        EXPECT_EQ(ranks.steps[s].loss_weight, alone.steps[s].loss_weight) << "step " << s;
        EXPECT_NEAR(ranks.steps[s].loss, alone.steps[s].loss, 8e-6) << "step " << s;
        EXPECT_NEAR(ranks.steps[s].grad_norm, alone.steps[s].grad_norm, 1e-5 * (1 + alone.steps[s].grad_norm))
            << "step " << s;
    }
    for (const auto& [name, expected] : alone.gradients)
        EXPECT_LE(largest_difference(ranks.gradients.at(name), expected), 4e-6 * largest(expected) + 1e-8) << name;
    for (const auto& [name, expected] : alone.parameters)
        EXPECT_LE(largest_difference(ranks.parameters.at(name), expected), 2e-5) << name;
}

}  // namespace thunderc
