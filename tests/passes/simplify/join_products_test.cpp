// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/join_products.h"

#include <fmt/format.h>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace join_products_test {

using testing::after_pass;
using testing::functions_of;
using testing::module_of;

Module joined(const std::string& text) {
    return after_pass(text, join_products);
}
void expect_unchanged(const std::string& text) {
    EXPECT_EQ(functions_of(joined(text)), functions_of(module_of(text)));
}
void expect_line(const std::string& text, const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

constexpr const char* turned = " {transpose_a = true, transpose_b = false} : f32[8,6]\n";

TEST(JoinProducts, OfTimeStepsAreOne) {
    const std::string text = functions_of(joined(std::string(R"(
func @main(%a: f32[2,8], %b: f32[1,8], %c: f32[2,8], %x: f32[2,6], %y: f32[1,6], %z: f32[2,6]) -> (%sum) {
  %ax = matmul(%a, %x))") + turned + "  %by = matmul(%b, %y)" +
                                                 turned + "  %s = add(%ax, %by) : f32[8,6]\n  %cz = matmul(%c, %z)" +
                                                 turned + "  %sum = add(%s, %cz) : f32[8,6]\n}"));
    expect_line(text, "concat(%a, %b, %c) {axis = 0} : f32[5,8]");
    expect_line(text, "concat(%x, %y, %z) {axis = 0} : f32[5,6]");
    EXPECT_EQ(text.find("add"), std::string::npos) << text;
}

// Along the axes that the factors share, whichever they are.
TEST(JoinProducts, OfEachForm) {
    for (const bool a : {false, true})
        for (const bool b : {false, true}) {
            const std::string first = a ? "f32[2,9]" : "f32[9,2]", second = b ? "f32[9,2]" : "f32[2,9]";
            const std::string product = fmt::format(" {{transpose_a = {}, transpose_b = {}}} : f32[9,9]\n", a, b);
            const std::string text = functions_of(
                joined(fmt::format("func @main(%a: {0}, %b: {0}, %x: {1}, %y: {1}) -> (%sum) {{\n  %ax = matmul(%a, "
                                   "%x){2}  %by = matmul(%b, %y){2}  %sum = add(%ax, %by) : f32[9,9]\n}}",
                                   first, second, product)));
            expect_line(text, fmt::format("concat(%a, %b) {{axis = {}}}", a ? 0 : 1));
            expect_line(text, fmt::format("concat(%x, %y) {{axis = {}}}", b ? 1 : 0));
        }
}

// Gradients of a layer that is called twice, with its bias; what else is added stays.
TEST(JoinProducts, OfALayerThatIsCalledTwice) {
    const std::string text = functions_of(joined(R"(
func @main(%a: f32[1,2,8], %b: f32[1,2,8], %x: f32[1,2,9], %y: f32[1,2,9], %more: f32[8,9]) -> (%dw, %db) {
  %dwa, %dba = linear_backward_weight(%a, %x) {bias = true} : f32[8,9], f32[8]
  %s = add(%dwa, %more) : f32[8,9]
  %dwb, %dbb = linear_backward_weight(%b, %y) {bias = true} : f32[8,9], f32[8]
  %dw = add(%s, %dwb) : f32[8,9]
  %db = add(%dba, %dbb) : f32[8]
})"));
    expect_line(text, "concat(%a, %b) {axis = 0} : f32[2,2,8]");
    expect_line(text, "concat(%x, %y) {axis = 0} : f32[2,2,9]");
    expect_line(text, "%dw = add(%more, ");
    expect_line(text, ", %db = linear_backward_weight(");
    const std::string op = "= linear_backward_weight(";
    EXPECT_EQ(text.find(op), text.rfind(op)) << text;
}

TEST(JoinProducts, OfConvolutionsAndTables) {
    const std::string text = functions_of(joined(R"(
func @main(%a: f32[1,8,2], %b: f32[1,8,2], %x: f32[1,3,2], %y: f32[1,3,2], %d: f32[2,3], %e: f32[2,3], %i: i64[2], %j: i64[2]) -> (%dw, %dt) {
  %dwa = convolution_backward_weight(%a, %x) {before = [1], dilations = [1], groups = 1, strides = [1], window = [3]} : f32[8,3,3]
  %dwb = convolution_backward_weight(%b, %y) {before = [1], dilations = [1], groups = 1, strides = [1], window = [3]} : f32[8,3,3]
  %dw = add(%dwa, %dwb) : f32[8,3,3]
  %dta = embedding_backward(%d, %i) {entries = 40} : f32[40,3]
  %dtb = embedding_backward(%e, %j) {entries = 40} : f32[40,3]
  %dt = add(%dta, %dtb) : f32[40,3]
})"));
    expect_line(text, "concat(%a, %b) {axis = 0} : f32[2,8,2]");
    expect_line(text, "concat(%i, %j) {axis = 0} : i64[4]");
    EXPECT_EQ(text.find("add"), std::string::npos) << text;
}

TEST(JoinProducts, LeavesWhatIsReadElsewhere) {
    expect_unchanged(std::string(R"(
func @main(%a: f32[2,8], %b: f32[2,8], %x: f32[2,6], %y: f32[2,6]) -> (%sum, %ax) {
  %ax = matmul(%a, %x))") +
                     turned + "  %by = matmul(%b, %y)" + turned + "  %sum = add(%ax, %by) : f32[8,6]\n}");
}

TEST(JoinProducts, LeavesResultsOfOtherSums) {
    expect_unchanged(R"(
func @main(%a: f32[2,8], %b: f32[2,8], %x: f32[2,9], %y: f32[2,9]) -> (%dw, %dba, %dbb) {
  %dwa, %dba = linear_backward_weight(%a, %x) {bias = true} : f32[8,9], f32[8]
  %dwb, %dbb = linear_backward_weight(%b, %y) {bias = true} : f32[8,9], f32[8]
  %dw = add(%dwa, %dwb) : f32[8,9]
})");
}

TEST(JoinProducts, LeavesProductsOfManyRows) {
    expect_unchanged(R"(
func @main(%a: f32[30,8], %b: f32[30,8], %x: f32[30,6], %y: f32[30,6]) -> (%sum) {
  %ax = matmul(%a, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %by = matmul(%b, %y) {transpose_a = true, transpose_b = false} : f32[8,6]
  %sum = add(%ax, %by) : f32[8,6]
})");
}

TEST(JoinProducts, LeavesWhatIsRepeated) {
    expect_unchanged(R"(
func @main(%a: f32[9,2], %b: f32[9,2], %x: f32[2,9], %y: f32[2,9], %p: f32[9], %q: f32[1,9]) -> (%sum) {
  %ax = matmul(%a, %x) {transpose_a = false, transpose_b = false} : f32[9,9]
  %s = add(%ax, %p) : f32[9,9]
  %t = add(%s, %q) : f32[9,9]
  %by = matmul(%b, %y) {transpose_a = false, transpose_b = false} : f32[9,9]
  %sum = add(%t, %by) : f32[9,9]
})");
}

TEST(JoinProducts, LeavesAProductThatIsAddedToItself) {
    expect_unchanged(R"(
func @main(%a: f32[2,8], %x: f32[2,6]) -> (%sum) {
  %ax = matmul(%a, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %sum = add(%ax, %ax) : f32[8,6]
})");
}

}  // namespace join_products_test
}  // namespace thunderc
