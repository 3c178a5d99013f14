// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_grouped_linear.h"

#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_grouped_linear_test {

TEST(RaiseGroupedLinear, GatheredMatricesTimesColumns) {
    Report report;
    EXPECT_EQ(after_pass(raise_grouped_linear, R"(
func @main(%x: f32[5,4] input "x", %ids: i64[5] input "ids", %w: f32[2,3,4] parameter "experts.up") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[5,3,4] at "experts" [Gather "g"]
  %c = reshape(%x) {dims = [5, 4, 1]} : f32[5,4,1]
  %y = matmul(%m, %c) {transpose_a = false, transpose_b = false} : f32[5,3,1] at "experts" [MatMul "m"]
}
)",
                         report),
              text(R"(
func @main(%x: f32[5,4] input "x", %ids: i64[5] input "ids", %w: f32[2,3,4] parameter "experts.up") -> (%y) {
  %c = reshape(%x) {dims = [5, 4, 1]} : f32[5,4,1]
  %r = reshape(%c) {dims = [5, 1, 4]} : f32[5,1,4]
  %v = reshape(%r) {dims = [5, 4]} : f32[5,4]
  %g = grouped_linear(%v, %w, %ids) {transpose = false} : f32[5,3]
  %o = reshape(%g) {dims = [5, 1, 3]} : f32[5,1,3]
  %y = reshape(%o) {dims = [5, 3, 1]} : f32[5,3,1]
}
)"));
    EXPECT_EQ(notes(report), "done grouped_linear at experts: from Gather, MatMul\n");
}

