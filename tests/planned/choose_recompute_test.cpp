// SPDX-License-Identifier: Apache-2.0
// --recompute auto: what is chosen within a budget, and that it is never worse with a larger one.
#include "compiler/choose_recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/cost_model/machines.h"
#include "compiler/cost_model/step_costs.h"
#include "compiler/ir/print.h"
#include "compiler/support/bytes.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace choose_recompute_test {

std::int64_t peak_of(const Module& planned) {
    std::int64_t sum = 0;
    for (const auto& [arena, bytes] : planned.arena_bytes) sum += bytes;
    return sum;
}

double seconds_of(const Module& planned, const char* name) {
    const Machine& machine = *find_machine(name);
    double sum = 0;
    for (const KernelCost& kernel : step_costs(planned)) sum += seconds(kernel, machine, machine.reach);
    return sum;
}

// In kB with a decimal for each byte, so that any number of bytes can be said.
std::string budget_of(std::int64_t bytes) {
    std::string text = std::to_string(bytes);
    text.insert(0, std::string(text.size() < 4 ? 4 - text.size() : 0, '0'));
    text.insert(text.size() - 3, ".");
    return text + "kB";
}

CompileOptions automatic(std::int64_t budget = 0, CompileOptions o = {}) {
    o.recompute = recompute_auto;
    if (budget > 0) o.memory_budget = budget_of(budget);
    return o;
}

// A model as differentiate takes it, and what follows.
struct Search {
    Search(const std::string& model, CompileOptions o) {
        if (o.loss == "auto" && model.ends_with(".logits.onnx")) o.loss = "cross-entropy";
        std::vector<Pass> passes = pipeline(o);
        const auto at =
            std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p.name == "differentiate"; });
        std::vector<PassRun> runs;
        module = run_passes(import_model(fixture(model), o), std::vector<Pass>(passes.begin(), at), runs);
        behind.assign(at + 1, passes.end());
        best = best_candidates(recompute_candidates(module, o, {}, behind));
    }

    Module planned(const Keeping& keeping) const {
        Report report;
        std::vector<PassRun> runs;
        DifferentiateOptions options;
        options.keeping = keeping;
        return run_passes(differentiate(module, options, report), behind, runs);
    }

    Module module;
    std::vector<Pass> behind;
    std::vector<RecomputeCandidate> best;
};

struct Model {
    const char* file;
    std::size_t ways;  // that are worth taking, at least
    bool roll = true;
    std::int64_t batch = 0;
};

void PrintTo(const Model& m, std::ostream* out) {
    *out << m.file << (m.roll ? "" : ", unrolled");
}

class Budgets : public ::testing::TestWithParam<Model> {};

// From less than the least to more than the most, at both sides of each step: what is compiled stays within the budget,
// takes what the way that was chosen was said to take, and is never slower than with less. None of the three
// that can be asked for by name is faster within the memory that it takes.
TEST_P(Budgets, ALargerOneNeverCostsTime) {
    CompileOptions o;
    o.roll = GetParam().roll;
    o.batch = GetParam().batch;
    const Search search(GetParam().file, o);
    const std::vector<RecomputeCandidate>& best = search.best;
    ASSERT_GE(best.size(), GetParam().ways);
    for (std::size_t k = 1; k < best.size(); ++k) {
        EXPECT_GT(best[k].peak, best[k - 1].peak) << k;
        EXPECT_LT(best[k].seconds, best[k - 1].seconds) << k;
    }
    const RecomputeCandidate* last = nullptr;
    for (const RecomputeCandidate& way : best) {
        const Module planned = search.planned(way.keeping);
        EXPECT_EQ(peak_of(planned), way.peak);
        EXPECT_EQ(seconds_of(planned, default_recompute_machine), way.seconds);
        for (const std::int64_t budget : {way.peak - 1, way.peak, way.peak + 1}) {
            const RecomputeCandidate* one = fastest_within(best, budget);
            ASSERT_EQ(one == nullptr, budget < best.front().peak);
            if (one == nullptr) continue;
            EXPECT_LE(one->peak, budget);
            if (last != nullptr) {
                EXPECT_LE(one->seconds, last->seconds);
            }
            last = one;
        }
    }
    EXPECT_EQ(fastest_within(best, std::nullopt), &best.back());
    for (const RecomputePolicy policy : {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::block}) {
        const Module planned = search.planned({.policy = policy});
        const RecomputeCandidate* one = fastest_within(best, peak_of(planned));
        ASSERT_NE(one, nullptr);
        EXPECT_LE(one->seconds, seconds_of(planned, default_recompute_machine)) << static_cast<int>(policy);
    }
}

