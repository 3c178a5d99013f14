// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/batch_share.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"

namespace thunderc {
namespace {

// What the last value of `main` is to a batch: "rows 0", "rows 0 in 3 runs, mixed", "sum".
std::string share_of(const std::string& ops, const std::string& arguments = "%x: f32[2,3,4] input \"x\" {batched}") {
    const Module module =
        parse_module("module \"m\" values\nfunc @main(" + arguments + ") -> (%y) {\n" + ops + "\n}\n");
    verify(module);
    const Function& main = module.main();
    const BatchShare share = batch_shares(main)[main.results[0].index];
    constexpr const char* kinds[] = {"same", "rows", "sum", "mean", "other"};
    std::string out = kinds[static_cast<std::size_t>(share.kind)];
    if (share.kind == BatchShare::Kind::rows) out += fmt::format(" {}", share.axis);
    if (share.outer != 1) out += fmt::format(" in {} runs", share.outer);
    return out + (share.mixed ? ", mixed" : "");
}

const std::string time_major = "%t = transpose(%x) {permutation = [1, 0, 2]} : f32[3,2,4]\n";
const std::string folded = time_major + "%f = reshape(%t) {dims = [6, 4]} : f32[6,4]\n";

TEST(BatchShare, RowsAreFollowed) {
    EXPECT_EQ(share_of("%y = neg(%x) : f32[2,3,4]"), "rows 0");
    EXPECT_EQ(share_of("%y = reshape(%x) {dims = [6, 4]} : f32[6,4]"), "rows 0");
    EXPECT_EQ(share_of("%y = transpose(%x) {permutation = [1, 0, 2]} : f32[3,2,4]"), "rows 1");
    EXPECT_EQ(share_of("%y = reduce_mean(%x) {axes = [1], keep_dims = false} : f32[2,4]"), "rows 0");
    EXPECT_EQ(share_of("%y = reduce_sum(%x) {axes = [0, 1, 2], keep_dims = false} : f32[]"), "sum");
    EXPECT_EQ(share_of("%y = reduce_mean(%x) {axes = [0, 1, 2], keep_dims = false} : f32[]"), "mean");
    EXPECT_EQ(share_of("%y = softmax(%x) {axis = 0} : f32[2,3,4]"), "rows 0, mixed");
    EXPECT_EQ(share_of("%y = softmax(%x) {axis = 1} : f32[2,3,4]"), "rows 0");
}

// Time first, as recurrent layers and MultiheadAttention have it, folded into one axis and back.
TEST(BatchShare, RunsOfRows) {
    EXPECT_EQ(share_of(time_major + "%y = reshape(%t) {dims = [6, 4]} : f32[6,4]"), "rows 0 in 3 runs");
    EXPECT_EQ(share_of(folded + "%y = reshape(%f) {dims = [3, 2, 4]} : f32[3,2,4]"), "rows 1");
    EXPECT_EQ(share_of(folded + "%y = reshape(%f) {dims = [3, 4, 2]} : f32[3,4,2]"), "rows 1");
    EXPECT_EQ(share_of(folded + "%y = reshape(%f) {dims = [24]} : f32[24]"), "rows 0 in 3 runs");
    EXPECT_EQ(share_of(folded + "%y = transpose(%f) {permutation = [1, 0]} : f32[4,6]"), "rows 1 in 3 runs");
    EXPECT_EQ(share_of(folded + "%y = reduce_sum(%f) {axes = [1], keep_dims = false} : f32[6]"), "rows 0 in 3 runs");
    EXPECT_EQ(share_of(folded + "%y = reduce_sum(%f) {axes = [0, 1], keep_dims = false} : f32[]"), "sum");
    EXPECT_EQ(share_of(folded + "%y = reduce_mean(%f) {axes = [0, 1], keep_dims = false} : f32[]"), "mean");
    EXPECT_EQ(share_of(folded + "%y = reduce_max(%f) {axes = [0], keep_dims = false} : f32[4]"), "other");
    EXPECT_EQ(share_of(folded + "%y = softmax(%f) {axis = 0} : f32[6,4]"), "rows 0 in 3 runs, mixed");
    EXPECT_EQ(share_of(folded + "%y = linear(%f, %w) : f32[6,5]",
                       "%x: f32[2,3,4] input \"x\" {batched}, %w: f32[5,4] parameter \"w\""),
              "rows 0 in 3 runs");
    // A group of rows that is not all of a run's.
    EXPECT_EQ(share_of(folded + "%y = reshape(%f) {dims = [2, 3, 4]} : f32[2,3,4]"), "other");
}

// A batch of one row: its dimension looks like any other of one element, and what is said is the same as of two.
TEST(BatchShare, ABatchOfOneRow) {
    const std::string x = "%x: f32[1,3,4] input \"x\" {batched}";
    const std::string turned = "%t = transpose(%x) {permutation = [1, 0, 2]} : f32[3,1,4]\n";
    const std::string flat = "%f = reshape(%x) {dims = [3, 4]} : f32[3,4]\n",
                      runs = turned + "%f = reshape(%t) {dims = [3, 4]} : f32[3,4]\n";
    const auto of = [&](const std::string& ops) { return share_of(ops, x); };
    EXPECT_EQ(of("%y = neg(%x) : f32[1,3,4]"), "rows 0");
    EXPECT_EQ(of("%y = reshape(%x) {dims = [3, 4]} : f32[3,4]"), "rows 0");
    EXPECT_EQ(of("%y = reshape(%x) {dims = [1, 12]} : f32[1,12]"), "rows 0");
    EXPECT_EQ(of("%y = reshape(%x) {dims = [1, 1, 3, 4]} : f32[1,1,3,4]"), "rows 0");
    EXPECT_EQ(of(flat + "%y = reshape(%f) {dims = [1, 3, 2, 2]} : f32[1,3,2,2]"), "rows 0");
    EXPECT_EQ(of(flat + "%y = reshape(%f) {dims = [12]} : f32[12]"), "rows 0");
    EXPECT_EQ(of(turned + "%y = neg(%t) : f32[3,1,4]"), "rows 1");
    EXPECT_EQ(of(turned + "%y = reshape(%t) {dims = [3, 2, 2]} : f32[3,2,2]"), "rows 1");  // heads behind it
    EXPECT_EQ(of(turned + "%y = reshape(%t) {dims = [3, 4]} : f32[3,4]"), "rows 0 in 3 runs");
    EXPECT_EQ(of(runs + "%y = reshape(%f) {dims = [3, 1, 4]} : f32[3,1,4]"), "rows 1");
    EXPECT_EQ(of(runs + "%y = reshape(%f) {dims = [12]} : f32[12]"), "rows 0 in 3 runs");
    EXPECT_EQ(of(turned + "%y = reduce_sum(%t) {axes = [0], keep_dims = false} : f32[1,4]"), "rows 0");
    EXPECT_EQ(of(turned + "%y = reduce_sum(%t) {axes = [1], keep_dims = false} : f32[3,4]"), "sum");
    EXPECT_EQ(of("%y = slice(%x) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,3,4]"), "other");
    EXPECT_EQ(of("%y = reduce_max(%x) {axes = [0], keep_dims = false} : f32[3,4]"), "other");
}

// z[:, rows, columns], as exporters write it: what is not named, in step, or of the indices may have rows.
TEST(BatchShare, GatherNd) {
    const std::string pairs = "%i = constant() {value = <i64[3,2] dense [1, 0, 2, 0, 2, 1]>} : i64[3,2]\n";
    const std::string each = "%i = constant() {value = <i64[2,1] dense [1, 2]>} : i64[2,1]\n";
    const std::string table = "%x: f32[5,4] parameter \"x\", ";
    EXPECT_EQ(share_of("%t = transpose(%x) {permutation = [1, 2, 0]} : f32[3,4,2]\n" + pairs +
                       "%y = gather_nd(%t, %i) {batch_dims = 0} : f32[3,2]"),
              "rows 1");
    EXPECT_EQ(share_of(pairs + "%y = gather_nd(%x, %i) {batch_dims = 0} : f32[3,4]"), "other");
    EXPECT_EQ(share_of(each + "%y = gather_nd(%x, %i) {batch_dims = 1} : f32[2,4]"), "rows 0, mixed");
    EXPECT_EQ(
        share_of("%y = gather_nd(%x, %k) {batch_dims = 0} : f32[2,4]", table + "%k: i64[2,1] input \"k\" {batched}"),
        "rows 0");
    EXPECT_EQ(share_of("%y = gather_nd(%x, %k) {batch_dims = 1} : f32[2,4]",
                       "%x: f32[2,3,4] input \"x\" {batched}, %k: i64[2,1] input \"k\" {batched}"),
              "rows 0");
    EXPECT_EQ(share_of("%y = gather_nd(%x, %k) {batch_dims = 0} : f32[2,4]",
                       "%x: f32[6,4] input \"x\" {batched}, %k: i64[2,1] input \"k\" {batched}"),
              "other");
}

// Steps of a recurrent layer, put behind one another.
TEST(BatchShare, RunsThatArePutTogether) {
    const std::string rows = "%a = reduce_sum(%x) {axes = [1], keep_dims = false} : f32[2,4]\n";
    EXPECT_EQ(share_of(rows + "%y = concat(%a, %a, %a) {axis = 0} : f32[6,4]"), "rows 0 in 3 runs");
    EXPECT_EQ(share_of(rows + "%c = concat(%a, %a, %a) {axis = 0} : f32[6,4]\n"
                              "%y = reshape(%c) {dims = [3, 2, 4]} : f32[3,2,4]"),
              "rows 1");
    EXPECT_EQ(share_of(rows + folded + "%y = concat(%a, %f) {axis = 0} : f32[8,4]"), "rows 0 in 4 runs");
    EXPECT_EQ(share_of(rows + "%y = concat(%a, %k) {axis = 0} : f32[5,4]",
                       "%x: f32[2,3,4] input \"x\" {batched}, %k: f32[3,4] constant \"k\""),
              "other");
    // rows of places, of which no run is a batch
    EXPECT_EQ(share_of("%f = reshape(%x) {dims = [6, 4]} : f32[6,4]\n%y = concat(%f, %f) {axis = 0} : f32[12,4]"),
              "other");
}

// What has the batch's extent, and is the same whatever the batch, tells rows apart where it differs along them.
TEST(BatchShare, StatesOfZeros) {
    const std::string arguments =
        "%x: f32[2,3,4] input \"x\" {batched}, %w: f32[4,4] parameter \"w\", %k: f32[2,4] constant \"k\"";
    const std::string rows = "%a = reduce_sum(%x) {axes = [1], keep_dims = false} : f32[2,4]\n";
    const std::string zeros = "%z = constant() {value = <f32[2,4] splat 0.0>} : f32[2,4]\n";
    const auto meets = [&](const std::string& what) { return share_of(rows + zeros + what, arguments); };
    EXPECT_EQ(meets("%y = mul(%a, %z) : f32[2,4]"), "rows 0");
    EXPECT_EQ(meets("%y = mul(%a, %k) : f32[2,4]"), "rows 0, mixed");
    EXPECT_EQ(
        meets("%m = matmul(%z, %w) {transpose_a = false, transpose_b = false} : f32[2,4]\n%y = add(%a, %m) : f32[2,4]"),
        "rows 0");
    EXPECT_EQ(
        meets("%m = matmul(%k, %w) {transpose_a = false, transpose_b = false} : f32[2,4]\n%y = add(%a, %m) : f32[2,4]"),
        "rows 0, mixed");
    EXPECT_EQ(meets("%m = add(%z, %k) : f32[2,4]\n%y = add(%a, %m) : f32[2,4]"), "rows 0, mixed");
    EXPECT_EQ(meets("%s = slice(%z) {axis = 1, begin = 0, end = 1, step = 1} : f32[2,1]\n%y = add(%a, %s) : f32[2,4]"),
              "rows 0");
    EXPECT_EQ(meets("%s = slice(%k) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,4]\n"
                    "%m = broadcast_to(%s) {dims = [2, 4]} : f32[2,4]\n%y = add(%a, %m) : f32[2,4]"),
              "rows 0");
}

// The element of one run beside that of another belongs to another row.
TEST(BatchShare, RunsMeetTheirLike) {
    const std::string other = folded + "%g = reshape(%x) {dims = [6, 4]} : f32[6,4]\n";
    EXPECT_EQ(share_of(folded + "%y = mul(%f, %f) : f32[6,4]"), "rows 0 in 3 runs");
    EXPECT_EQ(share_of(other + "%y = mul(%f, %g) : f32[6,4]"), "other");
    EXPECT_EQ(share_of(other + "%y = matmul(%f, %g) {transpose_a = true, transpose_b = false} : f32[4,4]"), "other");
    EXPECT_EQ(share_of(folded + "%y = matmul(%f, %f) {transpose_a = true, transpose_b = false} : f32[4,4]"), "sum");
}

TEST(BatchShare, CrossEntropyOfRuns) {
    const std::string arguments = "%x: f32[2,3,4] input \"x\" {batched}, %l: i64[2,3] input \"l\" {batched}";
    const std::string labels =
        "%lt = transpose(%l) {permutation = [1, 0]} : i64[3,2]\n%lf = reshape(%lt) {dims = [6]} : i64[6]\n";
    const std::string rows = "%lr = reshape(%l) {dims = [6]} : i64[6]\n";
    const std::string loss = "%y, %e = cross_entropy(%f, {}) {{ignore_index = -100}} : f32[], f32[6]";
    EXPECT_EQ(share_of(folded + labels + fmt::format(fmt::runtime(loss), "%lf"), arguments), "sum");
    EXPECT_EQ(share_of(folded + rows + fmt::format(fmt::runtime(loss), "%lr"), arguments), "other");
    EXPECT_EQ(share_of(labels + "%y = cross_entropy_weight(%lf) {ignore_index = -100} : f32[]", arguments), "sum");
}

}  // namespace
}  // namespace thunderc
