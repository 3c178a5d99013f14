// SPDX-License-Identifier: Apache-2.0
// What the entry's text declares of views: a view of what it reads alone is of const, as its base is.
#include "codegen/program/program.h"
#include "compiler/ir/parse.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace views_text_test {

Module compiled_text(const std::string& ir, const CompileOptions& options) {
    std::vector<PassRun> runs;
    return run_passes(parse_module("module \"m\" values\n\n" + ir), pipeline(options), runs);
}

// The first rows of a table, backwards, and its sum: rows are looked up in a view of the parameter, which has a name
// too.
TEST(ViewsText, OfAParameterThatAStepReads) {
    CompileOptions options, naive;
    options.loss = naive.loss = "mse";
    naive.executors = {"reference"};
    const std::string ir = R"(
func @main(%x: f32[2,8,4] input "x" {batched}, %t: f32[16,4] parameter "pos.weight") -> (%y "y") {
  %rows = slice(%t) {axis = 0, begin = 0, end = 8, step = 1} : f32[8,4]
  %back = constant() {value = <i64[8] dense [7, 6, 5, 4, 3, 2, 1, 0]>} : i64[8]
  %flip = gather(%rows, %back) {axis = 0} : f32[8,4]
  %all = reduce_sum(%t) {axes = [0], keep_dims = false} : f32[4]
  %z = add(%flip, %all) : f32[8,4]
  %y = add(%x, %z) : f32[2,8,4]
})";
    EmitOptions emit;
    emit.compile = options;
    std::string model;
    for (const OutputFile& file : print_program(compiled_text(ir, options), compiled_text(ir, naive), emit))
        if (file.path == "model.cpp") model = file.text;
    EXPECT_NE(model.find("    const float* const w_pos = at<float>(arenas_.parameters, offset::w_pos);  // (16,4)\n"),
              std::string::npos)
        << model;
    EXPECT_NE(model.find("    const float* const pos = w_pos;  // (8,4)\n"), std::string::npos) << model;
}

}  // namespace views_text_test
}  // namespace thunderc