constexpr Model llama{"llama5/dynamo.logits.onnx", 4};

std::vector<Model> models_swept() {
    std::vector<Model> out = {llama,
                              {"gpt2/noopt.loss.onnx", 3},
                              {"models/t5/noopt.loss.onnx", 2},
                              {"models/vit/noopt_dyn.logits.onnx", 3, true, 4},
                              {"models/resnet_train/noopt.logits.onnx", 2},
                              {"models/lstm_masked/noopt.logits.onnx", 2}};
#ifdef THUNDERC_FULL
    out.push_back({"llama2/dynamo.logits.onnx", 1, false});
#endif
    return out;
}

INSTANTIATE_TEST_SUITE_P(OfModels, Budgets, ::testing::ValuesIn(models_swept()));

// What the command line asks for is what was found above, and below the least there is no program.
TEST(ChooseRecompute, ThePassTakesTheFastestThatFits) {
    const std::vector<RecomputeCandidate> best = Search(llama.file, {}).best;
    const std::size_t middle = best.size() / 2;
    EXPECT_EQ(peak_of(compiled(llama.file, automatic(best[middle].peak))), best[middle].peak);
    EXPECT_EQ(peak_of(compiled(llama.file, automatic(best[middle].peak - 1))), best[middle - 1].peak);
    try {
        compiled(llama.file, automatic(best.front().peak - 1));
        ADD_FAILURE() << "a program was made that takes more than it may";
    } catch (const MemoryBudgetError& error) {
        EXPECT_EQ(error.diagnostic().message, "the program needs at least " + bytes_text_up(best.front().peak) +
                                                  " of memory, whatever it computes again");
    }
}

// Whatever is kept, the numbers are PyTorch's: of run_planned_test.cpp, which says where the tolerances come from.
TEST(ChooseRecompute, EachWayHasPyTorchsNumbers) {
    for (const std::string model : {"llama2", "llama5"}) {
        std::ifstream file(fixture(model + "/reference.json"));
        const nlohmann::json reference = nlohmann::json::parse(file);
        const auto gradients = read_safetensors(fixture(model + "/grads.safetensors"));
        ASSERT_FALSE(gradients.empty());
        const Search search(model + "/dynamo.logits.onnx", {});
        for (const RecomputeCandidate& way : search.best) {
            PlannedProgram program(search.planned(way.keeping));
            for (const auto& [name, tensor] : read_safetensors(fixture(model + "/params.safetensors")))
                program.set(name, tensor);
            clear_states(program);
            const PlannedStep step =
                planned_step(program, {batch(read_safetensors(fixture(model + "/batch.safetensors")), 0)}, {}, 0);
            EXPECT_NEAR(step.loss, reference.at("loss64").at(0).get<double>(), 2e-6 * 4) << model << " " << way.peak;
            for (const auto& [name, expected] : gradients)
                EXPECT_LE(largest_difference(program.get("grad." + name), expected), 4e-6 * largest(expected) + 1e-8)
                    << model << " " << way.peak << " " << name;
        }
    }
}

