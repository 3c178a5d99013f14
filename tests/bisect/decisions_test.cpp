// SPDX-License-Identifier: Apache-2.0
// Decisions are counted in order, declined behind a limit, and nothing else changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/bisection.h"
#include "cli/training_program.h"
#include "compiler/pipeline.h"
#include "compiler/support/report.h"

namespace thunderc {
namespace decisions_test {

ModelOptions gpt2() {
    ModelOptions model;
    model.model = FIXTURES "/gpt2/noopt.loss.onnx";
    model.compile.dtype = "bf16";
    model.finish();
    model.silent = true;
    return model;
}

TEST(Decisions, TheSameQuestionIsTheSameDecision) {
    CountedDecisions decisions(1);
    decisions.begin("fuse");
    EXPECT_TRUE(decisions.take("fuse", "a", "x"));
    EXPECT_FALSE(decisions.take("fuse", "b", "x"));
    EXPECT_TRUE(decisions.take("fuse", "a", "x"));
    decisions.begin("claim");
    EXPECT_FALSE(decisions.take("fuse", "a", "x"));
    ASSERT_EQ(decisions.asked().size(), 3U);
    EXPECT_EQ(to_string(decisions.asked()[2]), "claim: fuse in a: x");
}

TEST(Decisions, AReportWithoutThemLetsEverythingBe) {
    Report report;
    EXPECT_TRUE(report.may("fuse", "a", "x"));
    EXPECT_TRUE(report.notes.empty());
    CountedDecisions none(0);
    report.decisions = &none;
    EXPECT_FALSE(report.may("fuse", "a", "x"));
    EXPECT_EQ(report.notes.size(), 1U);
}

std::vector<OutputFile> program_of(std::optional<std::size_t> limit) {
    ModelOptions model = gpt2();
    model.compile.decisions = limit;
    DeviceOptions device;
    device.devices = {"cpu"};
    std::vector<OutputFile> files = training_program(model, device, {}, false).files;
    // The command that makes the program again names the limit.
    std::erase_if(files, [](const OutputFile& f) { return f.path == "README.md" || f.path == "train.json"; });
    return files;
}

TEST(Decisions, AllOfThemGiveTheProgramThatCountsNone) {
    const std::size_t all = decisions_of(gpt2()).size();
    EXPECT_GT(all, 20U);
    const std::vector<OutputFile> counted = program_of(all), plain = program_of(std::nullopt);
    ASSERT_EQ(counted.size(), plain.size());
    for (std::size_t k = 0; k < plain.size(); ++k) {
        EXPECT_EQ(counted[k].path, plain[k].path);
        EXPECT_TRUE(counted[k].text == plain[k].text) << plain[k].path;
    }
}

// Those before the limit are the first of all, whatever is declined behind it.
TEST(Decisions, AnyLimitGivesAProgram) {
    const std::vector<CountedDecision> all = decisions_of(gpt2());
    for (std::size_t limit = 0; limit < all.size(); limit += 7) {
        CountedDecisions counted(limit);
        PassOptions passes;
        passes.decisions = &counted;
        compile(gpt2(), passes);
        ASSERT_GE(counted.asked().size(), limit);
        for (std::size_t k = 0; k < limit; ++k)
            EXPECT_EQ(to_string(counted.asked()[k]), to_string(all[k])) << limit << ", " << k;
    }
}

// What auto tries before it chooses is no decision; what it chooses is one, and the same whatever is declined.
TEST(Decisions, WhatABudgetComputesAgainIsOne) {
    ModelOptions model;
    model.model = FIXTURES "/llama5/dynamo.logits.onnx";
    model.compile.loss = "cross-entropy";
    model.compile.recompute = "auto";
    model.compile.memory_budget = "230kB";
    model.finish();
    model.silent = true;
    const std::vector<CountedDecision> all = decisions_of(model);
    const auto recomputes = [](const CountedDecision& d) {
        return to_string(d) == "differentiate: recompute in model.layers.{0..4}";
    };
    const auto at = std::find_if(all.begin(), all.end(), recomputes);
    ASSERT_NE(at, all.end());
    EXPECT_EQ(std::count_if(all.begin(), all.end(), recomputes), 1);
    const auto number = static_cast<std::size_t>(at - all.begin()) + 1;
    const auto bytes = [&](std::size_t limit) {
        ModelOptions limited = model;
        limited.compile.decisions = limit;
        std::int64_t sum = 0;
        for (const auto& [arena, size] : compile(limited).module.arena_bytes) sum += arena == "saved" ? size : 0;
        return sum;
    };
    EXPECT_LT(bytes(number), bytes(number - 1));
}

TEST(Decisions, OneCanBeLeftOut) {
    CountedDecisions decisions(std::nullopt, 2);
    decisions.begin("fuse");
    EXPECT_TRUE(decisions.take("fuse", "a", "x"));
    EXPECT_FALSE(decisions.take("fuse", "b", "x"));
    EXPECT_TRUE(decisions.take("fuse", "c", "x"));
    EXPECT_FALSE(decisions.take("fuse", "b", "x"));
}

// ---- which passes decide
// ---------------------------------------------------------------------------------------------

// Passes behind what a program shares with its naive one (simplify_raised) that ask nobody, and why. The naive program
// has `naive` ones as well, so that it could not be told from a program that they made wrong; what the others do is in
// no step that a search compares.
struct NoDecision {
    const char *pass, *why;
    bool naive = true;
};
constexpr NoDecision no_decisions[] = {
    {"choose_init", "how parameters begin, of any program"},
    {"mark_outer_matrices", "what the optimizer steps as a whole, of any program"},
    {"keep_statistics", "what batch norms keep, of any program"},
    {"freeze_parameters", "what the user freezes, of any program"},
    {"freeze_unreached", "what has no gradient, of any program"},
    {"exempt_layers", "marks what quantise_products, which asks, is to leave alone", false},
    {"name_values", "names alone"},
    {"add_evaluation", "an evaluation, which no step is"},
    {"forget_statistics", "what only an evaluation reads"},
    {"remove_stops", "what differentiate has made use of"},
    {"compose_step", "the step of any program"},
    {"simplify_step", "identities, of any program"},
    {"simplify_claimed", "identities, of any program"},
    {"name_results", "names alone"},
    {"distribute", "several ranks, of which a search has no program", false},
    {"schedule_collectives", "several ranks, of which a search has no program", false},
    {"sync_norms", "several ranks, of which a search has no program", false},
    {"plan", "where values lie, of any program"},
    {"check_plan", "changes nothing"},
};

ModelOptions model_of(const std::string& file) {
    ModelOptions model;
    model.model = FIXTURES "/" + file;
    model.silent = true;
    return model;
}

// Models and options with which each pass that can decide does.
std::vector<ModelOptions> all_that_decide() {
    std::vector<ModelOptions> out;
    ModelOptions& llama = out.emplace_back(model_of("llama2/noopt.logits.onnx"));
    llama.compile.dtype = "bf16";
    llama.compile.fp8 = "delayed";
    llama.compile.fp8_skip = "down_proj";
    llama.compile.recompute = "selective";
    llama.compile.logits_chunk = "8";
    out.push_back(model_of("models/gru_cells/dynamo.loss.onnx"));
    ModelOptions& unrolled = out.emplace_back(out.back());
    unrolled.no_roll = true;
    for (ModelOptions& model : out) model.finish();
    return out;
}

std::vector<std::string> passes_behind_the_parting(const CompileOptions& options) {
    std::vector<std::string> names;
    for (const Pass& pass : pipeline(options)) names.push_back(pass.name);
    names.erase(names.begin(), std::find(names.begin(), names.end(), "simplify_raised") + 1);
    return names;
}

// Who adds a pass has it ask Report::may before it decides, or says here why it is no decision.
TEST(Decisions, EachPassAsksOrHasAReasonNotTo) {
    std::set<std::string> passes, ask, naive;
    for (const ModelOptions& model : all_that_decide()) {
        for (const CountedDecision& decision : decisions_of(model)) ask.insert(decision.pass);
        std::vector<CompileOptions> variants(3, model.compile);
        variants[1].executors = {"reference"};
        variants[1].optimizer = variants[2].optimizer = "muon";
        variants[2].mesh.replicas = 2;
        for (std::size_t k = 0; k < variants.size(); ++k)
            for (const std::string& pass : passes_behind_the_parting(variants[k]))
                (k == 1 ? naive : passes).insert(pass);
    }
    for (const NoDecision& none : no_decisions) {
        EXPECT_EQ(passes.erase(none.pass), 1U) << "there is no such pass: " << none.pass;
        EXPECT_FALSE(ask.contains(none.pass)) << none.pass << " asks: " << none.why;
        EXPECT_TRUE(!none.naive || naive.contains(none.pass)) << none.pass << " is none of the naive program's";
    }
    for (const std::string& pass : passes)
        EXPECT_TRUE(ask.contains(pass))
            << pass << " neither asks Report::may before it decides, nor is it among those that are no decisions";
}

}  // namespace decisions_test
}  // namespace thunderc
