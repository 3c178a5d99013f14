// SPDX-License-Identifier: Apache-2.0
// Programs with adapters of low rank (--lora) beside what PEFT trains: from the same base weights and the same
// adapters, in PEFT's files, the same losses, gradients and adapters (scripts/make_lora_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/safetensors.h"
#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace adapters_test {

struct Case {
    const char *name, *adapters, *graph, *options;
    int ranks = 1;
    bool bf16 = false;
    friend void PrintTo(const Case& x, std::ostream* out) { *out << x.name; }
};

std::string folder_of(const Case& c) {
    return std::string(FIXTURES) + "/adapters/" + c.adapters;
}

nlohmann::json reference_of(const Case& c) {
    return nlohmann::json::parse(read_file(folder_of(c) + "/reference.json"));
}

using Numbers = std::map<std::string, std::vector<float>>;

// By the names of files of adapters: of a module that is trained whole other files have the model's own.
Numbers read_numbers(const std::filesystem::path& path) {
    const thunder::SafetensorsFile file(path.string());
    Numbers all;
    for (const thunder::StoredTensor& stored : file.tensors()) {
        const bool has_prefix = stored.name.starts_with("base_model.model.");
        std::vector<float>& values = all[has_prefix ? stored.name : "base_model.model." + stored.name];
        values.resize(stored.elements());
        EXPECT_TRUE(thunder::read_elements(stored, thunder::DType::f32, 0, values.size(), values.data()));
    }
    return all;
}

// |got - want| against |want - from| of each tensor, in the L2 norm.
void expect_near(const Numbers& got, const Numbers& want, const Numbers* from, double tolerance) {
    for (const auto& [name, values] : want) {
        const auto at = got.find(name);
        ASSERT_NE(at, got.end()) << name;
        ASSERT_EQ(at->second.size(), values.size()) << name;
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double d = static_cast<double>(at->second[i]) - values[i];
            const double s = values[i] - (from == nullptr ? 0.0 : static_cast<double>(from->at(name)[i]));
            difference += d * d;
            size += s * s;
        }
        EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(size)) << name;
    }
    EXPECT_EQ(got.size(), want.size());
}

// As many numbers as PEFT trains.
std::size_t elements(const Numbers& numbers) {
    std::size_t sum = 0;
    for (const auto& [name, values] : numbers) sum += values.size();
    return sum;
}

class Adapters : public testing::TestWithParam<Case> {};

TEST_P(Adapters, TrainAsPeftTrainsThem) {
    const Case& c = GetParam();
    const nlohmann::json reference = reference_of(c);
    const std::string base = reference.at("base");
    const GeneratedProgram program(
        c.name, base, c.graph,
        std::string(c.options) + " --seq 8 --device cpu --lora '" + reference.at("lora").get<std::string>() + "'",
        "train", c.ranks, Cpu::native, Compiled::quickly);
    ASSERT_TRUE(program.built()) << program.failure();
    std::filesystem::remove_all(program.file("saved"));
    const Outcome outcome = program.train(
        program.recipe() + " --steps 10 --init '" + program.fixture("params.safetensors").string() +
        "' --init-adapter '" + folder_of(c) +
        "/before' --save-adapter saved --log run.jsonl --dump-gradients gradients.safetensors --memory memory.jsonl "
        "--eval-feed feed.safetensors --eval-every 100");
    ASSERT_EQ(outcome.status, 0) << outcome.err;

    std::vector<nlohmann::json> log = read_log(program.file("run.jsonl"));
    ASSERT_EQ(log.size(), 11U);
    // Behind the last step, without the adapters' dropout.
    const double evaluated = reference.at("eval_loss64");
    EXPECT_NEAR(log.back().at("eval_loss").get<double>(), evaluated, c.bf16 ? 7e-3 : loss_tolerance * 10 * evaluated);
    log.pop_back();
    for (std::size_t step = 0; step < log.size(); ++step) {
        // In bf16 some hundred roundings of 2^-9, at random: as in partly_trained_test.cpp.
        const double growth = std::pow(10.0, static_cast<double>(step) / 9), loss = reference.at("loss64").at(step);
        EXPECT_NEAR(log[step].at("loss").get<double>(), loss, c.bf16 ? 7e-3 : loss_tolerance * growth * loss) << step;
        if (c.bf16) continue;
        const double norm = reference.at("grad_norm64").at(step);
        EXPECT_NEAR(log[step].at("grad_norm").get<double>(), norm, norm_tolerance * growth * norm) << step;
    }
    const Numbers before = read_numbers(folder_of(c) + "/before/adapter_model.safetensors"),
                  after = read_numbers(folder_of(c) + "/after/adapter_model.safetensors"),
                  saved = read_numbers(program.file("saved/adapter_model.safetensors"));
    if (!c.bf16) {
        expect_near(read_numbers(program.file("gradients.safetensors")),
                    read_numbers(folder_of(c) + "/grads.safetensors"), nullptr, gradient_tolerance);
        expect_near(saved, after, &before, update_tolerance);
    }
    // What is frozen has no gradients and no states. Tensors begin at whole cache lines.
    const nlohmann::json memory = read_log(program.file("memory.jsonl")).front();
    EXPECT_LE(memory.at("gradients").get<std::size_t>(), 4 * (elements(before) + 16 * before.size()));
    EXPECT_LE(memory.at("optimizer").get<std::size_t>(), 8 * (elements(before) + 16 * before.size()));

    const auto config = [](const std::filesystem::path& folder) {
        return nlohmann::json::parse(read_file(folder / "adapter_config.json"));
    };
    const nlohmann::json ours = config(program.file("saved")), theirs = config(folder_of(c) + "/after");
    for (const char* key : {"r", "lora_alpha", "use_rslora", "fan_in_fan_out", "modules_to_save", "peft_type", "bias"})
        EXPECT_EQ(ours.at(key), theirs.at(key)) << key;

    // What was written is read again.
    const Outcome again =
        program.train(program.recipe() + " --steps 0 --init '" + program.fixture("params.safetensors").string() +
                      "' --init-adapter saved --save-adapter again");
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(read_file(program.file("again/adapter_model.safetensors")),
              read_file(program.file("saved/adapter_model.safetensors")));
}

