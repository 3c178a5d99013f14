// SPDX-License-Identifier: Apache-2.0
// Parameters begin as what they are to the program.
#include "compiler/passes/recognise/choose_init.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace choose_init_test {

using testing::module_of;

// Of the one parameter %w of a function body that takes %x: f32[2,4].
ArgInfo::Init init_of(const std::string& type, const std::string& body) {
    Report report;
    const Module m = choose_init(module_of("func @main(\n    %x: f32[2,4] input \"x\",\n    %w: " + type +
                                           " parameter \"w\") -> (%y) {\n" + body + "\n}\n"),
                                 report);
    verify(m);
    return m.main().argument_info[1].init;
}

TEST(ChooseInit, ScalesBeginAtOne) {
    EXPECT_EQ(init_of("f32[4]", "  %y, %rstd = rms_norm(%x, %w) {eps = 1e-05} : f32[2,4], f32[2]"),
              ArgInfo::Init::ones);
    EXPECT_EQ(init_of("f32[4]", "  %y, %mean, %rstd = layer_norm(%x, %w, _) {eps = 1e-05} : f32[2,4], f32[2], f32[2]"),
              ArgInfo::Init::ones);
    EXPECT_EQ(init_of("f32[4]", "  %y = mul(%x, %w) : f32[2,4]"), ArgInfo::Init::ones);
    EXPECT_EQ(init_of("f32[1,4]", "  %y = div(%x, %w) : f32[2,4]"), ArgInfo::Init::ones);
    EXPECT_EQ(init_of("f32[]", "  %y = mul(%w, %x) : f32[2,4]"), ArgInfo::Init::ones);
}

TEST(ChooseInit, WhatIsAddedBeginsAtZero) {
    EXPECT_EQ(init_of("f32[4]", "  %y, %mean, %rstd = layer_norm(%x, _, %w) {eps = 1e-05} : f32[2,4], f32[2], f32[2]"),
              ArgInfo::Init::zeros);
    EXPECT_EQ(init_of("f32[4]", "  %y = add(%x, %w) : f32[2,4]"), ArgInfo::Init::zeros);
    EXPECT_EQ(init_of("f32[4]", "  %y = sub(%x, %w) : f32[2,4]"), ArgInfo::Init::zeros);
    EXPECT_EQ(init_of("f32[4]", "  %b = reshape(%w) {dims = [1, 4]} : f32[1,4]\n  %y = add(%x, %b) : f32[2,4]"),
              ArgInfo::Init::zeros);
    // (1 + w) scales: w begins at 0, so that the scale begins at 1.
    EXPECT_EQ(init_of("f32[4]",
                      "  %one = constant() {value = <f32[] splat 1.0>} : f32[]\n  %s = add(%w, %one) : f32[4]\n"
                      "  %y = mul(%x, %s) : f32[2,4]"),
              ArgInfo::Init::zeros);
}

TEST(ChooseInit, EverythingElseIsDrawn) {
    // A vector that is a weight of a product: from 1 on, all of it would stay equal.
    EXPECT_EQ(init_of("f32[1,4]", "  %y = linear(%x, %w) : f32[2,1]"), ArgInfo::Init::normal);
    EXPECT_EQ(init_of("f32[4,1]", "  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[2,1]"),
              ArgInfo::Init::normal);
    // A table of positions is added, and is no bias.
    EXPECT_EQ(init_of("f32[2,4]", "  %y = add(%x, %w) : f32[2,4]"), ArgInfo::Init::normal);
    // Used in two ways.
    EXPECT_EQ(init_of("f32[4]", "  %a = add(%x, %w) : f32[2,4]\n  %y = mul(%a, %w) : f32[2,4]"), ArgInfo::Init::normal);
    EXPECT_EQ(init_of("f32[4]", "  %y = tanh(%w) : f32[4]"), ArgInfo::Init::normal);
    EXPECT_EQ(init_of("f32[4]", "  %y = tanh(%x) : f32[2,4]"), ArgInfo::Init::normal);
}

TEST(ChooseInit, IsPartOfThePrintedForm) {
    Report report;
    const std::string text = to_string(choose_init(module_of(R"(func @main(
    %x: f32[2,4] input "x",
    %w: f32[4] parameter "bias",
    %b: f32[4] parameter "weight") -> (%y) {
  %s = mul(%x, %w) : f32[2,4]
  %y = add(%s, %b) : f32[2,4]
})"),
                                                   report));
    // By use, whatever they are called.
    EXPECT_NE(text.find("%w: f32[4] parameter \"bias\" {init = ones}"), std::string::npos) << text;
    EXPECT_NE(text.find("%b: f32[4] parameter \"weight\" {init = zeros}"), std::string::npos) << text;
    EXPECT_EQ(to_string(parse_module(text)), text);
}

}  // namespace choose_init_test
}  // namespace thunderc
