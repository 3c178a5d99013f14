// SPDX-License-Identifier: Apache-2.0
// Programs evaluate as PyTorch does in eval() mode: without dropout, batch norms by their running statistics, labels
// that get the largest score counted (scripts/record_evaluation.py). The programs are those of other tests.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace evaluation_test {

struct Case {
    const char *name, *model, *graph, *options, *flags;
    int ranks = 1;
    double tolerance = 1e-6;  // of the loss, which PyTorch computed in f64: some sums of f32; 0: it is another one
    friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

const Case cases[] = {
    {"mlp", "mlp", "dynamo.logits", "", ""},
    {"dropout_dyn", "dropout", "dyn.logits", "--batch 1", "--grad-accum 2"},
    {"batch_norm_dyn", "batch_norm", "dyn.logits", "--batch 6", "--grad-accum 2"},
    {"dp2_batch_norm", "batch_norm", "dyn.logits", "--batch 6 --dp 2", "", 2},
    {"batch_norm_straight", "batch_norm", "dyn.logits", "--batch 6 --no-roll", "--grad-accum 2"},
    {"dropout_straight", "dropout", "dynamo.logits", "--no-roll --recompute block", ""},
    // Parameters are gathered for it: layers in turns, whole units, and two copies of the model.
    {"fsdp2_batch_norm", "batch_norm", "dyn.logits", "--batch 6 --fsdp 2", "", 2},
    {"fsdp2_mlp", "mlp", "dyn.logits", "--batch 2 --fsdp 2", "", 2},
    {"fsdp2_dropout", "dropout", "dyn.logits", "--batch 1 --fsdp 2", "", 2},
    {"fsdp2_dropout_always", "dropout", "dyn.logits", "--batch 1 --fsdp 2 --fsdp-reshard always", "", 2},
    {"hsdp2x2_batch_norm_never", "batch_norm", "dyn.logits", "--batch 3 --hsdp 2x2 --fsdp-reshard never", "", 4},
    {"fsdp2_dropout_never", "dropout", "dyn.logits", "--batch 1 --fsdp 2 --fsdp-reshard never", "", 2},
    {"fsdp2_dropout_straight", "dropout", "dyn.logits", "--batch 1 --fsdp 2 --no-roll", "", 2},
    // Logits in chunks, whose pass in a step makes gradients as well.
    {"mlp_chunks_evaluated", "mlp", "dynamo.logits", "--logits-chunk 2", ""},
    {"fsdp2_dropout_chunks", "dropout", "dyn.logits", "--batch 1 --fsdp 2 --logits-chunk 4", "", 2},
    // Scores are counted by what they are, whichever loss is made of them.
    {"mlp_nll", "mlp", "dynamo.logits", "--loss nll", "", 1, 0},
    {"dropout_counted", "dropout", "dyn.logits", "--batch 1 --token-accuracy", "--grad-accum 2"},
    {"fsdp2_dropout_counted", "dropout", "dyn.logits", "--batch 1 --token-accuracy --fsdp 2", "", 2},
    // Products of bf16, of 2^-9 each, some tens of them in a row.
    {"dropout_bf16", "dropout", "dyn.logits", "--batch 2 --dtype bf16", "", 1, 1e-2},
    {"fsdp2_dropout_bf16", "dropout", "dyn.logits", "--batch 1 --dtype bf16 --fsdp 2", "", 2, 1e-2},
};

class Evaluated : public testing::TestWithParam<Case> {};

TEST_P(Evaluated, AsPyTorchDoes) {
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, c.model, c.graph, c.options, "train", c.ranks);
    ASSERT_TRUE(program.built()) << program.failure();
    const nlohmann::json all = nlohmann::json::parse(read_file(std::string(FIXTURES) + "/evaluation.json"));
    const bool tokens = std::string(c.model) == "dropout";
    for (const auto& [parameters, want] : all.at(c.model).items()) {
        SCOPED_TRACE(parameters);
        const Outcome outcome = program.train("--eval-feed feed.safetensors --eval-only --quiet --init '" +
                                              program.fixture(parameters + ".safetensors").string() + "' " + c.flags);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const nlohmann::json line = nlohmann::json::parse(outcome.out);
        const double loss = line.at("eval_loss"), wanted = want.at("loss");
        if (c.tolerance > 0) {
            EXPECT_NEAR(loss, wanted, c.tolerance * wanted);
        }
        // The one where there are tokens, the other where there are classes.
        EXPECT_EQ(line.contains("eval_perplexity"), tokens);
        const bool counted = !tokens || std::string(c.options).find("--token-accuracy") != std::string::npos;
        EXPECT_EQ(line.contains("eval_accuracy"), counted);
        if (tokens) {
            EXPECT_NEAR(line.at("eval_perplexity").get<double>(), std::exp(loss), 1e-7 * std::exp(loss));
        }
        if (counted) {
            const double labels = want.at("labels"), hits = want.at("hits");
            EXPECT_NEAR(line.at("eval_accuracy").get<double>(), hits / labels, 1e-8);
        }
    }

    // Nothing of a run changes by it: no statistic moves, nothing else is drawn.
    const std::string run = program.recipe() + " --init '" + program.fixture("params.safetensors").string() + "' " +
                            c.flags + " --quiet --save ";
    Outcome outcome = program.train(run + "alone.safetensors");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    outcome = program.train(run + "beside.safetensors --eval-feed feed.safetensors --eval-every 1");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(read_file(program.file("alone.safetensors")) == read_file(program.file("beside.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(Programs, Evaluated,
                         testing::ValuesIn(in_short(cases,
                                                    {"mlp", "dropout_counted", "batch_norm_dyn", "fsdp2_dropout"})),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace evaluation_test
}  // namespace thunderc::tests
