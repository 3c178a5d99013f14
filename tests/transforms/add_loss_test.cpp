#include "compiler/transforms/add_loss.h"

#include "compiler/support/error.h"
#include "tests/transforms/pass_test.h"

namespace thunderc {
namespace {

std::string with_loss(std::string_view ir, Report& report, const std::string& loss = "auto") {
    Module module = parse_module("module \"m\" values\n" + std::string(ir));
    verify(module);
    module = add_loss(std::move(module), loss, report);
    verify(module);
    return text_of(std::move(module));
}

std::string with_loss(std::string_view ir, const std::string& loss = "auto") {
    Report report;
    return with_loss(ir, report, loss);
}

std::string error_of(std::string_view ir, const std::string& loss) {
    try {
        with_loss(ir, loss);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "no error";
}

constexpr const char* logits = R"(
func @main(%input_ids: i64[2,3] input "input_ids" {batched, entries = 5, source = "tokens"}, %w: f32[5,5] parameter "w") -> (%y "logits") {
  %y = gather(%w, %input_ids) {axis = 0} : f32[2,3,5]
}
)";

// Names of arguments are names of tensors in the program: no two may be alike.
TEST(AddLoss, LabelsStepAsideForAParameter) {
    for (const std::string loss : {"cross-entropy", "mse"}) {
        Report report;
        std::string ir = logits;
        ir.replace(ir.find("\"w\""), 3, "\"labels\"");
        EXPECT_NE(with_loss(ir, report, loss)
                      .find("[2,3" + std::string(loss == "mse" ? ",5" : "") + "] input \"targets\" {batched"),
                  std::string::npos);
        EXPECT_NE(notes(report).find("against the new input targets"), std::string::npos) << notes(report);
        // Neither does an alias, the name of a tied weight, count as free.
        ir.replace(ir.find("\"labels\""), 8, "\"targets\" {alias 0 = [\"labels\"]}");
        EXPECT_NE(with_loss(ir, loss).find("input \"targets_2\""), std::string::npos) << with_loss(ir, loss);
    }
}

TEST(AddLoss, LogitsGetACrossEntropy) {
    Report report;
    EXPECT_EQ(with_loss(logits, report), text(R"(
func @main(%input_ids: i64[2,3] input "input_ids" {batched, entries = 5, source = "tokens"}, %labels: i64[2,3] input "labels" {batched, source = "next_tokens"}, %w: f32[5,5] parameter "w") -> (%loss "loss", %weight "weight") {
  %y = gather(%w, %input_ids) {axis = 0} : f32[2,3,5]
  %reshape = reshape(%labels) {dims = [6]} : i64[6]
  %reshape_1 = reshape(%y) {dims = [6, 5]} : f32[6,5]
  %loss, %loss_lse = cross_entropy(%reshape_1, %reshape) {ignore_index = -100} : f32[], f32[6]
  %weight = cross_entropy_weight(%reshape) {ignore_index = -100} : f32[]
}
)"));
    EXPECT_EQ(notes(report),
              "done loss at logits: cross entropy over 5 classes against the new input labels; -100 is ignored\n");
    EXPECT_EQ(with_loss(logits, "cross-entropy"), with_loss(logits));
}

TEST(AddLoss, WarnsOfAScalarThatMayBeTheLoss) {
    std::string ir = logits;
    ir.replace(ir.find("(%y \"logits\")"), 13, "(%y \"logits\", %s \"mean\")");
    ir.insert(ir.rfind('}'), "  %s = reduce_sum(%y) {axes = [0, 1, 2], keep_dims = false} : f32[]\n");
    Report report;
    with_loss(ir, report);
    const std::string said = notes(report);
    EXPECT_NE(said.find("warning loss at mean: a scalar beside logits: it is not computed, and a cross entropy is "
                        "added; if it is the loss, export it as the first result or with the name loss; if not, "
                        "--loss cross-entropy says so\n"),
              std::string::npos)
        << said;
    Report asked, own;
    with_loss(ir, asked, "cross-entropy");
    EXPECT_EQ(notes(asked).find("warning"), std::string::npos) << notes(asked);
    ir.replace(ir.find("\"mean\""), 6, "\"loss\"");  // its own, then
    with_loss(ir, own);
    EXPECT_EQ(notes(own).find("cross entropy is added"), std::string::npos) << notes(own);
}

TEST(AddLoss, SquaredError) {
    EXPECT_EQ(with_loss(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%y "y") {
  %y = neg(%x) : f32[2,3]
}
)",
                        "mse"),
              text(R"(
func @main(%x: f32[2,3] input "x" {batched}, %labels: f32[2,3] input "labels" {batched}) -> (%reduce_sum "loss", %weight "weight") {
  %y = neg(%x) : f32[2,3]
  %sub = sub(%y, %labels) : f32[2,3]
  %mul = mul(%sub, %sub) : f32[2,3]
  %weight = constant() {value = <f32[] splat 6.0>} : f32[]
  %reduce_sum = reduce_sum(%mul) {axes = [0, 1], keep_dims = false} : f32[]
}
)"));
}

constexpr const char* own_mean = R"(
func @main(%input_ids: i64[2,3] input "input_ids" {entries = 5, source = "tokens"}, %labels: i64[2,3] input "labels", %w: f32[5,5] parameter "w") -> (%loss "loss") {
  %y = gather(%w, %input_ids) {axis = 0} : f32[2,3,5]
  %rows = reshape(%y) {dims = [6, 5]} : f32[6,5]
  %p = pad(%labels) {low = [0, 0], high = [0, 1], value = -100.0} : i64[2,4]
  %s = slice(%p) {axis = 1, begin = 1, end = 4, step = 1} : i64[2,3]
  %l = reshape(%s) {dims = [6]} : i64[6]
  %sum, %lse = cross_entropy(%rows, %l) {ignore_index = -100} : f32[], f32[6]
  %n = cross_entropy_weight(%l) {ignore_index = -100} : f32[]
  %loss = div(%sum, %n) : f32[]
}
)";

TEST(AddLoss, TheModelsOwnMeanIsSplit) {
    Report report;
    EXPECT_EQ(with_loss(own_mean, report), text(R"(
func @main(%input_ids: i64[2,3] input "input_ids" {entries = 5, source = "tokens"}, %labels: i64[2,3] input "labels" {source = "tokens"}, %w: f32[5,5] parameter "w") -> (%sum "loss", %n "weight") {
  %y = gather(%w, %input_ids) {axis = 0} : f32[2,3,5]
  %rows = reshape(%y) {dims = [6, 5]} : f32[6,5]
  %p = pad(%labels) {low = [0, 0], high = [0, 1], value = -100.0} : i64[2,4]
  %s = slice(%p) {axis = 1, begin = 1, end = 4, step = 1} : i64[2,3]
  %l = reshape(%s) {dims = [6]} : i64[6]
  %sum, %lse = cross_entropy(%rows, %l) {ignore_index = -100} : f32[], f32[6]
  %n = cross_entropy_weight(%l) {ignore_index = -100} : f32[]
  %loss = div(%sum, %n) : f32[]
}
)"));
    EXPECT_EQ(notes(report), "done loss at loss: the model's own mean cross entropy, split into sum and weight\n");
}

// Labels that are chosen, or filled up with what is ignored, are still the input's.
TEST(AddLoss, LabelsAreFollowedThroughSelection) {
    std::string chosen(own_mean);
    const std::string padded = "%p = pad(%labels) {low = [0, 0], high = [0, 1], value = -100.0} : i64[2,4]\n";
    chosen.replace(chosen.find(padded), padded.size(), R"(%zero = constant() {value = <i64[] splat 0.0>} : i64[]
  %none = constant() {value = <i64[] splat -100.0>} : i64[]
  %column = constant() {value = <i64[2,1] splat -100.0>} : i64[2,1]
  %is = eq(%labels, %zero) : bool[2,3]
  %c = select(%is, %none, %labels) : i64[2,3]
  %p = concat(%c, %column) {axis = 1} : i64[2,4]
)");
    EXPECT_NE(with_loss(chosen).find("input \"labels\" {source = \"tokens\"}"), std::string::npos) << with_loss(chosen);
    // Which of two inputs the labels are is not guessed.
    const std::string both = "%c = select(%is, %none, %labels)";
    chosen.replace(chosen.find(both), both.size(), "%c = select(%is, %input_ids, %labels)");
    EXPECT_NE(with_loss(chosen).find("input \"labels\","), std::string::npos) << with_loss(chosen);
}

TEST(AddLoss, AnotherScalarIsKeptAndSaid) {
    Report report;
    EXPECT_EQ(with_loss(R"(
func @main(%x: f32[2,3] input "x") -> (%m "value") {
  %m = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[]
}
)",
                        report),
              text(R"(
func @main(%x: f32[2,3] input "x") -> (%m "loss") {
  %m = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[]
}
)"));
    EXPECT_EQ(notes(report),
              "warning loss at value: is no mean cross entropy: it is averaged over micro-steps and ranks, each "
              "counting the same\n");
}

// A division by the number of labels of another tensor is no mean of this cross entropy.
TEST(AddLoss, AForeignDivisorIsNotTheWeight) {
    std::string ir(own_mean);
    ir.replace(ir.find("cross_entropy_weight(%l)"), 24, "cross_entropy_weight(%s)");
    Report report;
    with_loss(ir, report);
    EXPECT_EQ(notes(report),
              "warning loss at loss: is no mean cross entropy: it is averaged over micro-steps and ranks, each "
              "counting the same\n");
}

TEST(AddLoss, Errors) {
    constexpr const char* vector = R"(
func @main(%x: f32[3] input "x") -> (%y "scores") {
  %y = neg(%x) : f32[3]
}
)";
    EXPECT_EQ(error_of(vector, "auto"),
              "error: training needs a loss, and the model ends neither in logits nor in a scalar\n"
              "  expected: logits or a scalar loss\n"
              "  found: scores f32[3]\n"
              "help: export a model that ends in logits of two dimensions or more, or in its loss\n");
    EXPECT_EQ(error_of(logits, "none"),
              "error: training needs a loss, and the model ends in none\n"
              "  expected: a scalar result\n"
              "  found: logits f32[2,3,5]\n"
              "help: use --loss cross-entropy or mse, or export a model that ends in its loss\n");
    EXPECT_EQ(error_of(own_mean, "mse"),
              "error: --loss mse is given, but the model ends in a loss of its own, loss\n"
              "help: leave --loss out, or export the model without its loss\n");
    EXPECT_EQ(error_of(logits, "l2"),
              "error: there is no loss called l2\n"
              "help: --loss takes auto, cross-entropy, mse or none\n");
}

}  // namespace
}  // namespace thunderc
