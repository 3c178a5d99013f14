// SPDX-License-Identifier: Apache-2.0
// A program that somebody edits by hand: what its own tests say then, and that kernels may use the sizes of the model.
#include <gtest/gtest.h>

#include "tests/programs/generated_program.h"

namespace thunderc::tests {
namespace edited_test {
namespace fs = std::filesystem;

// The text with `what` replaced, from `from` on: how often.
int replace(std::string& text, const std::string& what, const std::string& by, std::size_t from = 0) {
    int count = 0;
    for (std::size_t at = text.find(what, from); at != std::string::npos; at = text.find(what, at + by.size()), ++count)
        text.replace(at, what.size(), by);
    return count;
}

// Where tests fail, ctest ends with 8.
void expect_failure(const Outcome& outcome, const std::string& verdict) {
    EXPECT_EQ(outcome.status, 8) << outcome.err;
    EXPECT_NE(outcome.out.find(verdict), std::string::npos) << outcome.out << outcome.err;
}

TEST(EditedProgram, ItsTestsSayWhichJudgementFailed) {
    const GeneratedProgram program("llama1_edited", "llama1", "noopt.logits", "", "train", 1, Cpu::native,
                                   Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const fs::path schedule = program.file("out/model.cpp"), kernels = program.file("out/kernels_cpu.cpp");
    const std::string text = read_file(schedule);
    const std::size_t way_back = text.find("attention_backward({");
    ASSERT_NE(way_back, std::string::npos);
    const std::string scale = ".scale = 0.5F", other = ".scale = 0.9F";

    // a model with another scale, forward and back: the gradients are right, the reference is the old model
    std::string both = text;
    ASSERT_EQ(replace(both, scale, other), 2);
    write_file(schedule, both);
    expect_failure(program.own_tests(),
                   "The gradients are those of the program's own loss, and not those of tests/reference");
    const Outcome alone = program.own_tests("-DREFERENCE=OFF");
    EXPECT_EQ(alone.status, 0) << alone.out << alone.err;

    // the backward pass alone: the loss is the old one, its gradients are wrong
    std::string back = text;
    ASSERT_EQ(replace(back, scale, other, way_back), 1);
    write_file(schedule, back);
    const Outcome wrong = program.own_tests("-DREFERENCE=ON");
    expect_failure(wrong, "the\nmodel is the old one, and what backward computes is wrong.");
    EXPECT_NE(wrong.out.find("FAIL  model.layers.0.self_attn.q_proj.weight: slope of the loss"), std::string::npos)
        << wrong.out;
    EXPECT_EQ(wrong.out.find("lm_head.weight: slope of the loss"), std::string::npos) << wrong.out;

    // a gradient that is never made, without a reference to tell
    std::string missing = text;
    const std::string call = "linear_backward_weight({.dweight = g_lm_head";
    ASSERT_EQ(replace(missing, call, "if (false) " + call), 1);
    write_file(schedule, missing);
    const Outcome lost = program.own_tests("-DREFERENCE=OFF");
    expect_failure(lost, "The gradients are not those of the program's loss");
    EXPECT_NE(lost.out.find("FAIL  lm_head.weight: slope of the loss"), std::string::npos) << lost.out;

    // as it was, with kernels that name sizes
    write_file(schedule, text);
    std::string with_sizes = read_file(kernels);
    const std::string line = "    const Timed timed(";
    ASSERT_GT(replace(with_sizes, line, "    static_assert(B * T > 0 && C % NH == 0 && V > 0);\n" + line), 3);
    write_file(kernels, with_sizes);
    const Outcome restored = program.own_tests("-DREFERENCE=ON");
    EXPECT_EQ(restored.status, 0) << restored.out << restored.err;
}

#ifdef THUNDERC_FULL  // tests/support/full_form.h: each of them builds a program and its tests several times

TEST(EditedProgram, ItsTestsFindWhatIsMissing) {
    const GeneratedProgram program("llama1_missing_edited", "llama1", "noopt.logits", "", "train", 1, Cpu::native,
                                   Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const fs::path schedule = program.file("out/model.cpp");
    const std::string text = read_file(schedule);

    // a gradient that each micro-batch writes anew, where it should add to what the one before left
    std::string last_alone = text;
    const std::string adds = ".mode = mode,";
    const std::size_t head = text.find("linear_backward_weight({.dweight = g_lm_head"), sum = text.find(adds, head);
    ASSERT_LT(sum, text.find("stream);", head));
    last_alone.erase(sum, adds.size());
    write_file(schedule, last_alone);
    const Outcome unsummed = program.own_tests("-DREFERENCE=ON");
    expect_failure(unsummed, "the\nmodel is the old one, and what backward computes is wrong.");
    EXPECT_NE(unsummed.out.find("FAIL  lm_head.weight: relative error"), std::string::npos) << unsummed.out;

    // forward alone, without the residual that attention is added to: another model, and gradients that are the old
    // one's
    std::string forward = text;
    ASSERT_EQ(replace(forward, ".residual = embed_tokens, ", ""), 1);
    write_file(schedule, forward);
    expect_failure(program.own_tests("-DREFERENCE=ON"),
                   "loss: forward was changed, and backward is not the derivative of what it computes now.");

    // a gradient that is never made, here as in the reference: as if thunderc had lost it
    const fs::path naive_schedule = program.file("out/tests/reference/model.cpp");
    const std::string naive = read_file(naive_schedule);
    std::string naive_missing = naive, both_missing = text;
    const std::string naive_call = "grad_lm_head_weight_after_gradient(g_lm_head";
    ASSERT_EQ(replace(naive_missing, naive_call, "if (false) " + naive_call), 1);
    ASSERT_EQ(replace(both_missing, "linear_backward_weight({.dweight = g_lm_head",
                      "if (false) linear_backward_weight({.dweight = g_lm_head"),
              1);
    write_file(naive_schedule, naive_missing);
    write_file(schedule, both_missing);
    expect_failure(program.own_tests("-DREFERENCE=ON"), "thunderc has derived it wrongly");
    write_file(naive_schedule, naive);
    write_file(schedule, text);
}

// The loss of a model that stops gradients moves by more than its gradients say: differences judge nothing.
TEST(EditedProgram, ThatStopsGradientsIsJudgedByItsReferenceAlone) {
    const GeneratedProgram program("byol_edited", "byol", "noopt.loss", "", "train", 1, Cpu::native, Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome whole = program.own_tests("-DREFERENCE=ON");
    EXPECT_EQ(whole.status, 0) << whole.out << whole.err;

    const fs::path schedule = program.file("out/model.cpp");
    const std::string text = read_file(schedule), call = "layers_0_0_weight_gradient(g_predictor,";
    std::string missing = text;
    ASSERT_EQ(replace(missing, call, "if (false) " + call), 1);
    write_file(schedule, missing);
    const Outcome edited = program.own_tests("-DREFERENCE=ON");
    expect_failure(edited, "nothing is left to judge it by, since the model stops gradients");
    EXPECT_NE(edited.out.find("FAIL  predictor.weight: relative error"), std::string::npos) << edited.out;
    EXPECT_EQ(edited.out.find("slope of the loss"), std::string::npos) << edited.out;

    expect_failure(program.own_tests("-DREFERENCE=OFF"),
                   "the model stops gradients, which differences of its loss would show");
    write_file(schedule, text);
}

// A table with a row that pads: differences leave the row as it is, and judge all else.
TEST(EditedProgram, DifferencesHoldRowsThatPad) {
    const GeneratedProgram program("padded_edited", "padded", "noopt.loss", "", "train", 1, Cpu::native,
                                   Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome whole = program.own_tests("-DREFERENCE=OFF");
    EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
    const fs::path spec = program.file("out/spec.cpp");
    const std::string text = read_file(spec);

    std::string moved = text;
    ASSERT_EQ(replace(moved, ".padded_rows = PADDED_ROWS,", ".padded_rows = {},"), 1);
    write_file(spec, moved);
    expect_failure(program.own_tests("-DREFERENCE=OFF"), "FAIL  along a random direction");

    write_file(spec, text);
}

#endif

}  // namespace edited_test
}  // namespace thunderc::tests
