// SPDX-License-Identifier: Apache-2.0
// Kernels call sizes and steps by their names, where the number alone could be several of them: T = C = 8.
#include <gtest/gtest.h>

#include "codegen/host/kernel_table.h"
#include "codegen/kernels/cpu/kernels_cpu.h"
#include "codegen/kernels/cuda/kernels_cuda.h"
#include "codegen/symbols.h"
#include "compiler/ir/parse.h"

namespace thunderc {
namespace kernel_sizes_test {

constexpr const char* text = R"(module "m" values

func @main(%ids: i64[2,8] input "ids" {batched, entries = 8}, %table: f32[8,8] parameter "embed") -> (%y "y", %z "z") {
  %x = embedding(%table, %ids) : f32[2,8,8]
  %y = fused(%x) {kernel = "centre"} : f32[2,8,8]
  %z = fused(%x) {kernel = "turn"} : f32[2,8,8]
}

func @centre(%x: f32[2,8,8]) -> (%y) kind "kernel:row_reduction" {
  %reduce_sum = reduce_sum(%x) {axes = [2], keep_dims = true} : f32[2,8,1]
  %count = constant() {value = <f32[] splat 8>} : f32[]
  %mean = div(%reduce_sum, %count) : f32[2,8,1]
  %y = sub(%x, %mean) : f32[2,8,8]
}

func @turn(%x: f32[2,8,8]) -> (%y) kind "kernel:pointwise" {
  %first = slice(%x) {axis = 2, begin = 0, end = 4, step = 1} : f32[2,8,4]
  %second = slice(%x) {axis = 2, begin = 4, end = 8, step = 1} : f32[2,8,4]
  %neg = neg(%second) : f32[2,8,4]
  %y = concat(%neg, %first) {axis = 2} : f32[2,8,8]
}
)";

std::string printed(std::size_t kernel, bool named, bool gpu = false) {
    const Module module = parse_module(text);
    const Symbols symbols(module);
    KernelTable table(module, named ? &symbols : nullptr);
    for (const Op& op : module.main().ops)
        if (op.name == "fused") table.use(module.main(), op);
    return gpu ? table.all_cuda({}).at(kernel).device : table.all().at(kernel).definition;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(KernelSizes, RowsAndWidth) {
    const std::string kernel = printed(0, true);
    EXPECT_TRUE(has(kernel, "constexpr std::int64_t rows = B * T, width = C;")) << kernel;
    EXPECT_TRUE(has(kernel, "const float mean = sum / width;")) << kernel;
}

// What a slice takes of a row is half of it, in the loop and in the address.
TEST(KernelSizes, HalvesOfARow) {
    const std::string kernel = printed(1, true);
    EXPECT_TRUE(has(kernel, "width = C / 2;")) << kernel;
    EXPECT_TRUE(has(kernel, "y_row[c + C / 2] = ")) << kernel;
}

TEST(KernelSizes, NumbersWhereNothingHasAName) {
    EXPECT_TRUE(has(printed(0, false), "constexpr std::int64_t rows = 16, width = 8;")) << printed(0, false);
    EXPECT_TRUE(has(printed(1, false), "y_row[c + 4] = ")) << printed(1, false);
}

// For GPUs the same names, which are ints there: what is no int has none.
TEST(KernelSizes, OnGpusAsWell) {
    const std::string kernel = printed(1, true, true);
    EXPECT_TRUE(has(kernel, "constexpr int rows = B * T, width = C / 2;")) << kernel;
    EXPECT_TRUE(has(kernel, "+ c + C / 2, y2_v);")) << kernel;
    EXPECT_TRUE(has(printed(1, false, true), "+ c + 4, y2_v);")) << printed(1, false, true);
    const std::vector<Symbol> sizes = {{"B", 2, ""}, {"V", std::int64_t{1} << 31, ""}};
    EXPECT_TRUE(has(kernels_cuda_prologue(sizes), "inline constexpr int B = ::B;\n")) << kernels_cuda_prologue(sizes);
}

// A pointer to a row, one to a column, which is stepped through line by line, and a number of the row.
TEST(KernelNames, TellRowsFromColumnsAndNumbers) {
    const auto definition = [](const char* kernel) {
        return print_kernel_cpu(describe_kernel(parse_module(std::string("module \"m\" values\n\n") + kernel).main()))
            .definition;
    };
    const std::string transposed = definition(
        "func @f(%x: f32[4,6], %w: f32[6,4], %r: f32[6,1]) -> (%y) {\n"
        "  %t = transpose(%x) {permutation = [1, 0]} : f32[6,4]\n  %a = mul(%t, %w) : f32[6,4]\n"
        "  %y = mul(%a, %r) : f32[6,4]\n}\n");
    EXPECT_TRUE(has(transposed, "const float* x_column = x + row;")) << transposed;
    EXPECT_TRUE(has(transposed, "const float* w_row = w + row * width;")) << transposed;
    EXPECT_TRUE(has(transposed, "const float r_of_row = r[row];")) << transposed;
    EXPECT_TRUE(has(transposed, "const float a = x_column[c * rows] * w_row[c];")) << transposed;
    // Every other element of a row is no column.
    const std::string sliced = definition(
        "func @f(%x: f32[6,9], %w: f32[6,4]) -> (%y) {\n"
        "  %t = slice(%x) {axis = 1, begin = 0, end = 8, step = 2} : f32[6,4]\n  %y = mul(%t, %w) : f32[6,4]\n}\n");
    EXPECT_TRUE(has(sliced, "x_row[c * 2]")) << sliced;
}

}  // namespace kernel_sizes_test
}  // namespace thunderc
