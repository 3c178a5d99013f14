// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/place_random.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace place_random_test {

using testing::functions_of;
using testing::module_of;

std::string placed(const std::string& text, const PlaceRandomOptions& options = {}) {
    Report report;
    Module out = place_random(module_of(text), options, report);
    verify(out);
    return functions_of(out);
}

std::string same(const std::string& text) {
    return functions_of(module_of(text));
}

TEST(PlaceRandom, EachDropoutTakesTheNextNumberAndThoseOfTheRows) {
    EXPECT_EQ(placed(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%z) {
  %y = unplaced_dropout(%x) {rate = 0.25} : f32[2,3]
  %e = exp(%y) : f32[2,3]
  %z = unplaced_dropout(%e) {rate = 0.5} : f32[2,3]
})"),
              same(R"(
func @main(%x: f32[2,3] input "x" {batched}, %sample_numbers: i64[2] input "sample_numbers" {batched, source = "sample_numbers"}, %seed: i64[] scalar "seed") -> (%z) {
  %draw = constant() {value = <i64[] splat 0.0>} : i64[]
  %y = dropout(%x, %seed, %draw, %sample_numbers) {rate = 0.25} : f32[2,3]
  %e = exp(%y) : f32[2,3]
  %draw_1 = constant() {value = <i64[] splat 1.0>} : i64[]
  %z = dropout(%e, %seed, %draw_1, %sample_numbers) {rate = 0.5} : f32[2,3]
})"));
}

// Rows along another axis, several rows of each sample, and what has no rows of the batch.
TEST(PlaceRandom, RowsStandFirst) {
    EXPECT_EQ(placed(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%y) {
  %t = transpose(%x) {permutation = [1,0]} : f32[3,2]
  %y = unplaced_dropout(%t) {rate = 0.5} : f32[3,2]
})"),
              same(R"(
func @main(%x: f32[2,3] input "x" {batched}, %sample_numbers: i64[2] input "sample_numbers" {batched, source = "sample_numbers"}, %seed: i64[] scalar "seed") -> (%y) {
  %t = transpose(%x) {permutation = [1,0]} : f32[3,2]
  %transpose = transpose(%t) {permutation = [1,0]} : f32[2,3]
  %draw = constant() {value = <i64[] splat 0.0>} : i64[]
  %dropout = dropout(%transpose, %seed, %draw, %sample_numbers) {rate = 0.5} : f32[2,3]
  %y = transpose(%dropout) {permutation = [1,0]} : f32[3,2]
})"));
    EXPECT_EQ(placed(R"(
func @main(%x: f32[2,6] input "x" {batched}) -> (%y) {
  %r = reshape(%x) {dims = [6,2]} : f32[6,2]
  %y = unplaced_dropout(%r) {rate = 0.5} : f32[6,2]
})"),
              same(R"(
func @main(%x: f32[2,6] input "x" {batched}, %sample_numbers: i64[2] input "sample_numbers" {batched, source = "sample_numbers"}, %seed: i64[] scalar "seed") -> (%y) {
  %r = reshape(%x) {dims = [6,2]} : f32[6,2]
  %reshape = reshape(%sample_numbers) {dims = [2,1]} : i64[2,1]
  %constant = constant() {value = <i64[] splat 3.0>} : i64[]
  %mul = mul(%reshape, %constant) : i64[2,1]
  %row_of_sample = constant() {value = <i64[1,3] affine 0.0 + [0.0, 1.0]>} : i64[1,3]
  %add = add(%mul, %row_of_sample) : i64[2,3]
  %reshape_1 = reshape(%add) {dims = [6]} : i64[6]
  %draw = constant() {value = <i64[] splat 0.0>} : i64[]
  %y = dropout(%r, %seed, %draw, %reshape_1) {rate = 0.5} : f32[6,2]
})"));
    EXPECT_EQ(placed(R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w") -> (%y) {
  %d = unplaced_dropout(%w) {rate = 0.5} : f32[3]
  %y = mul(%x, %d) : f32[2,3]
})"),
              same(R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w", %sample_numbers: i64[2] input "sample_numbers" {batched, source = "sample_numbers"}, %seed: i64[] scalar "seed") -> (%y) {
  %reshape = reshape(%w) {dims = [1,3]} : f32[1,3]
  %slice = slice(%sample_numbers) {axis = 0, begin = 0, end = 1, step = 1} : i64[1]
  %draw = constant() {value = <i64[] splat 0.0>} : i64[]
  %dropout = dropout(%reshape, %seed, %draw, %slice) {rate = 0.5} : f32[1,3]
  %d = reshape(%dropout) {dims = [3]} : f32[3]
  %y = mul(%x, %d) : f32[2,3]
})"));
}

