// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/sync_norms.h"

#include <string>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace sync_norms_test {

using testing::functions_of;
using testing::module_of;

std::string synced(const std::string& text, const SyncOptions& options) {
    Report report;
    return functions_of(sync_norms(module_of(text), options, report));
}

// A norm of this class with so many ranks (none: as it is exported), and its variance as that of a sample; the function
// behind it is given, and what stands for the factor.
std::string norm(const std::string& module_class, const std::string& ranks, const std::string& factor) {
    return "func @main(%x: f32[4,3] input \"x\", %w: f32[3] parameter \"w\", %b: f32[3] parameter \"b\") -> (%y \"y\", "
           "%sample \"sample\") {\n"
           "  %y, %mean, %variance = batch_norm(%x, %w, %b) {eps = 1e-05" +
           ranks + "} : f32[4,3], f32[3], f32[3] at \"norms.0\" \"" + module_class +
           "\" [BatchNormalization \"node\"]\n" + factor + "}";
}

std::string as_exported(const std::string& module_class) {
    return norm(module_class, "",
                "  %factor = constant() {value = <f32[] splat 1.3333334>} : f32[]\n"
                "  %sample = mul(%variance, %factor) : f32[3]\n");
}

// Of 4 rows the variance of a sample is 4/3 of the batch's, of 8 rows 8/7.
TEST(SyncNorms, TakeTheRowsOfAllRanks) {
    const std::string text = synced(as_exported("SyncBatchNorm"), {.ranks = 2});
    EXPECT_NE(text.find("{eps = 1e-05, ranks = 2}"), std::string::npos) << text;
    EXPECT_NE(text.find("splat 1.14285"), std::string::npos) << text;
    EXPECT_NE(text.find("= mul(%variance, %"), std::string::npos) << text;
    EXPECT_EQ(text.find("mul(%variance, %factor)"), std::string::npos) << text;
}

TEST(SyncNorms, AreAllWhereThatIsAsked) {
    EXPECT_EQ(synced(as_exported("BatchNorm1d"), {.ranks = 2}), functions_of(module_of(as_exported("BatchNorm1d"))));
    const std::string text = synced(as_exported("BatchNorm1d"), {.ranks = 2, .all = true});
    EXPECT_NE(text.find("ranks = 2"), std::string::npos) << text;
}

TEST(SyncNorms, AreAsTheyWereOnOneRank) {
    EXPECT_EQ(synced(as_exported("SyncBatchNorm"), {}), functions_of(module_of(as_exported("SyncBatchNorm"))));
}

// Another product with the variance is the model's own.
TEST(SyncNorms, LeaveOtherProductsAlone) {
    const std::string text = synced(norm("SyncBatchNorm", "",
                                         "  %factor = constant() {value = <f32[] splat 1.5>} : f32[]\n"
                                         "  %sample = mul(%variance, %factor) : f32[3]\n"),
                                    {.ranks = 2});
    EXPECT_NE(text.find("mul(%variance, %factor)"), std::string::npos) << text;
}

// In eval() mode nothing is taken of the rows: what asks for all norms is told that there are none.
TEST(SyncNorms, StayWhereTheyGoByRunningStatistics) {
    const std::string text =
        "func @main(%x: f32[4,3] input \"x\", %m: f32[3] parameter \"m\") -> (%y \"y\") {\n"
        "  %y = sub(%x, %m) : f32[4,3] at \"norm\" \"SyncBatchNorm\" [BatchNormalization \"node\"]\n}";
    EXPECT_EQ(synced(text, {.ranks = 2}), functions_of(module_of(text)));
    EXPECT_THROW(synced(text, {.ranks = 2, .all = true}), UserError);
}

}  // namespace sync_norms_test
}  // namespace thunderc
