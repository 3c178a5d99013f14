// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/check_outputs.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace check_outputs_test {

using testing::functions_of;
using testing::module_of;

std::string message(const std::string& text) {
    const Module m = module_of(text);
    Report report;
    try {
        EXPECT_EQ(functions_of(check_outputs(m, report)), functions_of(m));
    } catch (const UserError& error) {
        return error.diagnostic().message;
    }
    return "";
}

TEST(CheckOutputs, RefusesAProgramThatComputesNothing) {
    EXPECT_EQ(message("func @main(%x: f32[0,3] input \"x\") -> (%y \"y\") {\n  %y = neg(%x) : f32[0,3]\n}"),
              "the output y has no elements");
}

TEST(CheckOutputs, TakesOneBesideOthers) {
    EXPECT_EQ(message("func @main(%x: f32[0,3] input \"x\", %z: f32[2] input \"z\") -> (%y \"y\", %a \"a\") {\n"
                      "  %y = neg(%x) : f32[0,3]\n  %a = neg(%z) : f32[2]\n}"),
              "");
}

}  // namespace check_outputs_test
}  // namespace thunderc