// (in, out), on the right of rows; by gather_nd, whose coordinates have a dimension more.
TEST(RaiseGroupedLinear, RowsTimesGatheredMatrices) {
    EXPECT_EQ(after_pass(raise_grouped_linear, R"(
func @main(%x: f32[5,1,4] input "x", %ids: i64[5,1] input "ids", %w: f32[2,4,3] parameter "w") -> (%y) {
  %m = gather_nd(%w, %ids) {batch_dims = 0} : f32[5,4,3]
  %y = matmul(%x, %m) {transpose_a = false, transpose_b = false} : f32[5,1,3]
}
)"),
              text(R"(
func @main(%x: f32[5,1,4] input "x", %ids: i64[5,1] input "ids", %w: f32[2,4,3] parameter "w") -> (%y) {
  %i = reshape(%ids) {dims = [5]} : i64[5]
  %v = reshape(%x) {dims = [5, 4]} : f32[5,4]
  %g = grouped_linear(%v, %w, %i) {transpose = true} : f32[5,3]
  %y = reshape(%g) {dims = [5, 1, 3]} : f32[5,1,3]
}
)"));
}

// Several rows for each id, ids of two dimensions, a factor that is the same for one of them, and every way in which
// the two can be turned round.
TEST(RaiseGroupedLinear, EveryOrientation) {
    int raised = 0;
    for (const bool left : {false, true})
        for (const bool turn_matrices : {false, true})
            for (const bool turn_rows : {false, true})
                for (const bool transposed : {false, true})
                    for (const int rows : {1, 2}) {
                        // matrices of (out, in) = (3, 4), as the table has them and as the product takes them
                        const bool out_first = left != turn_matrices;
                        const bool table_out_first = out_first != transposed;
                        const std::string table = table_out_first ? "3,4" : "4,3";
                        const std::string taken = out_first ? "3,4" : "4,3";
                        const std::string r = std::to_string(rows);
                        const std::string x = left != turn_rows ? "4," + r : r + ",4";
                        const std::string y = left ? "3," + r : r + ",3";
                        std::string ir = "\nfunc @main(%x: f32[2,1," + x +
                                         "] input \"x\", %ids: i64[2,3] input \"ids\", "
                                         "%w: f32[2," +
                                         table +
                                         "] parameter \"w\") -> (%y) {\n"
                                         "  %m = gather(%w, %ids) {axis = 0} : f32[2,3," +
                                         table + "]\n";
                        if (transposed)
                            ir += "  %t = transpose(%m) {permutation = [0, 1, 3, 2]} : f32[2,3," + taken + "]\n";
                        const std::string m = transposed ? "%t" : "%m";
                        const auto flag = [](bool b) { return std::string(b ? "true" : "false"); };
                        ir += "  %y = matmul(" + (left ? m + ", %x" : "%x, " + m) +
                              ") {transpose_a = " + flag(left ? turn_matrices : turn_rows) +
                              ", transpose_b = " + flag(left ? turn_rows : turn_matrices) + "} : f32[2,3," + y +
                              "]\n}\n";
                        SCOPED_TRACE(ir);
                        // after_pass holds the values before against those behind
                        const std::string after = after_pass(raise_grouped_linear, ir);
                        EXPECT_NE(after.find("grouped_linear"), std::string::npos) << after;
                        EXPECT_EQ(after.find("gather"), std::string::npos) << after;
                        ++raised;
                    }
    EXPECT_EQ(raised, 32);
}

// einsum("td,tkhd->tkh"): the results of a row's two matrices lie side by side; of one row and of two.
TEST(RaiseGroupedLinear, ResultsSideBySide) {
    for (const char* rows : {"1", "2"})
        for (const bool left : {false, true})
            for (const bool in_first : {false, true}) {
                const std::string r = rows;
                std::string ir = "\nfunc @main(%x: f32[5," + (left ? "4," + r : r + ",4") +
                                 "] input \"x\", %ids: i64[5,2] input \"ids\", %w: f32[2," +
                                 (in_first ? "4,3" : "3,4") +
                                 "] parameter \"w\") -> (%y) {\n"
                                 "  %m = gather(%w, %ids) {axis = 0} : f32[5,2," +
                                 (in_first ? "4,3" : "3,4") + "]\n";
                // (5, 4, 2, 3) on the right, (5, 2, 3, 4) on the left
                std::string m = "%m";
                if (!left) {
                    ir += std::string("  %t = transpose(%m) {permutation = [0, ") + (in_first ? "2, 1, 3" : "3, 1, 2") +
                          "]} : f32[5,4,2,3]\n";
                    m = "%t";
                } else if (in_first) {
                    ir += "  %t = transpose(%m) {permutation = [0, 1, 3, 2]} : f32[5,2,3,4]\n";
                    m = "%t";
                }
                ir += "  %r = reshape(" + m +
                      ") {dims = " + (left ? "[5, 6, 4]} : f32[5,6,4]" : "[5, 4, 6]} : f32[5,4,6]") +
                      "\n  %y = matmul(" + (left ? "%r, %x" : "%x, %r") +
                      ") {transpose_a = false, transpose_b = false} : f32[5," + (left ? "6," + r : r + ",6") + "]\n}\n";
                SCOPED_TRACE(ir);
                const std::string after = after_pass(raise_grouped_linear, ir);
                EXPECT_NE(after.find("grouped_linear"), std::string::npos) << after;
                EXPECT_EQ(after.find("gather"), std::string::npos) << after;
            }
}

TEST(RaiseGroupedLinear, OtherProductsStay) {
    for (const char* ir : {// one matrix for all rows
                           R"(
func @main(%x: f32[5,4] input "x", %ids: i64[1] input "ids", %w: f32[2,4,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[1,4,3]
  %y = matmul(%x, %m) {transpose_a = false, transpose_b = false} : f32[1,5,3]
}
)",
                           // not along the matrices
                           R"(
func @main(%x: f32[2,5,4] input "x", %ids: i64[4] input "ids", %w: f32[2,7,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 1} : f32[2,4,3]
  %y = matmul(%x, %m) {transpose_a = false, transpose_b = false} : f32[2,5,3]
}
)",
                           // rows of a table that are matrices together
                           R"(
func @main(%x: f32[2,5,4] input "x", %ids: i64[2,4] input "ids", %w: f32[7,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[2,4,3]
  %y = matmul(%x, %m) {transpose_a = false, transpose_b = false} : f32[2,5,3]
}
)",
                           // a batch that the ids do not have
                           R"(
func @main(%x: f32[3,2,5,4] input "x", %ids: i64[2] input "ids", %w: f32[7,4,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[2,4,3]
  %y = matmul(%x, %m) {transpose_a = false, transpose_b = false} : f32[3,2,5,3]
}
)",
                           // matrices of which every second one is taken for the batch
                           R"(
func @main(%x: f32[3,1,4] input "x", %ids: i64[2,3] input "ids", %w: f32[7,4,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[2,3,4,3]
  %t = transpose(%m) {permutation = [1, 2, 0, 3]} : f32[3,4,2,3]
  %r = reshape(%t) {dims = [3, 4, 6]} : f32[3,4,6]
  %y = matmul(%x, %r) {transpose_a = false, transpose_b = false} : f32[3,1,6]
}
)",
                           // a sum over the matrices as well
                           R"(
func @main(%x: f32[5,1,8] input "x", %ids: i64[5,2] input "ids", %w: f32[7,4,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[5,2,4,3]
  %r = reshape(%m) {dims = [5, 8, 3]} : f32[5,8,3]
  %y = matmul(%x, %r) {transpose_a = false, transpose_b = false} : f32[5,1,3]
}
)",
                           // a factor that is known
                           R"(
func @main(%x: f32[2,5,4] input "x") -> (%y) {
  %m = constant() {value = <f32[2,4,3] splat 0.5>} : f32[2,4,3]
  %y = matmul(%x, %m) {transpose_a = false, transpose_b = false} : f32[2,5,3]
}
)",
                           // dimensions that another transpose moved
                           R"(
func @main(%x: f32[4,5,2] input "x", %ids: i64[2] input "ids", %w: f32[7,4,3] parameter "w") -> (%y) {
  %m = gather(%w, %ids) {axis = 0} : f32[2,4,3]
  %t = transpose(%m) {permutation = [1, 0, 2]} : f32[4,2,3]
  %y = matmul(%x, %t) {transpose_a = false, transpose_b = false} : f32[4,5,3]
}
)"})
        EXPECT_EQ(after_pass(raise_grouped_linear, ir), text(ir));
}

}  // namespace raise_grouped_linear_test
}  // namespace thunderc
