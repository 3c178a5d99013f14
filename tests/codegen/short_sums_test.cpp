// SPDX-License-Identifier: Apache-2.0
// Reductions of a handful of elements are loops, in the text of kernels and in their formulas. What they compute is
// tested in tests/kernels and tests/emulation.
#include "codegen/kernels/short_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/kernels/cpu/kernels_cpu.h"
#include "codegen/kernels/cuda/kernels_cuda.h"
#include "compiler/ir/parse.h"

namespace thunderc {
namespace short_sums_test {

KernelDescription described(const std::string& text) {
    return describe_kernel(parse_module("module \"m\" values\n\n" + text).main());
}

// The sum, or the maximum, of what `body` calls %v, over `terms` rows of 12.
KernelDescription reduction(int terms, const std::string& body, const std::string& op = "reduce_sum") {
    const std::string type = fmt::format("f32[{},12]", terms);
    return described(
        fmt::format("func @f(%x: {0}, %w: {0}, %b: f32[1,12]) -> (%y) {{\n{1}"
                    "  %y = {2}(%v) {{axes = [0], keep_dims = false}} : f32[12]\n}}\n",
                    type, body, op));
}

std::string product_of(int terms) {
    return fmt::format("  %v = mul(%x, %w) : f32[{},12]\n", terms);
}

std::string on_cpu(const KernelDescription& kernel, bool naive = false) {
    return print_kernel_cpu(kernel, {}, {}, {}, naive).definition;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(ShortSums, AreLoops) {
    const std::string text = on_cpu(reduction(6, product_of(6)));
    EXPECT_TRUE(has(text, R"(for (std::int64_t i = begin; i < end; ++i) {
            float y_i = 0.0F;
            for (std::int64_t r = 0; r < 6; ++r) {
                y_i += x[r * n + i] * w[r * n + i];
            }
            y[i] = y_i;
        })"))
        << text;
    EXPECT_TRUE(has(text, "//   y = column_sum(x * w)\n")) << text;
}

TEST(ShortSums, MaximaBeginBelowAll) {
    const std::string text = on_cpu(reduction(4, product_of(4), "reduce_max"));
    EXPECT_TRUE(has(text, "float y_i = -std::numeric_limits<float>::infinity();")) << text;
    EXPECT_TRUE(has(text, "y_i = vec_math::max(y_i, x[r * n + i] * w[r * n + i]);")) << text;
    EXPECT_TRUE(has(text, "//   y = column_max(x * w)\n")) << text;
}

// What is as short without a loop has none, but in naive programs, whose sums are double until they are whole.
TEST(ShortSums, OfTwoElementsAreWrittenOut) {
    const KernelDescription kernel = reduction(2, "  %v = reshape(%x) {dims = [2, 12]} : f32[2,12]\n");
    EXPECT_TRUE(has(on_cpu(kernel), "y[i] = x[i] + x[i + 12];")) << on_cpu(kernel);
    EXPECT_TRUE(has(on_cpu(kernel, true), "double y_i_in_double = 0;")) << on_cpu(kernel, true);
    EXPECT_TRUE(has(on_cpu(kernel, true), "const float y_i = static_cast<float>(y_i_in_double);"))
        << on_cpu(kernel, true);
}

// Each row is told from the first one: of the first one's term, that which all rows read is what it reads itself.
TEST(ShortSums, OfTermsThatDifferOtherwiseAreWrittenOut) {
    const std::string text =
        on_cpu(reduction(4,
                         "  %first = slice(%x) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,12]\n"
                         "  %v = mul(%x, %first) : f32[4,12]\n"));
    EXPECT_FALSE(has(text, "++r")) << text;
    EXPECT_TRUE(has(text, "const float v_4 = x[i + 36] * x1;")) << text;
}

// What is the same in all terms is computed once, before the loop; a value that the loop and another result need is
// there in both.
TEST(ShortSums, ShareWhatDoesNotVary) {
    const std::string text =
        on_cpu(described("func @f(%x: f32[3,12], %b: f32[1,12]) -> (%y, %z) {\n"
                         "  %g = exp(%b) : f32[1,12]\n  %v = mul(%x, %g) : f32[3,12]\n"
                         "  %y = reduce_sum(%v) {axes = [0], keep_dims = false} : f32[12]\n"
                         "  %first = slice(%v) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,12]\n"
                         "  %z = reshape(%first) {dims = [12]} : f32[12]\n}\n"));
    EXPECT_TRUE(has(text, " = vec_math::exp(b[i]);\n")) << text;
    EXPECT_EQ(text.find("vec_math::exp"), text.rfind("vec_math::exp")) << text;
    EXPECT_LT(text.find("vec_math::exp"), text.find("++r")) << text;
    EXPECT_TRUE(has(text, "x[r * n + i]")) << text;
    EXPECT_TRUE(has(text, "= x[i] * g;")) << text;
    EXPECT_TRUE(has(text, "//   y = column_sum(x * g)\n//   z = x1 * g\n//   where g = exp(b)\n")) << text;
}

// A thread of a GPU reads vectors, one for each term, before it takes their elements one by one.
TEST(ShortSums, ReadVectorsOnGpus) {
    const std::string text = print_kernel_cuda(reduction(6, product_of(6))).device;
    EXPECT_TRUE(has(text, "Vec<float, 4> x_v[6];")) << text;
    EXPECT_TRUE(has(text, "for (int r = 0; r < 6; ++r) x_v[r] = load<4>(x + r * n + i);")) << text;
    EXPECT_TRUE(has(text, "y_c += x_v[r][e] * w_2_v[r][e];")) << text;
}

}  // namespace short_sums_test
}  // namespace thunderc
