// SPDX-License-Identifier: Apache-2.0
// --loss with several terms: which results they take, what their inputs are called, what is computed and said.
#include <fmt/format.h>

#include "compiler/passes/step/add_loss.h"
#include "compiler/support/error.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace sums_of_losses_test {

constexpr const char* two_heads = R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w") -> (%a "logits", %b "value", %c "aux") {
  %a = mul(%x, %w) : f32[2,3]
  %b = add(%x, %w) : f32[2,3]
  %c = reduce_mean(%a) {axes = [0,1], keep_dims = false} : f32[]
}
)";

Module added(const std::string& loss, Report& report, std::string_view ir = two_heads) {
    Module module = add_loss(parse_module("module \"m\" values\n" + std::string(ir)), loss, report);
    verify(module);
    return module;
}

std::string text(const std::string& loss, std::string_view ir = two_heads) {
    Report report;
    return text_of(added(loss, report, ir));
}

std::string inputs(const std::string& loss, std::string_view ir = two_heads) {
    Report report;
    std::string out;
    const Module module = added(loss, report, ir);
    const Function& main = module.main();
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::input && main.argument_info[k].names[0] != "x")
            out += fmt::format("{}{} {}", out.empty() ? "" : ", ", main.argument_info[k].names[0],
                               to_string(main.type(main.arguments[k])));
    return out;
}

std::string refused(const std::string& loss, std::string_view ir = two_heads) {
    try {
        text(loss, ir);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "nothing is refused";
}

// The cross entropy keeps its weight; the mean of a fixed number of elements is one of as many as there are
// micro-batches.
TEST(SumsOfLosses, KeepEachTermsWeight) {
    EXPECT_EQ(text("cross-entropy@logits+0.5*mse@value"), R"(
func @main(
    %v: f32[2,3] input "x" {batched},
    %v_1: i64[2] input "logits_labels" {batched, added},
    %v_2: f32[2,3] input "value_labels" {batched, added, note = "the number that each element is to be"},
    %v_3: f32[3] parameter "w",
    %v_4: f32[] scalar "loss_weights[0]",
    %v_5: f32[] scalar "loss_weights[1]") -> (%v_23 "loss", %v_11 "weight_0", %v_21 "weight_1") {
  %v_6 = mul(%v, %v_3) : f32[2,3]
  %v_7 = add(%v, %v_3) : f32[2,3]
  %v_8 = reduce_mean(%v_6) {axes = [0, 1], keep_dims = false} : f32[]
  %v_9, %v_10 = cross_entropy(%v_6, %v_1) {ignore_index = -100} : f32[], f32[2]
  %v_11 = cross_entropy_weight(%v_1) {ignore_index = -100} : f32[]
  %v_12 = div(%v_9, %v_11) : f32[]
  %v_13 = sub(%v_7, %v_2) : f32[2,3]
  %v_14 = mul(%v_13, %v_13) : f32[2,3]
  %v_15 = reduce_mean(%v_14) {axes = [0, 1], keep_dims = false} : f32[]
  %v_16 = constant() {value = <f32[] splat 0.5>} : f32[]
  %v_17 = mul(%v_15, %v_16) : f32[]
  %v_18 = add(%v_12, %v_17) : f32[]
  %v_19 = div(%v_9, %v_4) : f32[]
  %v_20 = mul(%v_15, %v_16) : f32[]
  %v_21 = constant() {value = <f32[] splat 1.0>} : f32[]
  %v_22 = div(%v_20, %v_5) : f32[]
  %v_23 = add(%v_19, %v_22) : f32[]
}
)");
}

TEST(SumsOfLosses, ShareInputsOfOneResultThatHoldTheSame) {
    EXPECT_EQ(inputs("mse@value"), "labels f32[2,3]");
    EXPECT_EQ(inputs("mse@value+l1@value+huber@value"), "labels f32[2,3]");
    EXPECT_EQ(inputs("cross-entropy@logits+0.1*cross-entropy@logits:z_loss=1"), "labels i64[2]");
    // Of two results: called after these.
    EXPECT_EQ(inputs("mse@value+mse@logits"), "value_labels f32[2,3], logits_labels f32[2,3]");
    EXPECT_EQ(inputs("cross-entropy@logits+0.5*mse@value"), "logits_labels i64[2], value_labels f32[2,3]");
    // Of one, but they hold something else: called after the losses.
    EXPECT_EQ(inputs("cross-entropy@logits+mse@logits"), "cross_entropy_labels i64[2], mse_labels f32[2,3]");
    EXPECT_EQ(inputs("mse@value+bce-with-logits@value"), "mse_labels f32[2,3], bce_with_logits_labels f32[2,3]");
    // Both.
    EXPECT_EQ(inputs("mse@value+bce-with-logits@value+mse@logits"),
              "mse_labels f32[2,3], bce_with_logits_labels f32[2,3], logits_labels f32[2,3]");
    // Other names stay.
    EXPECT_EQ(inputs("cosine-embedding@value+mse@logits"), "other_embeddings f32[2,3], signs f32[2], labels f32[2,3]");
    // The model's own has none.
    EXPECT_EQ(inputs("mse@value+own@aux"), "labels f32[2,3]");
    // A parameter has the name.
    EXPECT_EQ(inputs("mse@y+mse@z", R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "y_labels") -> (%a "y", %b "z") {
  %a = mul(%x, %w) : f32[2,3]
  %b = add(%x, %w) : f32[2,3]
}
)"),
              "targets f32[2,3], z_labels f32[2,3]");
}

