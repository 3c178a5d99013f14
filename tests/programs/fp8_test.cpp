// SPDX-License-Identifier: Apache-2.0
// Programs whose blocks multiply numbers of eight bits: beside a plain computation of the same (scripts/
// record_fp8_steps.py), from a checkpoint in the middle, and on ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "checkpoint/safetensors.h"
#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace fp8_test {

const char* const model = "llama2";
const char* const graph = "noopt.logits";
const char* const options = "--dtype bf16 --fp8 delayed";
const std::string once = std::string(options) + " --fp8-weights once";
const std::string fixtures = FIXTURES;
const std::string numbers =
    " --beta1 0.9 --beta2 0.95 --weight-decay 0.1 --decay all --grad-clip 0 --schedule constant --warmup 0 --lr 1e-3";
const std::string seed = " --feed '" + fixtures + "/autocast/feed_0.safetensors'" + numbers;
const std::string states[] = {"optimizer.fp8.scale", "optimizer.fp8.history"};
const std::string init = " --init '" + fixtures + "/autocast/seed_0.safetensors'";

std::vector<float> floats(const thunder::StoredTensor& stored) {
    std::vector<float> out(stored.elements());
    EXPECT_TRUE(thunder::read_elements(stored, thunder::DType::f32, 0, stored.elements(), out.data()));
    return out;
}

// Of a checkpoint's files, of which each rank wrote one: a tensor that is whole on each is in one of them.
std::vector<float> floats(const std::filesystem::path& checkpoint, const std::string& name) {
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
        if (entry.path().extension() != ".safetensors") continue;
        const thunder::SafetensorsFile file(entry.path().string());
        if (const thunder::StoredTensor* stored = file.find(name)) return floats(*stored);
    }
    ADD_FAILURE() << checkpoint << " lacks " << name;
    return {};
}

// What spec.cpp lists: in this order amaxes, scales and histories lie.
std::vector<std::string> scaled_tensors(const GeneratedProgram& program) {
    std::ifstream file(program.file("out/spec.cpp"));
    std::vector<std::string> out;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (inside && line.find("};") != std::string::npos) break;
        const std::size_t from = line.find('"'), to = line.rfind('"');
        if (inside && from < to) out.push_back(line.substr(from + 1, to - from - 1));
        inside = inside || line.find("SCALED_TENSORS[]") != std::string::npos;
    }
    return out;
}

// The last amaxes of each tensor.
std::map<std::string, std::vector<float>> histories(const GeneratedProgram& program, const std::string& checkpoint,
                                                    std::size_t steps) {
    const std::vector<std::string> tensors = scaled_tensors(program);
    const std::vector<float> all = floats(program.file(checkpoint), "optimizer.fp8.history");
    std::map<std::string, std::vector<float>> out;
    if (tensors.empty() || all.empty() || all.size() % tensors.size() != 0) return out;
    const std::size_t length = all.size() / tensors.size();
    for (std::size_t t = 0; t < tensors.size(); ++t)
        out[tensors[t]].assign(all.begin() + static_cast<std::ptrdiff_t>((t + 1) * length - steps),
                               all.begin() + static_cast<std::ptrdiff_t>((t + 1) * length));
    return out;
}

void expect_refused_without_fp8(const std::filesystem::path& checkpoint, const std::string& recipe) {
    const GeneratedProgram plain("bf16_quick", model, graph, "--dtype bf16", "train", 1, Cpu::native,
                                 Compiled::quickly);
    ASSERT_TRUE(plain.built()) << plain.failure();
    const Outcome outcome = plain.train(seed + " --steps 20 --resume --checkpoint '" + checkpoint.string() + "'");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("its products are quantised by --fp8 " + recipe + ", this program's not quantised"),
              std::string::npos)
        << outcome.err;
}

