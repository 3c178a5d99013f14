// SPDX-License-Identifier: Apache-2.0
// What --batch, --seq and --dim bind, and which inputs have the batch's rows.
#include "compiler/frontend/shared/dimensions.h"

#include <gtest/gtest.h>

namespace thunderc {
namespace dimensions_test {

using Extent = DeclaredInput::Extent;

CompileOptions options(std::int64_t batch, std::map<std::string, std::int64_t> dims = {}) {
    CompileOptions out;
    out.batch = batch;
    for (const auto& [name, value] : dims) out.dims.emplace(name, value);
    return out;
}

// "ids: batch, table"
std::string rows_of(const std::vector<DeclaredInput>& inputs, const CompileOptions& options) {
    std::string out;
    for (const ShapedInput& input : bind_inputs(inputs, options).inputs)
        out += (out.empty() ? "" : ", ") + input.name + (input.batched ? ": batch" : "");
    return out;
}

// torch.export gives each input a name of its own where the code compares products of sizes alone.
TEST(Dimensions, TheBatchUnderSeveralNames) {
    const std::vector<DeclaredInput> inputs = {{"ids", {Extent{0, "s23"}, Extent{16, ""}}},
                                               {"targets", {Extent{0, "s24"}, Extent{16, ""}}}};
    EXPECT_EQ(rows_of(inputs, options(2)), "ids: batch, targets: batch");
    EXPECT_EQ(bind_inputs(inputs, options(2)).symbols, (std::map<std::string, std::int64_t>{{"s23", 2}, {"s24", 2}}));
    // Bound one by one they are what they are called.
    EXPECT_EQ(rows_of(inputs, options(0, {{"s23", 2}, {"s24", 2}})), "ids: batch, targets");
}

TEST(Dimensions, TheBatchIsNotWhatTheFirstInputBeginsWith) {
    const std::vector<DeclaredInput> inputs = {{"anchors", {Extent{9, ""}, Extent{4, ""}}},
                                               {"image", {Extent{0, "batch"}, Extent{8, ""}}},
                                               {"rows", {Extent{0, "batch"}}},
                                               {"temperature", {}}};
    EXPECT_EQ(rows_of(inputs, options(4)), "anchors, image: batch, rows: batch, temperature");
    EXPECT_EQ(rows_of(inputs, options(9)), "anchors, image: batch, rows: batch, temperature");
}

// Where nothing is dynamic, or names alone bind.
TEST(Dimensions, WhatBeginsAsTheFirstInput) {
    const std::vector<DeclaredInput> fixed = {
        {"x", {Extent{4, ""}, Extent{8, ""}}}, {"y", {Extent{4, ""}}}, {"table", {Extent{9, ""}, Extent{8, ""}}}};
    EXPECT_EQ(rows_of(fixed, options(0)), "x: batch, y: batch, table");
    EXPECT_EQ(rows_of(fixed, options(4)), "x: batch, y: batch, table");
    const std::vector<DeclaredInput> named = {
        {"x", {Extent{0, "n"}}}, {"y", {Extent{0, "n"}}}, {"z", {Extent{0, "m"}}}};
    EXPECT_EQ(rows_of(named, options(0, {{"n", 3}, {"m", 3}})), "x: batch, y: batch, z");
}

}  // namespace dimensions_test
}  // namespace thunderc
