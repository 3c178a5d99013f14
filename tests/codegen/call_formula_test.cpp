// SPDX-License-Identifier: Apache-2.0
// What stands at the call of a kernel: its formula in the call's names, or in the kernel's where those would mislead.
#include "codegen/host/call_formula.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"

namespace thunderc {
namespace call_formula_test {

const std::string text = R"(module "m" values

func @main(%a: f32[2,8], %b: f32[2,8]) -> (%s, %t, %p, %q, %w, %d) {
  %s = fused(%a, %b) {kernel = "plus"} : f32[2,8]
  %t = fused(%a, %a) {kernel = "plus"} : f32[2,8]
  %p, %q = fused(%a, %b) {kernel = "two"} : f32[2,8], f32[2,8]
  %w = fused(%a, %b) {kernel = "waves"} : f32[2,8]
  %d = fused(%a, %b) {kernel = "deep"} : f32[2,8]
}

func @plus(%x: f32[2,8], %y: f32[2,8]) -> (%total) kind "kernel:pointwise" {
  %total = add(%x, %y) : f32[2,8]
}

func @two(%x: f32[2,8], %y: f32[2,8]) -> (%total, %product) kind "kernel:pointwise" {
  %total = add(%x, %y) : f32[2,8]
  %product = mul(%x, %y) : f32[2,8]
}

func @waves(%x: f32[2,8], %y: f32[2,8]) -> (%wave) kind "kernel:pointwise" {
  %1 = sin(%x) : f32[2,8]
  %2 = mul(%1, %y) : f32[2,8]
  %3 = sin(%2) : f32[2,8]
  %4 = mul(%3, %y) : f32[2,8]
  %5 = sin(%4) : f32[2,8]
  %6 = mul(%5, %y) : f32[2,8]
  %7 = sin(%6) : f32[2,8]
  %wave = mul(%7, %y) : f32[2,8]
}
)";

// sin(sin(... x)): some 400 characters.
std::string deep_kernel() {
    std::string out = "\nfunc @deep(%x: f32[2,8], %y: f32[2,8]) -> (%z) kind \"kernel:pointwise\" {\n";
    for (int k = 0; k < 80; ++k)
        out += "  %" + (k == 79 ? "z" : std::to_string(k)) + " = sin(%" + (k == 0 ? "x" : std::to_string(k - 1)) +
               ") : f32[2,8]\n";
    return out + "}\n";
}

class FormulaAtTheCall : public ::testing::Test {
  protected:
    FormulaAtTheCall() : module_(parse_module(text + deep_kernel())), kernels_(module_) {
        for (const Op& op : module_.main().ops) kernels_.use(module_.main(), op);
    }

    // "(in the kernel's names)" and the lines.
    std::vector<std::string> lines(std::size_t op, const std::vector<PassedArgument>& inputs,
                                   const std::vector<PassedArgument>& outputs) {
        CallFormula formula = call_formula(kernels_, module_.main(), module_.main().ops[op], inputs, outputs);
        if (formula.kernel_names) formula.lines.insert(formula.lines.begin(), "(in the kernel's names)");
        return formula.lines;
    }

    using Lines = std::vector<std::string>;
    const Lines of_the_kernel = {"(in the kernel's names)", "total = x + y"};
    Module module_;
    KernelTable kernels_;
};

TEST_F(FormulaAtTheCall, HasTheNamesOfTheCall) {
    EXPECT_EQ(lines(0, {{"saved.x"}, {"w.norm"}}, {{"dx"}}), Lines{"dx = saved.x + w.norm"});
    EXPECT_EQ(lines(0, {{"loss"}, {"&arenas_.scalars->dloss"}}, {{"&arenas.scalars->sum"}}),
              Lines{"scalars->sum = loss + scalars->dloss"});
    EXPECT_EQ(lines(2, {{"dy"}, {"dresidual"}}, {{"y"}, {"dx"}}), (Lines{"y = dy + dresidual", "dx = dy * dresidual"}));
}

// The same tensor may be passed twice, two tensors under one name may not.
TEST_F(FormulaAtTheCall, HasOneTensorUnderOneName) {
    EXPECT_EQ(lines(1, {{"z"}, {"z"}}, {{"dx"}}), Lines{"dx = z + z"});
    EXPECT_EQ(lines(0, {{"z"}, {"z"}}, {{"dx"}}), of_the_kernel);
}

TEST_F(FormulaAtTheCall, KeepsTheKernelsNamesForPiecesOfTensors) {
    EXPECT_EQ(lines(0, {{"saved.qkv + NH * HS"}, {"b"}}, {{"dx"}}), of_the_kernel);
    EXPECT_EQ(lines(0, {{"saved.qkv", true}, {"b"}}, {{"dx"}}), of_the_kernel);
    EXPECT_EQ(lines(0, {{"a"}, {"b"}}, {{"qkv", true}}), of_the_kernel);
}

// Written over what it reads: clear in one equation, not where another reads what was there.
TEST_F(FormulaAtTheCall, SaysInPlaceOnlyWhereItIsClear) {
    EXPECT_EQ(lines(0, {{"sum"}, {"loss"}}, {{"sum"}}), Lines{"sum = sum + loss"});
    EXPECT_EQ(lines(2, {{"a"}, {"b"}}, {{"a"}, {"c"}}),
              (Lines{"(in the kernel's names)", "total = x + y", "product = x * y"}));
    EXPECT_EQ(lines(2, {{"a"}, {"b"}}, {{"saved.a"}, {"c"}}), (Lines{"saved.a = a + b", "c = a * b"}));
}

TEST_F(FormulaAtTheCall, IsNoLongerThanIsReadOnTheWay) {
    const std::string wave = "sin(sin(sin(sin(x) * y) * y) * y) * y";
    EXPECT_EQ(lines(3, {{"a"}, {"b"}}, {{"c"}}), Lines{"c = sin(sin(sin(sin(a) * b) * b) * b) * b"});
    EXPECT_EQ(lines(3, {{"a"}, {std::string(80, 'b')}}, {{"c"}}), (Lines{"(in the kernel's names)", "wave = " + wave}));
    EXPECT_EQ(lines(4, {{"saved.a"}, {"b"}}, {{"c"}}), Lines{"the kernel's text begins with its equation"});
}

}  // namespace call_formula_test
}  // namespace thunderc