class Fp8 : public testing::Test {
  protected:
    Fp8() : program("fp8_delayed", model, graph, once, "train", 1, Cpu::native, Compiled::quickly) {}
    void SetUp() override { ASSERT_TRUE(program.built()) << program.failure(); }
    void expect_trained(const std::string& arguments) {
        const Outcome outcome = program.train(arguments);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    void begin_anew(const std::string& folder) const { std::filesystem::remove_all(program.file(folder)); }

    GeneratedProgram program;
};

// Both round to eight bits at the same places by the same scales. What is bf16 before they round differently now and
// then (a residual is added before or after a product is rounded), and a number that is one unit of bf16 off, 2^-8 of
// it, falls with a probability of some 1/16 to another code, 2^-3 away in e4m3 and 2^-2 in e5m2: by the root of that,
// 2^-5.5 and 2^-5 a number, each layer anew. Weights are what AdamW makes of them, steps of 1e-3 of numbers around 0.2,
// and their amaxes are those of bf16: they differ by one unit, where at all. An amax is one number of all: it is off
// by what a code is, at most, in forward passes; gradients have passed both layers twice.
TEST_F(Fp8, TrainsAsAPlainComputationDoes) {
    std::ifstream file(fixtures + "/fp8/steps.json");
    const nlohmann::json recorded = nlohmann::json::parse(file);
    begin_anew("c_naive");
    std::filesystem::remove(program.file("naive.jsonl"));
    expect_trained(init + seed + " --steps 10 --log naive.jsonl --checkpoint c_naive");
    const std::vector<nlohmann::json> log = read_log(program.file("naive.jsonl"));
    const std::vector<double> losses = recorded.at("losses");
    ASSERT_EQ(log.size(), losses.size());
    for (std::size_t s = 0; s < losses.size(); ++s)
        EXPECT_NEAR(log[s].at("loss").get<double>(), losses[s], losses[s] / 64) << "step " << s;

    const std::map<std::string, std::vector<float>> ours = histories(program, "c_naive/step-00000010", losses.size());
    ASSERT_EQ(ours.size(), recorded.at("tensors").size());
    const std::map<std::string, std::pair<double, double>> allowed = {
        {"weight", {1.0 / 128, 1.0 / 256}}, {"input", {1.0 / 16, 1.0 / 64}}, {"gradient", {0.5, 1.0 / 8}}};
    for (const auto& [name, amaxes] : ours) {
        const std::vector<double> wanted = recorded.at("tensors").at(name).at("amaxes");
        const auto& [each, mean] = allowed.at(name.substr(name.rfind('.') + 1));
        double sum = 0;
        for (std::size_t s = 0; s < wanted.size(); ++s) {
            const double off = std::abs(static_cast<double>(amaxes[s]) / wanted[s] - 1);
            EXPECT_LE(off, each) << name << ", step " << s;
            sum += off;
        }
        EXPECT_LE(sum / static_cast<double>(wanted.size()), mean) << name;
    }
}

// The scale is what brings the largest amax to the largest number of the type.
TEST_F(Fp8, ScalesFollowFromTheAmaxesThatAreKept) {
    begin_anew("c_scales");
    expect_trained(init + seed + " --steps 4 --checkpoint c_scales");
    const std::string checkpoint = "c_scales/step-00000004";
    const std::vector<float> scales = floats(program.file(checkpoint), "optimizer.fp8.scale");
    const std::vector<std::string> tensors = scaled_tensors(program);
    const auto amaxes = histories(program, checkpoint, 4);
    ASSERT_EQ(scales.size(), tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const std::vector<float>& of = amaxes.at(tensors[t]);
        EXPECT_GT(*std::min_element(of.begin(), of.end()), 0) << tensors[t];
        const float largest = tensors[t].ends_with(".gradient") ? 57344.F : 448.F;
        EXPECT_EQ(scales[t], largest / *std::max_element(of.begin(), of.end())) << tensors[t];
    }
}

// Scales and histories are in checkpoints; an evaluation between two steps notes nothing.
TEST_F(Fp8, GoesOnAsIfNothingHadBeen) {
    begin_anew("c_whole");
    begin_anew("c_parts");
    expect_trained(init + seed + " --steps 6 --checkpoint c_whole");
    expect_trained(init + seed + " --steps 6 --max-tokens 64 --checkpoint c_parts --eval-every 2 --eval-feed '" +
                   fixtures + "/autocast/feed_1.safetensors'");
    expect_trained(seed + " --steps 6 --checkpoint c_parts --resume");
    const std::string last = "/step-00000006";
    const thunder::SafetensorsFile whole(program.file("c_whole" + last + "/rank-00000.safetensors").string());
    ASSERT_TRUE(std::filesystem::exists(program.file("c_parts/step-00000004")));
    for (const thunder::StoredTensor& tensor : whole.tensors())
        EXPECT_EQ(floats(tensor), floats(program.file("c_parts" + last), tensor.name)) << tensor.name;
    EXPECT_NE(whole.find("optimizer.fp8.history"), nullptr);
}

// Codes that later micro-steps and backward passes find are those that they would make: of weights that were read, of
// others after an evaluation of their average, in steps of several micro-steps. To the bit.
TEST_F(Fp8, WeightsAreQuantisedOnceAStepOrEachTime) {
    const GeneratedProgram each("fp8_each", model, graph, options, "train", 1, Cpu::native, Compiled::quickly);
    ASSERT_TRUE(each.built()) << each.failure();
    for (const GeneratedProgram* of : std::initializer_list<const GeneratedProgram*>{&program, &each}) {
        of->write_large_feed("two.safetensors", 2);
        std::filesystem::remove_all(of->file("c_twice"));
        const Outcome outcome = of->train(
            init + " --feed '" + of->file("two.safetensors").string() + "'" + numbers +
            " --steps 4 --grad-accum 2 --checkpoint c_twice --ema 0.5 --eval-ema --eval-every 2 --eval-batches 1 "
            "--eval-feed '" +
            of->file("two.safetensors").string() + "'");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    const std::string last = "c_twice/step-00000004/rank-00000.safetensors";
    const thunder::SafetensorsFile kept(program.file(last).string());
    for (const thunder::StoredTensor& tensor : kept.tensors())
        EXPECT_EQ(floats(tensor), floats(each.file("c_twice/step-00000004"), tensor.name)) << tensor.name;
    // A weight has one amax a step, an input one in each micro-step.
    const auto amaxes = histories(program, "c_twice/step-00000004", 8);
    ASSERT_FALSE(amaxes.empty());
    for (const auto& [name, all] : amaxes)
        EXPECT_EQ(std::count_if(all.begin(), all.end(), [](float amax) { return amax > 0; }),
                  name.ends_with(".weight") ? 4 : 8)
            << name;
}

// ---- recipes without states -----------------------------------------------------------------------------------------

class Fp8Recipes : public testing::TestWithParam<const char*> {};

// A Llama whose products end within a block, beside the same written down by the recipe's definition. As above: what is
// bf16 before it is quantised is one unit off now and then, and its code another one.
TEST_P(Fp8Recipes, TrainAsAPlainComputationDoes) {
    const std::string recipe = GetParam();
    const GeneratedProgram program("fp8_" + recipe, "fp8/wide", "dynamo.logits", "--dtype bf16 --fp8 " + recipe,
                                   "train", 1, Cpu::native, Compiled::quickly);
    ASSERT_TRUE(program.built()) << program.failure();
    std::ifstream file(fixtures + "/fp8/recipes.json");
    const std::vector<double> losses = nlohmann::json::parse(file).at(recipe);
    std::filesystem::remove(program.file("run.jsonl"));
    const std::string run = " --feed '" + fixtures + "/fp8/wide/feed.safetensors'" + numbers;
    std::filesystem::remove_all(program.file("kept"));
    const Outcome outcome = program.train(run + " --steps 10 --log run.jsonl --checkpoint kept");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto log = read_log(program.file("run.jsonl"));
    ASSERT_EQ(log.size(), losses.size());
    for (std::size_t s = 0; s < losses.size(); ++s)
        EXPECT_NEAR(log[s].at("loss").get<double>(), losses[s], losses[s] / 64) << "step " << s;
    // Nothing is kept of scales; a program that is quantised otherwise does not go on with it all the same.
    const thunder::SafetensorsFile kept(program.file("kept/step-00000010/rank-00000.safetensors").string());
    for (const std::string& state : states) EXPECT_EQ(kept.find(state), nullptr);
    expect_refused_without_fp8(program.file("kept"), recipe);
}

// What a program brings along judges by how far numbers of its recipe are rounded.
TEST_P(Fp8Recipes, TheirOwnTestsPass) {
    const std::string recipe = GetParam();
    if (!full_form && recipe != "mxfp8") return;
    const GeneratedProgram program("fp8_" + recipe + "_own", "fp8/wide", "dynamo.logits",
                                   "--dtype bf16 --fp8 " + recipe, "train", 1, Cpu::native, Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome outcome = program.own_tests();
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("100% tests passed"), std::string::npos) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Programs, Fp8Recipes, testing::Values("current", "blockwise", "mxfp8"),
                         [](const auto& info) { return std::string(info.param); });

// ---- ranks ----------------------------------------------------------------------------------------------------------

class Fp8Ranks : public testing::TestWithParam<const char*> {};

// Two ranks with two rows each are one with four. A row is computed the same wherever it is, so in the first step all
// that is quantised is the same, and an amax of both ranks is one of all rows: the same bits. From then on gradients of
// weights are sums of f32 in another order, 6e-8 off, after which AdamW's step may be another float, and now and then
// its weight another bf16, 2^-8 off: in none of 5,000 weights or in a few. A code of it is then one step off at the
// most, 1/8 of one weight of a row of 16 that has 24 such products behind it: 1e-3 of a loss is more than that gives.
// Each rank writes a part of a checkpoint, one the scales and the other the histories: each scale follows from what the
// other rank has of its amaxes.
TEST_P(Fp8Ranks, HaveTheScalesOfOne) {
    const std::string sharding = GetParam();
    // With copies, of which each keeps codes; beside one that quantises weights wherever it reads them.
    const std::string on_ranks = (sharding == "dp" ? once : options) + " --batch 2 --seq 8 --" + sharding + " 2";
    const GeneratedProgram many("fp8_" + sharding + "2", model, "dyn.logits", on_ranks, "train", 2, Cpu::native,
                                Compiled::quickly);
    ASSERT_TRUE(many.built()) << many.failure();
    const GeneratedProgram one("fp8_four_rows", model, "dyn.logits", std::string(options) + " --batch 4 --seq 8",
                               "train", 1, Cpu::native, Compiled::quickly);
    ASSERT_TRUE(one.built()) << one.failure();
    many.write_large_feed("large.safetensors", 2);
    const std::string run = " --feed '" + many.file("large.safetensors").string() + "'" + numbers + " --steps 6";
    for (const GeneratedProgram* program : {&one, &many}) {
        std::filesystem::remove(program->file("run.jsonl"));
        for (const char* folder : {"kept", "theirs"}) std::filesystem::remove_all(program->file(folder));
        const Outcome outcome = program->train(init + run + " --log run.jsonl --checkpoint kept --checkpoint-every 1");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    const auto expect_same_losses = [&](const std::string& ours, const GeneratedProgram& program) {
        const auto log = read_log(program.file(ours)), wanted = read_log(one.file("run.jsonl"));
        ASSERT_EQ(wanted.size(), 6U);
        ASSERT_FALSE(log.empty());
        for (std::size_t k = 1; k <= log.size(); ++k) {
            const double loss = wanted[wanted.size() - k].at("loss");
            EXPECT_NEAR(log[log.size() - k].at("loss").get<double>(), loss, 1e-3 * loss) << k << " before the end";
        }
    };
    expect_same_losses("run.jsonl", many);
    for (const std::string& state : states)
        EXPECT_EQ(floats(many.file("kept/step-00000001"), state), floats(one.file("kept/step-00000001"), state))
            << state;
    const auto amaxes = histories(many, "kept/step-00000006", 6);
    const std::vector<float> scales = floats(many.file("kept/step-00000006"), states[0]);
    const std::vector<std::string> tensors = scaled_tensors(many);
    ASSERT_EQ(scales.size(), tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const std::vector<float>& of = amaxes.at(tensors[t]);
        const float largest = tensors[t].ends_with(".gradient") ? 57344.F : 448.F;
        EXPECT_EQ(scales[t], largest / *std::max_element(of.begin(), of.end())) << tensors[t];
    }

    // What one of them kept of the second step goes on in the other. A rank that has none of it in its own file, too.
    for (const GeneratedProgram* program : {&one, &many}) {
        const GeneratedProgram& from = program == &one ? many : one;
        std::filesystem::create_directory(program->file("theirs"));
        std::filesystem::copy(from.file("kept/step-00000002"), program->file("theirs/step-00000002"));
        std::filesystem::remove(program->file("resumed.jsonl"));
        const Outcome outcome = program->train(run + " --log resumed.jsonl --checkpoint theirs --resume");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        expect_same_losses("resumed.jsonl", *program);
        // The first two steps' amaxes are those that were kept.
        const auto before = histories(from, "kept/step-00000002", 2);
        for (const auto& [name, all] : histories(*program, "theirs/step-00000006", 6))
            EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 2), before.at(name)) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, Fp8Ranks, testing::Values("dp", "fsdp"),
                         [](const auto& info) { return std::string(info.param); });

// Weights alone have no scales; by scales of 1 most numbers would be none.
TEST_F(Fp8, EvaluatesCheckpointsAlone) {
    const Outcome outcome =
        program.train(init + " --eval-only --eval-feed '" + fixtures + "/autocast/feed_0.safetensors'");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err.find("numbers of eight bits, whose scales are in checkpoints"), std::string::npos)
        << outcome.err;
}

// A checkpoint of another recipe has other states.
TEST_F(Fp8, RefusesCheckpointsOfOtherRecipes) {
    begin_anew("c_other");
    expect_trained(init + seed + " --steps 1 --checkpoint c_other");
    expect_refused_without_fp8(program.file("c_other"), "delayed");
}

}  // namespace fp8_test
}  // namespace thunderc::tests