TEST(SumsOfLosses, OneTermIsWhatItWas) {
    Report report;
    const std::string one = text_of(added("mse@logits", report));
    EXPECT_EQ(one, text("1*mse@logits"));
    EXPECT_EQ(report.notes.size(), 1U);  // no warning of results that are not taken: somebody said which
    constexpr const char* scalar_first = R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w") -> (%c "aux", %a "y") {
  %a = mul(%x, %w) : f32[2,3]
  %c = reduce_mean(%a) {axes = [0,1], keep_dims = false} : f32[]
}
)";
    for (const char* loss : {"own", "own@aux"}) EXPECT_EQ(text(loss, scalar_first), text("auto", scalar_first));
    constexpr const char* alone = R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w") -> (%a "logits") {
  %a = mul(%x, %w) : f32[2,3]
}
)";
    for (const char* loss : {"mse", "cross-entropy", "kl-div"})
        EXPECT_EQ(text(loss, alone), text(loss + std::string("@logits"), alone));
}

TEST(SumsOfLosses, SayEachTermAndTheSum) {
    Report report;
    added("cross-entropy@logits+0.5*mse@value+own@aux", report);
    std::string said;
    for (const Note& note : report.notes) said += note.where + ": " + note.text + "\n";
    EXPECT_EQ(said,
              "logits: cross entropy over 3 classes against the new input logits_labels; -100 is ignored\n"
              "value: mean squared error against the new input value_labels: the sum over 6 elements of each "
              "micro-batch, divided by their number, times 0.5\n"
              "aux: the model's own\n"
              "sum: a sum of 3 terms; 1 term is divided by its weight, which is summed first; 2 means over a fixed "
              "number of elements, or of no input, averaged over micro-steps and ranks\n");
}

// Of packed tokens: a head for the token behind the next one has the shape of logits, and other labels.
TEST(SumsOfLosses, GiveTheNextTokensToOneResult) {
    constexpr const char* heads = R"(
func @main(%x: i64[2,4] input "input_ids" {batched, source = "tokens"}, %w: f32[5,3] parameter "w") -> (%a "mtp", %b "logits", %c "class") {
  %a = gather(%w, %x) {axis = 0} : f32[2,4,3]
  %b = neg(%a) : f32[2,4,3]
  %c = reduce_sum(%a) {axes = [1], keep_dims = false} : f32[2,3]
}
)";
    const auto sources = [&](const std::string& loss) {
        Report report;
        std::string out;
        const Module module = added(loss, report, heads);
        for (const ArgInfo& info : module.main().argument_info)
            if (info.kind == ArgInfo::Kind::input && info.names[0] != "input_ids")
                out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", info.names[0], info.source);
        return out;
    };
    EXPECT_EQ(sources("cross-entropy@mtp"), "labels: next_tokens");
    EXPECT_EQ(sources("0.3*cross-entropy@mtp+nll@mtp"), "labels: next_tokens");
    EXPECT_EQ(sources("cross-entropy@logits+0.3*cross-entropy@mtp"), "logits_labels: next_tokens, mtp_labels: ");
    EXPECT_EQ(sources("cross-entropy@mtp+cross-entropy@class"), "mtp_labels: next_tokens, class_labels: ");
}

