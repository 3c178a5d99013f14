// SPDX-License-Identifier: Apache-2.0
// What `thunderc bisect` lists and refuses. What it finds: tests/bisect.
#include <gtest/gtest.h>

#include "tests/commands/commands_test.h"

namespace thunderc {
namespace bisect_test {

using namespace commands;

class Bisect : public Commands {
  protected:
    const std::string mlp_ = fixtures + "/mlp/noopt.loss.onnx";
};

TEST_F(Bisect, ListsDecisionsWithTheirNumbers) {
    const Ran ran = run("bisect " + mlp_ + " --list");
    EXPECT_EQ(ran.status, 0);
    EXPECT_TRUE(
        ran.out.starts_with("    1  attach_epilogues: activation in net.0: relu of linear\n"
                            "    2  attach_epilogues: activation in net.2: tanh of linear_2\n"))
        << ran.out;
    EXPECT_EQ(ran.err, "");
}

TEST_F(Bisect, RefusesMoreDecisionsThanThereAre) {
    const std::string help = "help: thunderc bisect --list prints them with their numbers\n";
    EXPECT_EQ(run("train " + mlp_ + " --decisions 24 --quiet -o all").status, 0);
    Ran ran = run("train " + mlp_ + " --decisions 25 -o out");
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.err, "error: --decisions 25: the compiler takes 24 decisions for this model\n" + help);
    EXPECT_FALSE(fs::exists("out"));
    ran = run("train " + mlp_ + " --without-decision 25 -o out");
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.err, "error: --without-decision 25: the compiler takes 24 decisions for this model\n" + help);
    ran = run("bisect " + mlp_ + " --decisions 25");
    EXPECT_EQ(ran.status, 2);
    // Nothing is said to be built.
    EXPECT_EQ(ran.err, "error: --decisions 25: the compiler takes 24 decisions for this model\n" + help);
}

TEST_F(Bisect, RefusesWhatIsNoSearch) {
    for (const auto& [arguments, says] : {std::pair{"--steps 0", "--steps: 0 is not a whole number from 1 to 100000"},
                                          {"--tolerance 0", "--tolerance: 0 is not a number above 0"},
                                          {"--tolerance 1e-9",
                                           "--tolerance 1e-09 is less than the 1.2e-07 from one number of f32 to the "
                                           "next, and losses are f32\nhelp: "},
                                          {"--against torch", "--against: torch is not among reference"},
                                          {"--dp 2", "--dp"}}) {
        const Ran ran = run("bisect " + mlp_ + " " + arguments);
        EXPECT_EQ(ran.status, 2) << arguments;
        EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
    }
    const Ran ran = run("train " + mlp_ + " --without-decision 0 -o out");
    EXPECT_EQ(ran.status, 2);
}

TEST_F(Bisect, SaysWhichFileIsNotThere) {
    for (const std::string option : {"--feed", "--init"}) {
        const Ran ran = run("bisect " + mlp_ + " " + option + " nosuch.safetensors");
        EXPECT_EQ(ran.status, 1);
        EXPECT_EQ(ran.err, "error: " + option +
                               ": there is no nosuch.safetensors\nhelp: check the name, or leave it out: batches and "
                               "parameters are drawn then\n");
    }
}

// A model that nothing is trained of has no steps to be compared.
TEST_F(Bisect, RefusesAModelWithoutParameters) {
    const Ran ran = run("bisect " + fixtures + "/frontend/no_gradient.onnx");
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.starts_with("error: ")) << ran.err;
    EXPECT_NE(ran.err.find("\nhelp: "), std::string::npos) << ran.err;
}

TEST_F(Bisect, SaysThatThereIsNoCMake) {
    const std::string path = ::getenv("PATH");
    ::setenv("PATH", "/nowhere", 1);
    const Ran ran = run("bisect " + mlp_);
    ::setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "building the program of 24 decisions and its reference\n"
              "error: cmake is not in PATH: no program of a search can be built\n"
              "help: install CMake and a C++ compiler; --list prints the decisions without building anything\n");
}

}  // namespace bisect_test
}  // namespace thunderc
