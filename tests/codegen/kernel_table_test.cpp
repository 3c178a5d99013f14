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
    EXPECT_TRUE(all[0].definition.starts_with(
        "// first:\n//   q = exp(p)\n// From the graph's Exp (layers.0.norm, norm)\nvoid first("))
        << all[0].definition;
    EXPECT_EQ(all[1].formula, std::vector<std::string>{"q = log(p)"});
}

// What says whether gradients are overwritten is the step's flag, or true: a WriteMode. A model's own bool is a tensor,
// and so is a flag that is computed with.
TEST(KernelTable, TakesTheStepsFlagByValue) {
    const Module module = parse_module(R"(module "m" values

func @main(%d: f32[8] input "d", %g: f32[8] state "grad.w", %first: bool[] scalar "first_micro_step", %own: bool[] input "own") -> (%x, %y, %z, %n) {
  %always = constant() {value = <bool[] splat 1>} : bool[]
  %never = constant() {value = <bool[] splat 0>} : bool[]
  %x = fused(%g, %first, %d) {kernel = "add_up"} : f32[8]
  %y = fused(%g, %always, %d) {kernel = "add_up"} : f32[8]
  %z = fused(%g, %own, %d) {kernel = "add_up"} : f32[8]
  %u = fused(%g, %never, %d) {kernel = "add_up"} : f32[8]
  %n = fused(%g, %first, %d) {kernel = "computes"} : f32[8]
}

func @add_up(%before: f32[8], %flag: bool[], %d: f32[8]) -> (%after) kind "kernel:pointwise" {
  %s = add(%before, %d) : f32[8]
  %after = select(%flag, %d, %s) : f32[8]
}

func @computes(%before: f32[8], %flag: bool[], %d: f32[8]) -> (%after) kind "kernel:pointwise" {
  %not = not(%flag) : bool[]
  %s = add(%before, %d) : f32[8]
  %after = select(%not, %s, %d) : f32[8]
}
)");
    KernelTable table(module);
    std::vector<std::string> declared;
    for (const Op& op : module.main().ops)
        if (op.name == "fused") declared.push_back(table.use(module.main(), op).declaration);
    const std::string by_value =
        "void add_up(float* after, const float* before, const float* d, WriteMode mode, Stream& stream);\n";
    const std::string by_place =
        "(float* after, const float* before, const bool* flag, const float* d, Stream& stream);\n";
    ASSERT_EQ(declared.size(), 5U);
    EXPECT_EQ(declared[0], by_value);
    EXPECT_EQ(declared[1], by_value);
    EXPECT_EQ(declared[2], "void add_up_2" + by_place);
    EXPECT_EQ(declared[3], "void add_up_2" + by_place);
    EXPECT_EQ(declared[4], "void computes" + by_place);
    const std::vector<PrintedKernel> all = table.all();
    ASSERT_EQ(all.size(), 3U);
    EXPECT_NE(all[0].definition.find("const bool overwrite = mode == WriteMode::overwrite;"), std::string::npos)
        << all[0].definition;
    EXPECT_EQ(all[0].formula, std::vector<std::string>{"after = overwrite ? d : before + d"});
    const std::string launcher = table.all_cuda({})[0].launcher;
    EXPECT_NE(launcher.find("before, d, mode);"), std::string::npos) << launcher;
}

// What goes on in its place is one parameter that is read and written; elsewhere, or under another name, it is two.
TEST(KernelTable, HasOneParameterForWhatGoesOnInItsPlace) {
    const Module module = parse_module(R"(module "m" values

func @main(%d: f32[8] input "d", %g: f32[8] state "grad.w", %s: f32[] state "sum", %first: bool[] scalar "first_micro_step") -> (%x) {
  %x = fused(%g, %first, %d) {kernel = "add_up"} : f32[8]
  %y = fused(%g, %first, %d) {kernel = "add_up"} : f32[8]
  %t = fused(%s, %d) {kernel = "sum_up"} : f32[]
  %z = fused(%d, %x) {kernel = "scale"} : f32[8]
}

func @add_up(%dw_before: f32[8], %flag: bool[], %dw: f32[8]) -> (%dw_after) kind "kernel:pointwise" {
  %added = add(%dw_before, %dw) : f32[8]
  %dw_after = select(%flag, %dw, %added) : f32[8]
}

func @sum_up(%loss_sum: f32[], %d: f32[8]) -> (%loss_sum_after) kind "kernel:row_reduction" {
  %sum = reduce_sum(%d) {axes = [0], keep_dims = false} : f32[]
  %loss_sum_after = add(%loss_sum, %sum) : f32[]
}

func @scale(%p: f32[8], %q: f32[8]) -> (%r) kind "kernel:pointwise" {
  %r = mul(%p, %q) : f32[8]
}
)");
    KernelTable table(module);
    std::vector<std::string> declared;
    const auto use = [&](std::size_t k, const std::vector<std::string>& inputs, const std::string& output) {
        declared.push_back(table.use(module.main(), module.main().ops[k], inputs, {output}).declaration);
    };
    use(0, {"g.w", "", "d"}, "g.w");
    use(1, {"g.w", "", "d"}, "other");
    use(2, {"&scalars->loss_sum", "d"}, "&scalars->loss_sum");
    use(3, {"d", "g.w"}, "d");
    EXPECT_EQ(declared, (std::vector<std::string>{
                            "void add_up(float* dw_sum, const float* dw, WriteMode mode, Stream& stream);\n",
                            "void add_up_2(float* dw_after, const float* dw_before, const float* dw, WriteMode mode, "
                            "Stream& stream);\n",
                            "void sum_up(float* loss_sum, const float* d, Stream& stream);\n",
                            "void scale(float* r, const float* p, const float* q, Stream& stream);\n"}));
    const std::vector<PrintedKernel> all = table.all();
    EXPECT_EQ(all[0].formula, std::vector<std::string>{"dw_sum += dw"});
    EXPECT_EQ(all[1].formula, std::vector<std::string>{"dw_after = overwrite ? dw : dw_before + dw"});
    EXPECT_EQ(all[2].formula, std::vector<std::string>{"loss_sum += sum(d)"});
    EXPECT_NE(all[0].definition.find("dw_sum[i] = overwrite ? dw[i] : dw_sum[i] + dw[i];"), std::string::npos)
        << all[0].definition;
    EXPECT_NE(all[2].definition.find("loss_sum[0] = loss_sum_before + sum;"), std::string::npos) << all[2].definition;
    const std::vector<PrintedCudaKernel> cuda = table.all_cuda({});
    EXPECT_NE(cuda[0].launcher.find(", dw_sum, dw, mode);"), std::string::npos) << cuda[0].launcher;
    EXPECT_NE(cuda[0].device.find("Aliased<float> dw_sum, "), std::string::npos) << cuda[0].device;
}