// Labels that the graph has for its own loss are not those of a loss that is added beside it.
TEST(SumsOfLosses, StandBesideTheGraphsOwnLabels) {
    constexpr const char* with_labels = R"(
func @main(%x: f32[2,3] input "x" {batched}, %l: i64[2] input "labels" {batched}, %w: f32[3] parameter "w") -> (%a "logits", %e "loss", %b "value") {
  %a = mul(%x, %w) : f32[2,3]
  %s, %r = cross_entropy(%a, %l) {ignore_index = -100} : f32[], f32[2]
  %n = cross_entropy_weight(%l) {ignore_index = -100} : f32[]
  %e = div(%s, %n) : f32[]
  %b = add(%x, %w) : f32[2,3]
}
)";
    EXPECT_EQ(inputs("own+0.5*mse@value", with_labels), "labels i64[2], value_labels f32[2,3]");
    EXPECT_EQ(inputs("own+0.5*mse", with_labels), "labels i64[2], logits_labels f32[2,3]");
    EXPECT_EQ(inputs("mse@value", with_labels), "labels i64[2], value_labels f32[2,3]");
    EXPECT_NE(refused("mse", with_labels).find("ends in a loss of its own, loss"), std::string::npos);
    std::string logits_alone = with_labels;  // as --output logits has it
    const std::string_view others = R"(, %e "loss", %b "value")";
    logits_alone.erase(logits_alone.find(others), others.size());
    EXPECT_EQ(inputs("mse", logits_alone), "labels i64[2], logits_labels f32[2,3]");
    EXPECT_EQ(inputs("mse+l1", logits_alone), "labels i64[2], logits_labels f32[2,3]");
    EXPECT_EQ(inputs("mse+cross-entropy", logits_alone),
              "labels i64[2], mse_labels f32[2,3], cross_entropy_labels i64[2]");
}

TEST(SumsOfLosses, CallInputsAfterResultsAsTheseAreCalled) {
    EXPECT_EQ(inputs("mse@a-b:0+mse@c.d", R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w") -> (%a "a-b:0", %b "c.d") {
  %a = mul(%x, %w) : f32[2,3]
  %b = add(%x, %w) : f32[2,3]
}
)"),
              "a-b:0_labels f32[2,3], c.d_labels f32[2,3]");
}

TEST(SumsOfLosses, AreRefusedWhereAResultDoesNotFit) {
    EXPECT_EQ(refused("mse@nope"),
              "error: --loss mse@nope is given, and the model has no result of that name\n"
              "  expected: a result called nope\n"
              "  found: logits f32[2,3], value f32[2,3], aux f32[]\n"
              "help: take one of those that there are; where --output is given, only what it takes is there\n");
    EXPECT_EQ(refused("mse@value+own@logits"),
              "error: --loss own@logits can't be computed of that result\n"
              "  expected: one number for the whole batch\n"
              "  found: logits f32[2,3]\n"
              "help: own@ takes what is a loss itself; say which loss this result gets\n");
    EXPECT_EQ(refused("cross-entropy@aux"),
              "error: --loss cross-entropy@aux can't be computed of that result\n"
              "  expected: a result of 2 dimensions or more\n"
              "  found: aux f32[]\n"
              "help: take another result, or another loss\n");
}

}  // namespace sums_of_losses_test
}  // namespace thunderc
