// SPDX-License-Identifier: Apache-2.0
// Whole programs train as PyTorch did: loss and gradient norm of every step, gradients of the first, parameters after
// the last. One program for each row; together the rows try every way in which the fixtures were exported and every
// option that changes what is computed, not each with each. Some of them once more for a CPU without AVX-512, on
// numbers of threads that share no size evenly; with THUNDERC_TEST_EVERY_CPU=1 in the environment all of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace parity_test {

struct Case {
    const char *name, *model, *graph, *options, *flags;
    int ranks = 1;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.model << "/" << c.graph << " " << c.options << " " << c.flags;
}

const Case cases[] = {
    {"mlp", "mlp", "dynamo.logits", "", ""},
    {"mlp_legacy", "mlp", "legacy.logits", "--executors reference", ""},
    {"mlp_dyn_loss", "mlp", "dyn.loss", "--batch 2", "--grad-accum 2"},
    // Programs of torch.export.
    {"mlp_ep", "mlp", "ep.logits", "", ""},
    {"mlp_ep_dyn_loss", "mlp", "ep_dyn.loss", "--batch 2", "--grad-accum 2"},
    {"llama2_ep", "llama2", "ep.logits", "", ""},
    {"llama2_ep_dyn_loss", "llama2", "ep_dyn.loss", "--batch 1 --seq 8", "--grad-accum 2"},
    {"llama2_tied_ep", "llama2_tied", "ep.logits", "", ""},
    {"gpt2_ep_dyn_loss", "gpt2", "ep_dyn.loss", "--batch 1 --seq 8", "--grad-accum 2"},
    // TorchScript, traced.
    {"mlp_ts", "mlp", "ts.logits", "", ""},
    {"llama2_ts", "llama2", "ts.logits", "--batch 1", "--grad-accum 2"},
    {"llama2_tied_ts", "llama2_tied", "ts.logits", "", ""},
    {"llama2_ts_dp2", "llama2", "ts.logits", "--batch 1 --dp 2", "", 2},
    {"llama2_ts_fsdp2", "llama2", "ts.logits", "--batch 1 --fsdp 2", "", 2},
    {"gpt2_ts", "gpt2", "ts.loss", "--batch 1", "--grad-accum 2"},
    {"gpt2_ts_dp2", "gpt2", "ts.loss", "--batch 1 --dp 2", "", 2},
    {"gpt2_ts_fsdp2", "gpt2", "ts.loss", "--batch 1 --fsdp 2", "", 2},
    {"llama1_noopt", "llama1", "noopt.logits", "", ""},
    {"llama2_dynamo", "llama2", "dynamo.logits", "--recompute selective", ""},
    {"llama2_dynamo23_straight", "llama2", "dynamo23.logits", "--no-roll", ""},
    {"llama2_noopt_loss", "llama2", "noopt.loss", "--recompute block", ""},
    // The rows of a batch have different numbers of valid tokens, so the micro-batches have different weights.
    {"llama2_dyn", "llama2", "dyn.logits", "--batch 1 --seq 8", "--grad-accum 2"},
    {"llama2_dyn_loss", "llama2", "dyn.loss", "--batch 1 --seq 8", "--grad-accum 2"},
    {"llama2_fresh_reference", "llama2", "fresh.logits", "--executors reference", "--init params.safetensors"},
    {"llama2_tied", "llama2_tied", "dynamo.logits", "", ""},
    // Logits that are never whole: of a head of its own, of one that is the table too, with a bias, on ranks.
    {"llama2_chunks", "llama2", "dyn.logits", "--batch 2 --seq 8 --logits-chunk 4", ""},
    {"llama2_tied_chunks", "llama2_tied", "dynamo.logits", "--logits-chunk 5", ""},
    {"gpt2_chunks", "gpt2", "ep_dyn.loss", "--batch 1 --seq 8 --logits-chunk 1", "--grad-accum 2"},
    {"mlp_chunks", "mlp", "dyn.loss", "--batch 2 --logits-chunk 1", "--grad-accum 2"},
    {"llama2_chunks_dp2", "llama2", "ts.logits", "--batch 1 --dp 2 --logits-chunk 4", "", 2},
    {"llama2_chunks_fsdp2", "llama2", "ts.logits", "--batch 1 --fsdp 2 --logits-chunk 4", "", 2},
    {"llama2_tied_fresh", "llama2_tied", "fresh.logits", "--recompute block --no-weights", "--init params.safetensors"},
    // Nothing in it is known: every call is a kernel that was made for it.
    {"odd", "odd", "tides.loss", "", ""},
    // Carried values that are the graph's input, read by every layer and behind the loop; a weight of all layers and
    // more.
    {"chain", "chain", "dynamo.logits", "", ""},
    // Probabilities of exactly 0 and 1, and rows of zeros: gradients at poles and kinks.
    {"saturated", "saturated", "dynamo.loss", "", ""},
    {"saturated_noopt", "saturated", "noopt.loss", "", ""},
    {"ladder", "ladder", "dynamo.logits", "", ""},
    {"ladder_straight", "ladder", "dynamo.logits", "--no-roll --recompute block", ""},
    {"llama5", "llama5", "dynamo.logits", "--recompute block", ""},
    // Some products again, attention too, and some kept; all that saves time kept.
    {"llama5_budget", "llama5", "dynamo.logits", "--recompute auto --memory-budget 230kB", ""},
    {"gpt2_auto", "gpt2", "noopt.loss", "--recompute auto", ""},
    // 201 products of one input: q, k and v of 67 heads, each a module of its own.
    {"heads", "heads", "stripped.logits", "", ""},
    // As they are initialised: the exporter's optimizer dropped biases and merged norms.
    {"fresh_gpt2", "fresh_gpt2", "fresh.logits", "--batch 2 --seq 8", ""},
    {"seedling", "seedling", "fresh.logits", "", ""},
    // Gradients that stop in layers, on the way to a probe, in a straight-through estimator and in a loss; in the
    // target of two views. The exporter's optimizer drops what stops them, and it is put back.
    {"stops_noopt", "stops", "noopt.loss", "", ""},
    {"stops_dynamo", "stops", "dynamo.loss", "--recompute block", ""},
    {"byol_noopt", "byol", "noopt.loss", "", ""},
    {"byol_dynamo", "byol", "dynamo.loss", "--executors reference", ""},
    // A row of the table pads: it has a gradient as a row of the head alone.
    {"padded", "padded", "dynamo.loss", "", ""},
    // The exporter's optimizer copied parameters for each of their uses.
    {"shared_layers", "shared_layers", "fresh.logits", "", ""},
    {"shared_table", "shared_table", "fresh.logits", "--batch 2 --seq 8", ""},
    // In train() mode: what is dropped is drawn again in the backward pass, and the same in two micro-steps as in one.
    {"dropout_dyn", "dropout", "dyn.logits", "--batch 1", "--grad-accum 2"},
    {"dropout_dynamo", "dropout", "dynamo.logits", "--recompute block", ""},
    {"dropout_reference", "dropout", "dyn.logits", "--batch 2 --executors reference", ""},
    // Batch norms in train() mode: by the statistics of each of two micro-batches, in layers of a loop too.
    {"batch_norm_dyn", "batch_norm", "dyn.logits", "--batch 6", "--grad-accum 2"},
    {"batch_norm_noopt", "batch_norm", "noopt.logits", "--no-roll --executors reference", "--grad-accum 2"},
    // Its exporter runs the model once, which moves the statistics in the file.
    {"batch_norm_legacy", "batch_norm", "legacy.logits", "--recompute block --no-weights",
     "--grad-accum 2 --init params.safetensors"},
};

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, WithPyTorch) {
    const Case& c = GetParam();
    expect_pytorchs_numbers(GeneratedProgram(c.name, c.model, c.graph, c.options, "train", c.ranks), c.flags);
}

