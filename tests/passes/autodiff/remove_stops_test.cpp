// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/remove_stops.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace remove_stops_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

Module without(const std::string& text) {
    const Module m = module_of(text);
    Report report;
    Module out = remove_stops(m, report);
    verify(out);
    expect_equal_programs(m, out);
    EXPECT_FALSE(stops_gradients(out));
    EXPECT_EQ(stops_gradients(m), !report.notes.empty());
    return out;
}

TEST(RemoveStops, TheOperandTakesThePlace) {
    EXPECT_EQ(functions_of(without(R"(
func @main(%x: f32[3], %w: f32[3]) -> (%y) {
  %t = stop_gradient(%x) : f32[3]
  %y = mul(%t, %w) : f32[3]
})")),
              functions_of(module_of(R"(
func @main(%x: f32[3], %w: f32[3]) -> (%y) {
  %y = mul(%x, %w) : f32[3]
})")));
}

TEST(RemoveStops, InEveryFunctionAndOneBehindTheOther) {
    EXPECT_EQ(functions_of(without(R"(
func @main(%x: f32[3]) -> (%y, %u) {
  %y = call(%x) {callee = "layer"} : f32[3]
  %t = stop_gradient(%y) : f32[3]
  %u = stop_gradient(%t) : f32[3]
}
func @layer(%x: f32[3]) -> (%y) {
  %t = stop_gradient(%x) : f32[3]
  %y = add(%x, %t) : f32[3]
})")),
              functions_of(module_of(R"(
func @main(%x: f32[3]) -> (%y, %y) {
  %y = call(%x) {callee = "layer"} : f32[3]
}
func @layer(%x: f32[3]) -> (%y) {
  %y = add(%x, %x) : f32[3]
})")));
}

// Differences of the loss move that row, which has no gradient: a parameter's is named, another's is a stop.
TEST(RemoveStops, ARowThatPads) {
    for (const char* op : {"embedding(%w, %ids) {padding_idx = 2}", "gather(%w, %ids) {axis = 0, padding_idx = 2}"})
        for (const bool parameter : {true, false}) {
            const Module m = module_of(std::string("\nfunc @main(%ids: i64[3], %w: f32[4,2]") +
                                       (parameter ? " parameter \"t.weight\"" : "") + ") -> (%y, %z) {\n  %y = " + op +
                                       " : f32[3,2]\n  %z = " + op + " : f32[3,2]\n}\n");
            EXPECT_EQ(stops_gradients(m), !parameter) << op;
            const std::vector<PaddedRow> rows = padded_rows(m);
            ASSERT_EQ(rows.size(), parameter ? 1U : 0U) << op;
            for (const PaddedRow& row : rows) EXPECT_EQ(row.table + std::to_string(row.row), "t.weight2");
        }
}

TEST(RemoveStops, LeavesTheRest) {
    const std::string text = R"(
func @main(%x: f32[3], %w: f32[3]) -> (%y) {
  %y = mul(%x, %w) : f32[3]
})";
    EXPECT_EQ(functions_of(without(text)), functions_of(module_of(text)));
}

}  // namespace remove_stops_test
}  // namespace thunderc