std::vector<Case> cases() {
    std::vector<Case> all = {{"adapters_llama", "llama", "dyn.logits", "--batch 2"},
                             {"adapters_llama_dropout", "llama_dropout", "dyn.logits", "--batch 2"},
                             {"adapters_llama_fsdp2", "llama", "dyn.logits", "--batch 1 --fsdp 2", 2}};
    if (full_form) {
        const Case more[] = {
            {"adapters_llama_saved", "llama_saved", "dyn.logits", "--batch 2"},
            {"adapters_llama_dropout_dp2", "llama_dropout", "dyn.logits", "--batch 1 --dp 2", 2},
            {"adapters_llama_dropout_bf16", "llama_dropout", "dyn.logits", "--batch 2 --dtype bf16", 1, true},
            {"adapters_gpt2", "gpt2", "ep_dyn.loss", "--batch 2"},
            {"adapters_llama_bf16", "llama", "dyn.logits", "--batch 2 --dtype bf16", 1, true},
            {"adapters_llama_dp2", "llama", "dyn.logits", "--batch 1 --dp 2", 2},
            {"adapters_llama_bf16_fsdp2", "llama", "dyn.logits", "--batch 1 --fsdp 2 --dtype bf16", 2, true},
            {"adapters_llama_saved_fsdp2", "llama_saved", "dyn.logits", "--batch 1 --fsdp 2 --recompute block", 2},
            {"adapters_gpt2_hsdp", "gpt2", "ep_dyn.loss", "--batch 1 --hsdp 2x1", 2}};
        all.insert(all.end(), std::begin(more), std::end(more));
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Programs, Adapters, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// A base without adapters is what an export and a Hugging Face folder are: these begin as PEFT's do. What is wrong with
// a folder of adapters is said.
TEST(AdaptersOfAProgram, BeginAndAreRefused) {
    const Case c = {"adapters_llama", "llama", "dyn.logits", "--batch 2"};
    const GeneratedProgram program(c.name, "llama2", c.graph, "--batch 2 --seq 8 --device cpu --lora 'r=4,alpha=8'",
                                   "train", 1, Cpu::native, Compiled::quickly);
    ASSERT_TRUE(program.built()) << program.failure();
    const std::string init = " --init '" + program.fixture("params.safetensors").string() + "'";
    const auto start = [&](const std::string& how) {
        return shell(program.folder(), "out/build/train --threads 2 " + program.recipe() + " --steps 1 --seed 7" + how);
    };
    const Outcome begun = start(init + " --save-adapter begun --lr 0 --weight-decay 0");
    ASSERT_EQ(begun.status, 0) << begun.err;
    EXPECT_NE(begun.err.find("\n14 adapters begin as PEFT's: A drawn with seed 7, B 0\n"), std::string::npos)
        << begun.err;
    for (const auto& [name, values] : read_numbers(program.file("begun/adapter_model.safetensors"))) {
        // PEFT's kaiming_uniform_(a=sqrt(5)) is between -1 and 1 over the root of a layer's inputs.
        const bool a = name.find("lora_A") != std::string::npos;
        const double bound = a ? 1 / std::sqrt(static_cast<double>(values.size()) / 4) : 0;
        double most = 0, sum = 0;
        for (const float x : values) {
            most = std::max(most, std::abs(static_cast<double>(x)));
            sum += x;
        }
        EXPECT_LE(most, bound) << name;
        if (!a) continue;
        EXPECT_GT(most, 0.9 * bound) << name;
        // The mean of n numbers is off 0 by bound / sqrt(3 n), four times that in one of 16,000 tensors.
        EXPECT_LT(std::abs(sum), 4 * bound * std::sqrt(static_cast<double>(values.size()) / 3)) << name;
    }
    const std::string folder = folder_of(c) + "/../llama_saved/before";
    const Outcome other = start(init + " --init-adapter '" + folder + "'");
    EXPECT_EQ(other.status, 1);
    EXPECT_NE(other.err.find("adapter_config.json: r is 2, and the program's is 4\n"
                             "help: thunderc train --lora r=2,... writes a program for it\n"),
              std::string::npos)
        << other.err;
    const Outcome none = start(init + " --init-adapter .");
    EXPECT_EQ(none.status, 1);
    EXPECT_NE(none.err.find("error: . has no adapter_config.json\n"), std::string::npos) << none.err;
    const Outcome same = start(init + " --init-adapter begun --save-adapter begun");
    EXPECT_EQ(same.status, 2);
    EXPECT_NE(same.err.find("--save-adapter and --init-adapter are one folder: begun\n"), std::string::npos)
        << same.err;
}

}  // namespace adapters_test
}  // namespace thunderc::tests