// The same of kinds of layers that the two have not, beside the program that computes nothing again: it is PyTorch's in
// other tests. What is computed again within larger kernels may round otherwise, by as much as those tests allow.
TEST(ChooseRecompute, EachWayHasTheNumbersOfNone) {
    for (const auto& [model, graph] : {std::pair<std::string, std::string>{"gpt2", "noopt.loss"},
                                       {"models/resnet_train", "noopt.logits"},
                                       {"models/lstm_masked", "noopt.logits"}}) {
        const Search search(model + "/" + graph + ".onnx", {});
        const auto parameters = read_safetensors(fixture(model + "/params.safetensors"));
        const auto all = read_safetensors(fixture(model + "/batch.safetensors"));
        const auto step = [&](PlannedProgram& program) {
            for (const auto& [parameter, tensor] : parameters)
                if (program.has(parameter)) program.set(parameter, tensor);
            clear_states(program);
            return planned_step(program, {batch(all, 0)}, {}, 0).loss;
        };
        PlannedProgram plain(search.planned({}));
        const double loss = step(plain);
        ASSERT_GE(search.best.size(), 2U) << model;
        for (const RecomputeCandidate& way : search.best) {
            PlannedProgram program(search.planned(way.keeping));
            EXPECT_EQ(step(program), loss) << model << " " << way.peak;
            std::size_t compared = 0;
            for (const std::string& name : plain.names()) {
                if (!name.starts_with("grad.")) continue;
                const Tensor expected = plain.get(name);
                EXPECT_LE(largest_difference(program.get(name), expected), 4e-6 * largest(expected) + 1e-8)
                    << model << " " << way.peak << " " << name;
                ++compared;
            }
            EXPECT_GT(compared, 5U) << model;
        }
    }
}

// Of several ranks it is one rank's plan that has to fit.
TEST(ChooseRecompute, ABudgetIsOneRanks) {
    CompileOptions shards;
    shards.mesh = {1, 2};
    const std::vector<RecomputeCandidate> shared = Search(llama.file, shards).best;
    try {
        compiled(llama.file, automatic(shared.front().peak - 1, shards));
        ADD_FAILURE() << "a program was made that takes more than it may";
    } catch (const MemoryBudgetError& error) {
        EXPECT_NE(error.diagnostic().message.find(" on each rank"), std::string::npos);
        EXPECT_NE(error.diagnostic().help.find("more ranks"), std::string::npos) << error.diagnostic().help;
    }
}

// The machine's memory where no budget is said; without either there is no limit.
TEST(ChooseRecompute, TheMachineGivesTheBudget) {
    CompileOptions o;
    EXPECT_EQ(memory_budget(o), std::nullopt);
    o.machine = "rtx4090";
    EXPECT_EQ(memory_budget(o), 24'000'000'000);
    o.memory_budget = "20GB";
    EXPECT_EQ(memory_budget(o), 20'000'000'000);
}

TEST(ChooseRecompute, WhatIsBeatenIsLeftOut) {
    const auto way = [](std::int64_t peak, double seconds) {
        RecomputeCandidate one;
        one.peak = peak;
        one.seconds = seconds;
        return one;
    };
    const std::vector<RecomputeCandidate> best =
        best_candidates({way(50, 3), way(10, 9), way(20, 9), way(30, 4), way(40, 5), way(30, 3.5), way(60, 3)});
    ASSERT_EQ(best.size(), 3U);
    EXPECT_EQ(best[0].peak, 10);
    EXPECT_EQ(best[1].seconds, 3.5);
    EXPECT_EQ(best[2].peak, 50);
    EXPECT_EQ(fastest_within(best, 9), nullptr);
    EXPECT_EQ(fastest_within(best, 49)->peak, 30);
}

// The same choice gives the same module, byte by byte, and the report says it for each kind of layer.
TEST(ChooseRecompute, IsSaidAndRepeatable) {
    std::vector<std::string> texts, lines;
    for (int k = 0; k < 2; ++k) {
        CompileOptions o = automatic();
        o.loss = "cross-entropy";
        std::vector<PassRun> runs;
        texts.push_back(
            to_string(run_passes(import_model(fixture("llama5/dynamo.logits.onnx"), o), pipeline(o), runs)));
        lines = recompute_lines(runs);
    }
    EXPECT_EQ(texts[0], texts[1]);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_NE(lines[0].find("without a limit (--memory-budget)"), std::string::npos) << lines[0];
    EXPECT_TRUE(lines[1].starts_with("model.layers.{0..4}: keeps ")) << lines[1];
    EXPECT_NE(lines[1].find("each of 5); computes again "), std::string::npos) << lines[1];
}

}  // namespace choose_recompute_test
}  // namespace thunderc
