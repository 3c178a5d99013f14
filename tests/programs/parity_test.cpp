// Whole programs train as PyTorch did: loss and gradient norm of every step, gradients of the first, parameters after
// the last. One program for each row; together the rows try every way in which the fixtures were exported and every
// option that changes what is computed, not each with each.
#include <gtest/gtest.h>

#include "tests/programs/pytorch_numbers.h"

namespace thunderc::tests {
namespace {

struct Case {
    const char *name, *model, *graph, *options, *flags;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.model << "/" << c.graph << " " << c.options << " " << c.flags;
}

const Case cases[] = {
    {"mlp", "mlp", "dynamo.logits", "", ""},
    {"mlp_legacy", "mlp", "legacy.logits", "--executors reference", ""},
    {"mlp_dyn_loss", "mlp", "dyn.loss", "--batch 2", "--grad-accum 2"},
    {"llama1_noopt", "llama1", "noopt.logits", "", ""},
    {"llama2_dynamo", "llama2", "dynamo.logits", "--recompute selective", ""},
    {"llama2_dynamo23_straight", "llama2", "dynamo23.logits", "--no-roll", ""},
    {"llama2_noopt_loss", "llama2", "noopt.loss", "--recompute block", ""},
    // The rows of a batch have different numbers of valid tokens, so the micro-batches have different weights.
    {"llama2_dyn", "llama2", "dyn.logits", "--batch 1 --seq 8", "--grad-accum 2"},
    {"llama2_dyn_loss", "llama2", "dyn.loss", "--batch 1 --seq 8", "--grad-accum 2"},
    {"llama2_fresh_reference", "llama2", "fresh.logits", "--executors reference", "--init params.safetensors"},
    {"llama2_tied", "llama2_tied", "dynamo.logits", "", ""},
    {"llama2_tied_fresh", "llama2_tied", "fresh.logits", "--recompute block --no-weights", "--init params.safetensors"},
    // Nothing in it is known: every call is a kernel that was made for it.
    {"odd", "odd", "tides.loss", "", ""},
    // Carried values that are the graph's input, read by every layer and behind the loop; a weight of all layers and
    // more.
    {"chain", "chain", "dynamo.logits", "", ""},
    {"ladder", "ladder", "dynamo.logits", "", ""},
    {"ladder_straight", "ladder", "dynamo.logits", "--no-roll --recompute block", ""},
    {"llama5", "llama5", "dynamo.logits", "--recompute block", ""},
};

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, WithPyTorch) {
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, c.model, c.graph, c.options);
    ASSERT_TRUE(program.built()) << program.failure();
    std::filesystem::copy_file(program.fixture("params.safetensors"), program.file("params.safetensors"),
                               std::filesystem::copy_options::overwrite_existing);
    const Outcome outcome =
        program.train(program.recipe() + " " + c.flags +
                      " --log run.jsonl --dump-gradients gradients.safetensors --save after.safetensors");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    expect_pytorchs_log(program, program.file("run.jsonl"));
    expect_pytorchs_gradients(program, program.file("gradients.safetensors"));
    expect_pytorchs_updates(program, program.file("after.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Programs, Parity, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace thunderc::tests
