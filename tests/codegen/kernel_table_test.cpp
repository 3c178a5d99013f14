// SPDX-License-Identifier: Apache-2.0
// Kernels of a program: one for all that are the same but for their names.
#include "codegen/host/kernel_table.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"

namespace thunderc {
namespace kernel_table_test {

// @second differs from @first in a dimension of one element, @third in what it computes.
constexpr const char* text = R"(module "m" values

func @main(%a: f32[2,8], %b: f32[2,8,1], %c: f32[2,8]) -> (%x, %y, %z) {
  %x = fused(%a) {kernel = "first"} : f32[2,8] at "layers.0.norm" [Exp "e"]
  %y = fused(%b) {kernel = "second"} : f32[2,8,1] at "norm" [Exp "f"]
  %z = fused(%c) {kernel = "third"} : f32[2,8] at "head" [Log "l"]
}

func @first(%p: f32[2,8]) -> (%q) kind "kernel:pointwise" scope "layers.0.norm" {
  %q = exp(%p) : f32[2,8]
}

func @second(%p: f32[2,8,1]) -> (%q) kind "kernel:pointwise" scope "norm" {
  %q = exp(%p) : f32[2,8,1]
}

func @third(%p: f32[2,8]) -> (%q) kind "kernel:pointwise" scope "head" {
  %q = log(%p) : f32[2,8]
}
)";

TEST(KernelTable, HasOneKernelForOneText) {
    const Module module = parse_module(text);
    KernelTable table(module);
    std::vector<std::string> names;
    for (const Op& op : module.main().ops) names.push_back(table.use(module.main(), op).name);
    for (const Op& op : module.main().ops) names.push_back(table.use(module.main(), op).name);
    EXPECT_EQ(names, (std::vector<std::string>{"first", "first", "third", "first", "first", "third"}));
    const std::vector<PrintedKernel> all = table.all();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].declaration, "void first(float* q, const float* p, Stream& stream);\n");
    EXPECT_TRUE(
        all[0].definition.starts_with("// first:\n//   q = exp(p)\n// Replaces Exp (layers.0.norm, norm)\nvoid first("))
        << all[0].definition;
    EXPECT_EQ(all[1].formula, std::vector<std::string>{"q = log(p)"});
}

}  // namespace kernel_table_test
}  // namespace thunderc
