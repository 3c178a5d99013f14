// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_embedding.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_embedding_test {

TEST(RaiseEmbedding, RowsOfAParameter) {
    Report report;
    EXPECT_EQ(after_pass(raise_embedding, R"(
func @main(%ids: i64[2,3] input "input_ids", %w: f32[7,4] parameter "wte.weight") -> (%y) {
  %y = gather(%w, %ids) {axis = 0} : f32[2,3,4] at "wte" [Gather "g"]
}
)",
                         report),
              text(R"(
func @main(%ids: i64[2,3] input "input_ids", %w: f32[7,4] parameter "wte.weight") -> (%y) {
  %y = embedding(%w, %ids) : f32[2,3,4]
}
)"));
    EXPECT_EQ(notes(report), "done embedding at wte: from Gather\n");
}

TEST(RaiseEmbedding, PositionsAreASlice) {
    EXPECT_EQ(after_pass(raise_embedding, R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[7,4] parameter "wpe.weight") -> (%y) {
  %p = constant() {value = <i64[1,3] affine 2.0 + [0.0, 1.0]>} : i64[1,3]
  %e = gather(%w, %p) {axis = 0} : f32[1,3,4]
  %y = add(%x, %e) : f32[2,3,4]
}
)"),
              text(R"(
func @main(%x: f32[2,3,4] input "x", %w: f32[7,4] parameter "wpe.weight") -> (%y) {
  %s = slice(%w) {axis = 0, begin = 2, end = 5, step = 1} : f32[3,4]
  %e = reshape(%s) {dims = [1, 3, 4]} : f32[1,3,4]
  %y = add(%x, %e) : f32[2,3,4]
}
)"));
}

// The row that is to have no gradient is known to both; a slice of positions that holds it would have to be cut.
TEST(RaiseEmbedding, ARowWithoutGradient) {
    EXPECT_EQ(after_pass(raise_embedding, R"(
func @main(%ids: i64[2] input "input_ids", %w: f32[7,4] parameter "w", %p: f32[7,4] parameter "p") -> (%y, %a, %b) {
  %y = gather(%w, %ids) {axis = 0, padding_idx = 1} : f32[2,4]
  %from1 = constant() {value = <i64[2] affine 1.0 + [1.0]>} : i64[2]
  %from2 = constant() {value = <i64[2] affine 2.0 + [1.0]>} : i64[2]
  %a = gather(%p, %from1) {axis = 0, padding_idx = 1} : f32[2,4]
  %b = gather(%p, %from2) {axis = 0, padding_idx = 1} : f32[2,4]
}
)"),
              text(R"(
func @main(%ids: i64[2] input "input_ids", %w: f32[7,4] parameter "w", %p: f32[7,4] parameter "p") -> (%y, %a, %b) {
  %y = embedding(%w, %ids) {padding_idx = 1} : f32[2,4]
  %from1 = constant() {value = <i64[2] affine 1.0 + [1.0]>} : i64[2]
  %a = embedding(%p, %from1) {padding_idx = 1} : f32[2,4]
  %b = slice(%p) {axis = 0, begin = 2, end = 4, step = 1} : f32[2,4]
}
)"));
}

TEST(RaiseEmbedding, OtherGathersStay) {
    Report report;
    constexpr const char* ir = R"(
func @main(%ids: i64[3] input "ids", %x: f32[7,4] input "x", %w: f32[7,4] parameter "w", %t: f32[7,4,2] parameter "t") -> (%a, %b, %c) {
  %a = gather(%x, %ids) {axis = 0} : f32[3,4]
  %b = gather(%w, %ids) {axis = 1} : f32[7,3] at "b" [Gather "b"]
  %c = gather(%t, %ids) {axis = 0} : f32[3,4,2] at "c" [Gather "c"]
}
)";
    EXPECT_EQ(after_pass(raise_embedding, ir, report), text(ir));
    EXPECT_EQ(notes(report),
              "declined embedding at b: rows are not taken along dimension 0\n"
              "declined embedding at c: the table is not a matrix\n");
}

}  // namespace raise_embedding_test
}  // namespace thunderc
