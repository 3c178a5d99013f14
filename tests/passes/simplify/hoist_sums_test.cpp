// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/hoist_sums.h"

#include <fmt/format.h>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace hoist_sums_test {

using testing::after_pass;
using testing::functions_of;
using testing::module_of;

Module hoisted(const std::string& text, const HoistSumsOptions& options = {}) {
    return after_pass(text, [&](Module m, Report& report) { return hoist_sums(std::move(m), options, report); });
}
void expect_unchanged(const std::string& text, const HoistSumsOptions& options = {}) {
    EXPECT_EQ(functions_of(hoisted(text, options)), functions_of(module_of(text)));
}

// A backward loop as differentiate leaves it: %d is what a step's products give, %x what they read.
std::string loop(const std::string& step, const std::string& type = "f32[2,8]", const std::string& sum = "f32[8,6]") {
    return fmt::format(R"(
func @main(%start: f32[2,8], %zero: {1}, %d: 5 x {0}, %x: 5 x f32[2,6]) -> (%dh, %dw) {{
  %dh, %dw = repeat(%start, %zero, %d, %x) {{body = "step", carried = 2, n = 5, per_layer = 2, reverse = true}} : f32[2,8], {1}
}}
func @step(%h: f32[2,8], %sum: {1}, %d: {0}, %x: f32[2,6]) -> (%g, %next) {{
{2}}}
)",
                       type, sum, step);
}

TEST(HoistSums, AProductOfEachStepIsOneBehindTheLoop) {
    EXPECT_EQ(functions_of(hoisted(loop(R"(  %g = mul(%h, %d) : f32[2,8]
  %p = matmul(%g, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
)"))),
              R"(
func @main(%start: f32[2,8], %zero: f32[8,6], %d: 5 x f32[2,8], %x: 5 x f32[2,6]) -> (%dh, %dw_1) {
  %dh, %g = repeat(%start, %d, %x) {body = "step", carried = 1, n = 5, per_layer = 2, reverse = true} : f32[2,8], 5 x f32[2,8]
  %g_1 = stack(%g) : f32[5,2,8]
  %reshape = reshape(%g_1) {dims = [10, 8]} : f32[10,8]
  %x_1 = stack(%x) : f32[5,2,6]
  %reshape_1 = reshape(%x_1) {dims = [10, 6]} : f32[10,6]
  %dw = matmul(%reshape, %reshape_1) {transpose_a = true, transpose_b = false} : f32[8,6]
  %dw_1 = add(%zero, %dw) : f32[8,6]
}

func @step(%h: f32[2,8], %d: f32[2,8], %x: f32[2,6]) -> (%g, %g) {
  %g = mul(%h, %d) : f32[2,8]
}
)");
}

// The sum on either side of the addition; the gradient of a linear layer.
TEST(HoistSums, WhateverTheOrder) {
    for (const char* product :
         {"matmul(%g, %x) {transpose_a = true, transpose_b = false}", "linear_backward_weight(%g, %x)"}) {
        const std::string text = functions_of(hoisted(loop(fmt::format(R"(  %g = mul(%h, %d) : f32[2,8]
  %p = {} : f32[8,6]
  %next = add(%p, %sum) : f32[8,6]
)",
                                                                       product))));
        EXPECT_NE(text.find("carried = 1"), std::string::npos) << text;
    }
}

// ---- what must stay -------------------------------------------------------------------------------------------------

TEST(HoistSums, ASumThatIsReadInTheLoopStays) {
    expect_unchanged(loop(R"(  %p = matmul(%d, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
  %row = matmul(%x, %next) {transpose_a = false, transpose_b = true} : f32[2,8]
  %g = mul(%h, %row) : f32[2,8]
)"));
    expect_unchanged(loop(R"(  %p = matmul(%d, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %twice = mul(%sum, %p) : f32[8,6]
  %next = add(%twice, %p) : f32[8,6]
  %g = mul(%h, %d) : f32[2,8]
)"));
}

// Where activations are computed again, a product stays that reads what would have to be kept; one that reads what is
// there by step goes.
TEST(HoistSums, NothingIsKeptForItWhereActivationsAreComputedAgain) {
    expect_unchanged(loop(R"(  %g = mul(%h, %d) : f32[2,8]
  %t = tanh(%g) : f32[2,8]
  %p = matmul(%t, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
)"),
                     {.collect = false});
    const std::string text = functions_of(hoisted(loop(R"(  %g = mul(%h, %d) : f32[2,8]
  %p = matmul(%d, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
)"),
                                                  {.collect = false}));
    EXPECT_NE(text.find("carried = 1"), std::string::npos) << text;
}

// Many rows in each step: to keep them costs more than the sum.
TEST(HoistSums, ManyRowsStay) {
    expect_unchanged(R"(
func @main(%start: f32[90,8], %zero: f32[8,6], %d: 5 x f32[90,8], %x: 5 x f32[90,6]) -> (%dh, %dw) {
  %dh, %dw = repeat(%start, %zero, %d, %x) {body = "step", carried = 2, n = 5, per_layer = 2, reverse = true} : f32[90,8], f32[8,6]
}
func @step(%h: f32[90,8], %sum: f32[8,6], %d: f32[90,8], %x: f32[90,6]) -> (%g, %next) {
  %g = mul(%h, %d) : f32[90,8]
  %p = matmul(%g, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
}
)");
}

// Columns are summed, not rows; a product of no sum; what the step carries itself is no family.
TEST(HoistSums, OtherProductsStay) {
    expect_unchanged(loop(R"(  %g = mul(%h, %h) : f32[2,8]
  %p = matmul(%d, %x) {transpose_a = false, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
)",
                          "f32[8,2]"));
    expect_unchanged(loop(R"(  %g = mul(%h, %d) : f32[2,8]
  %p = matmul(%h, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
)"));
}

// Another loop runs the same body: it would lose what it carries.
TEST(HoistSums, ABodyOfTwoLoopsStays) {
    expect_unchanged(R"(
func @main(%start: f32[2,8], %zero: f32[8,6], %d: 5 x f32[2,8], %x: 5 x f32[2,6]) -> (%dh2, %dw2) {
  %dh, %dw = repeat(%start, %zero, %d, %x) {body = "step", carried = 2, n = 5, per_layer = 2, reverse = true} : f32[2,8], f32[8,6]
  %dh2, %dw2 = repeat(%dh, %dw, %d, %x) {body = "step", carried = 2, n = 5, per_layer = 2, reverse = true} : f32[2,8], f32[8,6]
}
func @step(%h: f32[2,8], %sum: f32[8,6], %d: f32[2,8], %x: f32[2,6]) -> (%g, %next) {
  %g = mul(%h, %d) : f32[2,8]
  %p = matmul(%g, %x) {transpose_a = true, transpose_b = false} : f32[8,6]
  %next = add(%sum, %p) : f32[8,6]
}
)");
}

}  // namespace hoist_sums_test
}  // namespace thunderc