// The rows of what a draw is combined with are its own, where its operand tells of none: a tensor of the batch's shape.
TEST(PlaceRandom, WhatIsCombinedWithRowsHasThem) {
    const std::string out = placed(R"(
func @main(%x: f32[2,3,4] input "x" {batched}) -> (%y) {
  %shape = constant() {value = <f32[2,3,1] splat 0.0>} : f32[2,3,1]
  %u = unplaced_uniform(%shape) : f32[2,3,1]
  %p = constant() {value = <f32[] splat 0.25>} : f32[]
  %keep = lt(%u, %p) : bool[2,3,1]
  %mask = cast(%keep) {dtype = f32} : f32[2,3,1]
  %y = mul(%x, %mask) : f32[2,3,4]
})");
    EXPECT_NE(out.find("uniform(%seed, %draw, %sample_numbers) {dims = [3, 1]} : f32[2,3,1]"), std::string::npos)
        << out;
    EXPECT_EQ(out.find("slice"), std::string::npos) << out;
    EXPECT_EQ(out.find("unplaced_uniform("), std::string::npos) << out;
}

// Of what was drawn before the rows are known as well, and attention's are those of what it gives.
TEST(PlaceRandom, WhatIsDrawnOfWhatIsDrawn) {
    const std::string twice = placed(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%z) {
  %y = unplaced_dropout(%x) {rate = 0.25} : f32[2,3]
  %z = unplaced_dropout(%y) {rate = 0.5} : f32[2,3]
})");
    EXPECT_NE(twice.find("dropout(%y, %seed, %draw_1, %sample_numbers) {rate = 0.5}"), std::string::npos) << twice;
    // one learned query, for each sequence of the batch
    const std::string pooled = placed(R"(
func @main(%x: f32[2,5,1,4] input "x" {batched}, %q: f32[1,1,1,4] parameter "q") -> (%out) {
  %all = broadcast_to(%q) {dims = [2, 1, 1, 4]} : f32[2,1,1,4]
  %out, %lse = sdpa(%all, %x, %x) {dropout = 0.5, scale = 0.5} : f32[2,1,1,4], f32[2,1,1]
})");
    EXPECT_NE(pooled.find("sdpa(%all, %x, %x, _, %seed, %draw, %sample_numbers)"), std::string::npos) << pooled;
}

// A rate that nothing has is told of.
TEST(PlaceRandom, ARateForNothingIsAWarning) {
    Report report;
    place_random(module_of(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%z) {
  %z = exp(%x) : f32[2,3]
})"),
                 {.dropout = 0.5}, report);
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_EQ(report.notes[0].kind, Note::Kind::warning);
}

// A library has the seed as an input.
TEST(PlaceRandom, ALibraryIsGivenTheSeed) {
    EXPECT_EQ(placed(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%y) {
  %y = unplaced_dropout(%x) {rate = 0.25} : f32[2,3]
})",
                     {.step = false}),
              same(R"(
func @main(%x: f32[2,3] input "x" {batched}, %sample_numbers: i64[2] input "sample_numbers" {batched, source = "sample_numbers"}, %seed: i64[] input "seed" {source = "seed"}) -> (%y) {
  %draw = constant() {value = <i64[] splat 0.0>} : i64[]
  %y = dropout(%x, %seed, %draw, %sample_numbers) {rate = 0.25} : f32[2,3]
})"));
}

TEST(PlaceRandom, TheCommandLineHasTheLastWord) {
    const std::string model = R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%z) {
  %y = unplaced_dropout(%x) {rate = 0.25} : f32[2,3]
  %z = exp(%y) : f32[2,3]
})";
    EXPECT_EQ(placed(model, {.dropout = 0}), same(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%z) {
  %z = exp(%x) : f32[2,3]
})"));
    EXPECT_NE(placed(model, {.dropout = 0.75}).find("{rate = 0.75}"), std::string::npos);
    EXPECT_NE(placed(model, {.dropout = 0.75}).find("%sample_numbers"), std::string::npos);
}

// What has no dropout stays as it is.
TEST(PlaceRandom, NothingIsAdded) {
    const std::string model = R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%z) {
  %z = exp(%x) : f32[2,3]
})";
    EXPECT_EQ(placed(model), same(model));
}

}  // namespace place_random_test
}  // namespace thunderc