// A tensor has the number that it has where the kernel is called; what has another name there keeps its own.
TEST(KernelTable, NumbersTensorsAsTheCallDoes) {
    const Module module = parse_module(R"(module "m" values

func @main(%a: f32[8], %b: f32[8], %scale: f32[8]) -> (%x) {
  %x = fused(%a, %b, %scale) {kernel = "ratio"} : f32[8]
}

func @ratio(%total: f32[8], %total_1: f32[8], %scale: f32[8]) -> (%x) kind "kernel:pointwise" {
  %d = div(%total, %total_1) : f32[8]
  %x = mul(%d, %scale) : f32[8]
}
)");
    const auto declared = [&](const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
        KernelTable table(module);
        return table.use(module.main(), module.main().ops[0], inputs, outputs).declaration;
    };
    EXPECT_EQ(
        declared({"saved.total_2", "total", "scale_2"}, {"x_4"}),
        "void ratio(float* x_4, const float* total_2, const float* total, const float* scale_2, Stream& stream);\n");
    EXPECT_EQ(
        declared({"total_3", "w.scale", "total_2 + 8"}, {"x"}),
        "void ratio(float* x, const float* total_3, const float* total_1, const float* scale, Stream& stream);\n");
}

// Halves that are computed and a tensor that is copied, side by side: what each is called in its definition, without
// the number of its value; the copy needs no equation. In bf16 it reads as in f32.
TEST(KernelTable, PiecesAreCalledByWhatTheyAre) {
    for (const std::string dtype : {"f32", "bf16"}) {
        const std::string cast = dtype == "f32" ? "" : "  %wide = cast(%x) : f32[2,8]\n";
        const std::string x = dtype == "f32" ? "x" : "wide";
        const Module module =
            parse_module(R"(module "m" values

func @main(%a: )" + dtype +
                         R"([2,8], %b: )" + dtype + R"([2,3]) -> (%y) {
  %y = fused(%a, %b) {kernel = "halves"} : )" +
                         dtype + R"([2,11]
}

func @halves(%x: )" + dtype +
                         R"([2,8], %dv: )" + dtype + R"([2,3]) -> (%y) kind "kernel:pointwise" {
)" + cast + "  %gate = slice(%" +
                         x + R"() {axis = 1, begin = 0, end = 4, step = 1} : f32[2,4]
  %up = slice(%)" + x + R"() {axis = 1, begin = 4, end = 8, step = 1} : f32[2,4]
  %dgate_1 = mul(%gate, %gate) : f32[2,4]
  %dup_2 = mul(%gate, %up) : f32[2,4]
)" +
                         (dtype == "f32"
                              ? "  %y = concat(%dgate_1, %dup_2, %dv) {axis = 1} : f32[2,11]\n"
                              : "  %cast = cast(%dgate_1) : bf16[2,4]\n  %cast_1 = cast(%dup_2) : bf16[2,4]\n"
                                "  %y = concat(%cast, %cast_1, %dv) {axis = 1} : bf16[2,11]\n") +
                         "}\n");
        KernelTable table(module);
        table.use(module.main(), module.main().ops[0]);
        const PrintedKernel printed = table.all()[0];
        EXPECT_EQ(printed.formula, (std::vector<std::string>{"dgate = gate^2", "dup = gate * up", "where gate, up = x",
                                                             "where y = dgate, dup, dv"}))
            << printed.definition;
        EXPECT_EQ(printed.definition.find("x_c"), std::string::npos) << printed.definition;
    }
}

}  // namespace kernel_table_test
}  // namespace thunderc
