// SPDX-License-Identifier: Apache-2.0
// Which matrices a loop's text holds: those that products read as they are in each iteration.
#include "codegen/program/program.h"
#include "compiler/ir/parse.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace held_matrices_test {

// A recurrent layer of so many steps of (16, 16) states, written out; `inner` is what a step computes of %h and %w.
std::string model_of(int steps, const std::string& inner) {
    std::string ir = R"(
func @main(%x: f32[16,16] input "x" {batched}, %w: f32[16,16] parameter "cell.weight") -> (%y "y") {
  %h0 = tanh(%x) : f32[16,16]
)";
    for (int k = 0; k < steps; ++k) {
        ir += fmt::format("  %m{0} = matmul(%h{0}, %w) {{transpose_a = false, transpose_b = true}} : f32[16,16]\n", k);
        ir += fmt::format(fmt::runtime(inner), k);
        ir += fmt::format("  %h{1} = tanh(%s{0}) : f32[16,16]\n", k, k + 1);
    }
    return ir + fmt::format("  %y = neg(%h{}) : f32[16,16]\n}}", steps);
}

std::string text_of(const std::string& ir) {
    CompileOptions options, naive;
    options.loss = naive.loss = "mse";
    naive.executors = {"reference"};
    const auto compiled = [&](const CompileOptions& o) {
        std::vector<PassRun> runs;
        return run_passes(parse_module("module \"m\" values\n\n" + ir), pipeline(o), runs);
    };
    EmitOptions emit;
    emit.compile = options;
    std::string model;
    for (const OutputFile& file : print_program(compiled(options), compiled(naive), emit))
        if (file.path == "model.cpp") model = file.text;
    return model;
}

const std::string plain = "  %s{0} = add(%m{0}, %h{0}) : f32[16,16]\n";

TEST(HeldMatrices, OfStepsThatReadTheSameWeight) {
    const std::string text = text_of(model_of(6, plain));
    EXPECT_NE(text.find("        const HeldMatrices held({w_cell}, stream);\n        for (std::int64_t layer = 0;"),
              std::string::npos)
        << text;
}

TEST(HeldMatrices, NotOfSoFewSteps) {
    EXPECT_EQ(text_of(model_of(3, plain)).find("HeldMatrices"), std::string::npos);
}

TEST(HeldMatrices, NotOfWhatAKernelReadsToo) {
    const std::string text = text_of(model_of(6, "  %s{0} = add(%m{0}, %w) : f32[16,16]\n"));
    EXPECT_NE(text.find("for (std::int64_t layer = 0; layer < "), std::string::npos) << text;
    EXPECT_EQ(text.substr(0, text.find("void Model::backward")).find("HeldMatrices"), std::string::npos) << text;
}

}  // namespace held_matrices_test
}  // namespace thunderc
