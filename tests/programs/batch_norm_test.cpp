// SPDX-License-Identifier: Apache-2.0
// Batch norms on ranks: each has the statistics of its own part of the batch, and moves running ones of its own, as in
// PyTorch two models that are given the sum of both gradients. Files have the mean of these, or those of the first.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace batch_norm_test {

struct Case {
    const char *name, *sharding;
    friend void PrintTo(const Case& c, std::ostream* out) { *out << c.sharding; }
};

const Case cases[] = {{"dp2_batch_norm", "--dp 2"}, {"fsdp2_batch_norm", "--fsdp 2"}};

class BatchNormOnRanks : public testing::TestWithParam<Case> {};

TEST_P(BatchNormOnRanks, KeepsWhatPyTorchDoes) {
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, "batch_norm", "dyn.logits", std::string("--batch 6 ") + c.sharding, "train",
                                   2);
    ASSERT_TRUE(program.built()) << program.failure();
    std::filesystem::copy_file(program.fixture("params.safetensors"), program.file("params.safetensors"),
                               std::filesystem::copy_options::overwrite_existing);
    for (const std::string buffers : {"average", "first"}) {
        SCOPED_TRACE(buffers);
        std::filesystem::remove_all(program.file("kept"));
        const std::string run = program.recipe() + " --init params.safetensors --log run.jsonl --buffers " + buffers;
        Outcome outcome = program.train(run + " --dump-gradients gradients.safetensors --save after.safetensors");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        expect_pytorchs_log(program, program.file("run.jsonl"));
        expect_pytorchs_gradients(program, program.file("gradients.safetensors"));
        const std::string want = "buffers_of_" + buffers + ".safetensors";
        expect_pytorchs_updates(program, program.file("after.safetensors"), want);
        // From a checkpoint, of which all ranks take the same.
        outcome = program.train(run + " --checkpoint kept --checkpoint-every 2");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        for (const char* later : {"step-00000004", "step-00000005"})
            std::filesystem::remove_all(program.file("kept") / later);
        outcome = program.train(run + " --checkpoint kept --resume --save resumed.safetensors");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        expect_pytorchs_updates(program, program.file("resumed.safetensors"), want);
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, BatchNormOnRanks, testing::ValuesIn(in_short(cases, {"fsdp2_batch_norm"})),
                         [](const auto& info) { return std::string(info.param.name); });

// With --sync-batch-norm two ranks of three rows each have the statistics, the gradients and the running statistics of
// PyTorch's micro-steps of six.
class SyncedNorms : public testing::TestWithParam<Case> {};

TEST_P(SyncedNorms, TakeTheRowsOfAllRanks) {
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, "batch_norm", "dyn.logits",
                                   std::string("--batch 3 --sync-batch-norm ") + c.sharding, "train", 2);
    expect_pytorchs_numbers(program, "--grad-accum 2");
}

const Case synced[] = {{"dp2_synced_norms", "--dp 2"},
                       {"dp2_synced_norms_recompute", "--dp 2 --recompute block"},
                       {"dp2_synced_norms_straight", "--dp 2 --no-roll"},
                       {"fsdp2_synced_norms", "--fsdp 2"}};

INSTANTIATE_TEST_SUITE_P(Programs, SyncedNorms, testing::ValuesIn(in_short(synced, {"fsdp2_synced_norms"})),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace batch_norm_test
}  // namespace thunderc::tests