INSTANTIATE_TEST_SUITE_P(Programs, Parity,
                         testing::ValuesIn(in_short(cases, {"mlp",
                                                            "mlp_legacy",
                                                            "llama2_ep_dyn_loss",
                                                            "llama1_noopt",
                                                            "llama2_dynamo",
                                                            "llama2_noopt_loss",
                                                            "llama2_dyn",
                                                            "odd",
                                                            "llama2_tied_fresh",
                                                            "chain",
                                                            "saturated",
                                                            "llama5",
                                                            "llama5_budget",
                                                            "heads",
                                                            "fresh_gpt2",
                                                            "padded",
                                                            "llama2_tied_chunks",
                                                            "mlp_chunks",
                                                            "stops_dynamo",
                                                            "byol_noopt",
                                                            "shared_layers",
                                                            "dropout_dyn",
                                                            "dropout_dynamo",
                                                            "batch_norm_dyn",
                                                            "batch_norm_legacy"})),
                         [](const auto& info) { return std::string(info.param.name); });

class ParityWithoutAvx512 : public testing::TestWithParam<Case> {};

TEST_P(ParityWithoutAvx512, WithPyTorch) {
    const Cpu cpu = tried_on(Cpu::x86_64_v3);
    if (!runs(cpu)) GTEST_SKIP() << "this CPU runs no program for x86-64-v3";
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, c.model, c.graph, c.options, "train", c.ranks, cpu);
    for (const char* threads : {" --threads 1", " --threads 3", " --threads 7"}) {
        SCOPED_TRACE(threads);
        expect_pytorchs_numbers(program, c.flags + std::string(threads));
    }
}

std::vector<Case> without_avx512() {
    const bool every = std::getenv("THUNDERC_TEST_EVERY_CPU") != nullptr;
    const std::set<std::string> some = {"llama2_dyn", "llama2_fresh_reference", "odd"};
    std::vector<Case> chosen;
    for (const Case& c : cases)
        if (every || some.contains(c.name)) chosen.push_back(c);
    return chosen;
}

INSTANTIATE_TEST_SUITE_P(Programs, ParityWithoutAvx512, testing::ValuesIn(without_avx512()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace parity_test
}  // namespace thunderc::tests
