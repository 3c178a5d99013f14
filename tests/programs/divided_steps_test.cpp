// SPDX-License-Identifier: Apache-2.0
// A step of six rows, as three micro-batches, on two ranks, or both: it is PyTorch's step of six rows, whichever kind
// of file the program was made of. One row has a token less than the others, so that parts of a step have other
// weights.
#include <gtest/gtest.h>

#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace divided_steps_test {

struct Case {
    const char *name, *model, *graph, *options, *flags;
    int ranks = 1;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.model << "/" << c.graph << " " << c.options << " " << c.flags;
}

const Case cases[] = {
    {"llama2_ep_accum3", "llama2", "ep_dyn.loss", "--batch 2 --seq 8", "--grad-accum 3"},
    {"llama2_ep_dp2", "llama2", "ep_dyn.loss", "--batch 3 --seq 8 --dp 2", "", 2},
    {"llama2_ep_fsdp2", "llama2", "ep_dyn.loss", "--batch 3 --seq 8 --fsdp 2", "", 2},
    {"llama2_ep_dp2_accum3", "llama2", "ep_dyn.loss", "--batch 1 --seq 8 --dp 2", "--grad-accum 3", 2},
    {"llama2_ep_fsdp2_accum3", "llama2", "ep_dyn.loss", "--batch 1 --seq 8 --fsdp 2", "--grad-accum 3", 2},
    {"llama2_ts_accum3", "llama2", "ts.logits", "--batch 2", "--grad-accum 3"},
    {"llama2_ts_dp2", "llama2", "ts.logits", "--batch 3 --dp 2", "", 2},
    {"llama2_ts_fsdp2", "llama2", "ts.logits", "--batch 3 --fsdp 2", "", 2},
    {"llama2_ts_dp2_accum3", "llama2", "ts.logits", "--batch 1 --dp 2", "--grad-accum 3", 2},
    {"llama2_ts_fsdp2_accum3", "llama2", "ts.logits", "--batch 1 --fsdp 2", "--grad-accum 3", 2},
    {"gpt2_ep_accum3", "gpt2", "ep_dyn.loss", "--batch 2 --seq 8", "--grad-accum 3"},
    {"gpt2_ep_dp2", "gpt2", "ep_dyn.loss", "--batch 3 --seq 8 --dp 2", "", 2},
    {"gpt2_ep_fsdp2", "gpt2", "ep_dyn.loss", "--batch 3 --seq 8 --fsdp 2", "", 2},
    {"gpt2_ep_dp2_accum3", "gpt2", "ep_dyn.loss", "--batch 1 --seq 8 --dp 2", "--grad-accum 3", 2},
    {"gpt2_ep_fsdp2_accum3", "gpt2", "ep_dyn.loss", "--batch 1 --seq 8 --fsdp 2", "--grad-accum 3", 2},
    {"gpt2_ts_accum3", "gpt2", "ts.loss", "--batch 2", "--grad-accum 3"},
    {"gpt2_ts_dp2", "gpt2", "ts.loss", "--batch 3 --dp 2", "", 2},
    {"gpt2_ts_fsdp2", "gpt2", "ts.loss", "--batch 3 --fsdp 2", "", 2},
    {"gpt2_ts_dp2_accum3", "gpt2", "ts.loss", "--batch 1 --dp 2", "--grad-accum 3", 2},
    {"gpt2_ts_fsdp2_accum3", "gpt2", "ts.loss", "--batch 1 --fsdp 2", "--grad-accum 3", 2},
};

class DividedSteps : public testing::TestWithParam<Case> {};

TEST_P(DividedSteps, AreThoseOfPyTorch) {
    const Case& c = GetParam();
    const GeneratedProgram program(std::string(c.name) + "_six_rows", std::string(c.model) + "/six_rows", c.graph,
                                   c.options, "train", c.ranks, Cpu::native, Compiled::quickly);
    expect_pytorchs_numbers(program, c.flags);
}

INSTANTIATE_TEST_SUITE_P(Programs, DividedSteps, testing::ValuesIn(in_short(cases, {"gpt2_ts_fsdp2_accum3"})),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace divided_steps_test
}  // namespace thunderc::tests
