// SPDX-License-Identifier: Apache-2.0
// Programs whose update runs beside the next forward pass, in the place that it has there, leave the same bits as those
// that step behind the backward pass: losses, norms, parameters, evaluations, checkpoints and runs that go on from
// them. The programs are those of other tests.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace overlap_test {

struct Case {
    const char *name, *model, *graph, *options, *flags;
    int ranks = 1, micro_steps = 1;
    friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

const Case cases[] = {
    {"mlp", "mlp", "dynamo.logits", "", "--eval-feed feed.safetensors --eval-every 2", 1, 2},
    // Rounding at random tells elements of tensors apart.
    {"bf16_lean", "llama2", "noopt.logits", "--dtype bf16 --master none --grad-dtype bf16 --optim-dtype bf16",
     "--stochastic-rounding --weight-decay 0.1 --group 'norm:lr=1e-3'"},
    // Steps that are skipped, since the loss's scale is too large for them.
    {"f16_asked", "llama2", "noopt.logits", "--dtype f16", "--loss-scale-start 5e5"},
    {"dp2_batch_norm", "batch_norm", "dyn.logits", "--batch 6 --dp 2", "--chaos 5", 2},
    {"batch_norm_straight", "batch_norm", "dyn.logits", "--batch 6 --no-roll", "", 1, 2},
    {"lora_bf16", "lora", "dyn.logits", "--batch 1 --seq 8 --train-only lora_ --dtype bf16 --optim-dtype 8bit", "", 1,
     2},
    {"llama2_8bit", "llama2", "dyn.logits", "--batch 2 --seq 8 --optim-dtype 8bit --optimizer lion", ""},
};

class Overlap : public testing::TestWithParam<Case> {};

// What of the log's lines does not depend on the clock or on what the process takes.
std::vector<nlohmann::json> numbers(const std::filesystem::path& log) {
    std::vector<nlohmann::json> out = read_log(log);
    for (nlohmann::json& line : out)
        for (const char* measured : {"step_ms", "eval_ms", "tokens_per_second", "memory", "mfu"}) line.erase(measured);
    return out;
}

TEST_P(Overlap, LeavesTheSameBits) {
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, c.model, c.graph, c.options, "train", c.ranks);
    ASSERT_TRUE(program.built()) << program.failure();
    const std::string flags =
        std::string("--feed feed.safetensors --steps 6 --lr 1e-2 --checkpoint-every 2 ") + c.flags;
    const auto run = [&](const std::string& name, const std::string& more) {
        std::filesystem::remove(program.file(name + ".jsonl"));
        const Outcome outcome = program.train(flags + " --log " + name + ".jsonl --checkpoint " + name + " --save " +
                                              name + ".safetensors " + more);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return read_file(program.file(name + ".safetensors"));
    };
    for (const char* folder : {"behind", "beside"}) std::filesystem::remove_all(program.file(folder));
    const std::string behind = run("behind", ""), beside = run("beside", "--overlap-update");
    EXPECT_FALSE(behind.empty());
    EXPECT_TRUE(behind == beside);
    const std::vector<nlohmann::json> log = numbers(program.file("behind.jsonl"));
    EXPECT_GE(log.size(), 6U);
    EXPECT_EQ(log, numbers(program.file("beside.jsonl")));
    // From a checkpoint in the middle, before which what was left over was done.
    std::filesystem::remove_all(program.file("beside/step-00000006"));
    EXPECT_TRUE(run("beside", "--overlap-update --resume") == behind);
}

INSTANTIATE_TEST_SUITE_P(Programs, Overlap, testing::ValuesIn(in_short(cases, {"mlp", "bf16_lean", "dp2_batch_norm"})),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(OverlapOptions, ExcludeWhatFollowsEachStep) {
    const GeneratedProgram program("mlp", "mlp", "dynamo.logits", "");
    ASSERT_TRUE(program.built()) << program.failure();
    for (const char* other : {"--no-overlap", "--ema 0.9 --save-ema average.safetensors"}) {
        const Outcome outcome =
            program.train(std::string("--feed feed.safetensors --steps 1 --overlap-update ") + other);
        EXPECT_EQ(outcome.status, 2) << outcome.err;
        EXPECT_NE(
            outcome.err.find("error: --overlap-update leaves the step of the parameters to the next forward pass"),
            std::string::npos)
            << outcome.err;
    }
}

}  // namespace overlap_test
}  // namespace thunderc::tests
