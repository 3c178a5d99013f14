// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/choose_outputs.h"

#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace choose_outputs_test {

using testing::functions_of;
using testing::module_of;

constexpr const char* two = R"(
func @main(%x: f32[3] input "x") -> (%a "first", %b "second") {
  %a = exp(%x) : f32[3]
  %b = tanh(%x) : f32[3]
})";

TEST(ChooseOutputs, TheOthersAreNotComputed) {
    EXPECT_EQ(functions_of(choose_outputs(module_of(two), {"second"})), functions_of(module_of(R"(
func @main(%x: f32[3] input "x") -> (%b "second") {
  %b = tanh(%x) : f32[3]
})")));
}

TEST(ChooseOutputs, TuplesHaveThemByPlace) {
    EXPECT_EQ(functions_of(choose_outputs(module_of(two), {"1"})),
              functions_of(choose_outputs(module_of(two), {"second"})));
    EXPECT_EQ(functions_of(choose_outputs(module_of(two), {"1", "first"})),
              functions_of(choose_outputs(module_of(two), {"second", "first"})));
}

// A name that is a number is that name.
TEST(ChooseOutputs, NamesComeBeforePlaces) {
    constexpr const char* numbered = R"(
func @main(%x: f32[3] input "x") -> (%a "1", %b "0") {
  %a = exp(%x) : f32[3]
  %b = tanh(%x) : f32[3]
})";
    EXPECT_EQ(functions_of(choose_outputs(module_of(numbered), {"1"})), functions_of(module_of(R"(
func @main(%x: f32[3] input "x") -> (%a "1") {
  %a = exp(%x) : f32[3]
})")));
}

TEST(ChooseOutputs, WithoutNamesAllStay) {
    EXPECT_EQ(functions_of(choose_outputs(module_of(two), {})), functions_of(module_of(two)));
}

// What buffers will be is no output: it is neither chosen nor left out.
TEST(ChooseOutputs, BuffersMoveWhateverIsChosen) {
    const std::string head = "func @main(%x: f32[3] input \"x\", %m: f32[3] buffer \"mean\") -> (";
    const std::string move = "  %k = mul(%m, %x) : f32[3]\n}";
    EXPECT_EQ(functions_of(choose_outputs(module_of(head + R"(%a "first", %b "second", %k "mean") {
  %a = exp(%x) : f32[3]
  %b = tanh(%x) : f32[3]
)" + move),
                                          {"second"})),
              functions_of(module_of(head + R"(%b "second", %k "mean") {
  %b = tanh(%x) : f32[3]
)" + move)));
}

TEST(ChooseOutputs, NamesThatThereAreNotAreRefused) {
    auto error = [](const std::vector<std::string>& names) {
        try {
            choose_outputs(module_of(two), names);
        } catch (const UsageError& error) {
            return error.diagnostic().text();
        }
        return std::string();
    };
    EXPECT_EQ(error({"third"}),
              "error: --output third: the model has no output of that name\nhelp: its outputs are first, second\n");
    EXPECT_EQ(error({"2"}),
              "error: --output 2: the model has no output of that name\nhelp: its outputs are first, second\n");
    EXPECT_EQ(error({"0", "first"}), "error: --output first is given twice\nhelp: leave one of the two out\n");
    EXPECT_EQ(error({"first", "first"}), "error: --output first is given twice\nhelp: leave one of the two out\n");
}

}  // namespace choose_outputs_test
}  // namespace thunderc
