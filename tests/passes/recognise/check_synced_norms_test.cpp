// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/check_synced_norms.h"

#include <string>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace check_synced_norms_test {

using testing::functions_of;
using testing::module_of;

std::string refusal(const std::string& text) {
    const Module m = module_of(text);
    Report report;
    try {
        EXPECT_EQ(functions_of(check_synced_norms(m, report)), functions_of(m));
    } catch (const UserError& error) {
        return error.diagnostic().module;
    }
    return "";
}

std::string norms(const std::string& module_class) {
    const std::string where = " at \"norms.0\" \"" + module_class + "\" [BatchNormalization \"node\"]";
    return "func @main(%x: f32[4,3] input \"x\", %w: f32[3] parameter \"w\", %b: f32[3] parameter \"b\") -> (%z \"z\") "
           "{\n"
           "  %y, %mean, %variance = batch_norm(%x, %w, %b) {eps = 1e-05} : f32[4,3], f32[3], f32[3]" +
           where + "\n  %z, %mean_2, %variance_2 = batch_norm(%y, %w, %b) {eps = 1e-05} : f32[4,3], f32[3], f32[3]" +
           where + "\n}";
}

TEST(CheckSyncedNorms, RefusesThem) {
    EXPECT_EQ(refusal(norms("SyncBatchNorm")), "norms.0, and 1 more");
}

TEST(CheckSyncedNorms, TakesOthers) {
    EXPECT_EQ(refusal(norms("BatchNorm1d")), "");
}

// In eval() mode nothing is taken of the rows.
TEST(CheckSyncedNorms, TakesOneByItsRunningStatistics) {
    EXPECT_EQ(refusal("func @main(%x: f32[4,3] input \"x\", %m: f32[3] parameter \"m\") -> (%y \"y\") {\n"
                      "  %y = sub(%x, %m) : f32[4,3] at \"norm\" \"SyncBatchNorm\" [BatchNormalization \"node\"]\n}"),
              "");
}

}  // namespace check_synced_norms_test
}  // namespace thunderc
