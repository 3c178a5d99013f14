// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/freeze_parameters.h"

#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace freeze_parameters_test {

using testing::module_of;

const char* const program = R"(
func @main(
    %a: f32[2] parameter "embed.weight" {alias 0 = ["head.weight"]},
    %b: f32[2] parameter "layers.0.weight",
    %c: f32[2] parameter "layers.1.weight") -> (%a) {
})";

struct Frozen {
    std::string names, warnings;
};

Frozen frozen(const FreezeOptions& options) {
    Report report;
    Frozen out;
    const Module m = freeze_parameters(module_of(program), options, report);
    for (const ArgInfo& info : m.main().argument_info)
        if (!info.trainable) out.names += name_pattern(info.names) + " ";
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::warning) out.warnings += note.what + ": " + note.text + "\n";
    return out;
}

std::string message(const FreezeOptions& options) {
    try {
        frozen(options);
    } catch (const UsageError& error) {
        return error.diagnostic().text();
    }
    return "";
}

TEST(FreezeParameters, ByName) {
    EXPECT_EQ(frozen({}).names, "");
    EXPECT_EQ(frozen({.freeze = "layers", .train_only = {}}).names, "layers.0.weight layers.1.weight ");
    EXPECT_EQ(frozen({.freeze = "layers.1", .train_only = {}}).names, "layers.1.weight ");
    EXPECT_EQ(frozen({.freeze = "weight", .train_only = {}}).names, "embed.weight layers.0.weight layers.1.weight ");
    EXPECT_EQ(frozen({.freeze = "weight", .train_only = {}}).warnings, "");
}

TEST(FreezeParameters, AllOthers) {
    EXPECT_EQ(frozen({.freeze = {}, .train_only = "layers"}).names, "embed.weight ");
    EXPECT_EQ(frozen({.freeze = {}, .train_only = "layers.0|embed|head"}).names, "layers.1.weight ");
    EXPECT_EQ(frozen({.freeze = {}, .train_only = "weight"}).names, "");
    // What is frozen besides is frozen anyway.
    EXPECT_EQ(frozen({.freeze = "layers.0", .train_only = "layers.1"}).names, "embed.weight layers.0.weight ");
}

TEST(FreezeParameters, TakesATiedOneWhole) {
    EXPECT_EQ(frozen({.freeze = "^embed", .train_only = {}}).names, "embed.weight ");
    EXPECT_EQ(frozen({.freeze = "^embed", .train_only = {}}).warnings,
              "tied parameter: embed.weight is frozen by --freeze, and so is head.weight: they are one tensor\n");
    EXPECT_EQ(frozen({.freeze = "head", .train_only = {}}).names, "embed.weight ");
    EXPECT_EQ(frozen({.freeze = {}, .train_only = "head"}).names, "layers.0.weight layers.1.weight ");
    EXPECT_EQ(frozen({.freeze = {}, .train_only = "head"}).warnings,
              "tied parameter: head.weight is trained by --train-only, and so is embed.weight: they are one tensor\n");
}

TEST(FreezeParameters, Messages) {
    const std::string all = "\nhelp: the parameters are embed.weight, layers.{0..1}.weight\n";
    EXPECT_EQ(message({.freeze = "bias", .train_only = {}}), "error: --freeze bias matches no parameter" + all);
    EXPECT_EQ(message({.freeze = {}, .train_only = "lora_"}), "error: --train-only lora_ matches no parameter" + all);
    EXPECT_EQ(message({.freeze = "layers", .train_only = "weight"}),
              "error: --freeze and --train-only both match layers.{0..1}.weight\n"
              "help: --train-only alone freezes all others; make one of the two expressions narrower\n");
    EXPECT_EQ(message({.freeze = "embed", .train_only = "head"}),
              "error: --freeze and --train-only both match embed.weight\n"
              "help: --train-only alone freezes all others; make one of the two expressions narrower\n");
    EXPECT_EQ(message({.freeze = "(", .train_only = {}}),
              "error: --freeze \"(\" is not a regular expression\n"
              "help: for example: --freeze 'model\\.layers\\.[0-9]+\\..*'\n");
    EXPECT_EQ(message({.freeze = {}, .train_only = "("}),
              "error: --train-only \"(\" is not a regular expression\n"
              "help: for example: --train-only 'model\\.layers\\.[0-9]+\\..*'\n");
}

}  // namespace freeze_parameters_test
}  // namespace thunderc
