// SPDX-License-Identifier: Apache-2.0
// The schedules that no program of the tests is built from: a compiler takes their text without a warning.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "codegen/program/program.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace ranks_compile_test {
namespace fs = std::filesystem;

struct Case {
    const char *name, *model, *freeze;
    Mesh mesh;
    const char* reshard;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class RanksCompile : public testing::TestWithParam<Case> {};

TEST_P(RanksCompile, TakesTheSchedule) {
    const Case& c = GetParam();
    CompileOptions o;
    o.mesh = c.mesh;
    o.reshard = c.reshard;
    o.freeze = c.freeze;
    CompileOptions naive = o;
    naive.executors = {"reference"};
    naive.mesh = {};
    EmitOptions emit;
    emit.compile = o;
    const std::string model = std::string(c.model) + "/dynamo.logits.onnx";
    const fs::path folder = fs::path(testing::TempDir()) / (std::string("ranks_compile_") + c.name);
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const OutputFile& file : print_program(compiled(model, o), compiled(model, naive), emit))
        if (file.path == "model.cpp" || (file.path.ends_with(".h") && file.path.find('/') == std::string::npos))
            std::ofstream(folder / file.path) << file.text;
    const std::string command = std::string(CXX_COMPILER) + " -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I '" +
                                FIXTURES + "/../../runtime-lib' -I '" + folder.string() + "' '" +
                                (folder / "model.cpp").string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    fs::remove_all(folder);
}

// Two units in one loop, forward and back; layers that stand outside of their loop; no call that names a flag.
INSTANTIATE_TEST_SUITE_P(All, RanksCompile,
                         testing::Values(Case{"two_units", "llama5", "q_proj", {1, 2}, "forward"},
                                         Case{"two_units_of_copies", "llama5", "q_proj|norm", {2, 2}, "always"},
                                         Case{"split_layers", "llama5", "layers.[02]", {2, 2}, "never"},
                                         Case{"no_flag", "chain", "", {1, 3}, "forward"},
                                         Case{"copies", "mlp", "", {2, 1}, "forward"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace ranks_compile_test
}  // namespace thunderc
