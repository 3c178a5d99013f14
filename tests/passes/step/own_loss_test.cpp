// SPDX-License-Identifier: Apache-2.0
// add_loss on graphs that end in a loss of their own: which inputs its labels are, and how each mean keeps its weight
// over micro-batches and ranks.
#include <fmt/format.h>

#include "tests/passes/step/add_loss_test.h"

namespace thunderc {
namespace add_loss_test {

TEST(AddLoss, TheModelsOwnMeanIsSplit) {
    Report report;
    EXPECT_EQ(with_loss(own_mean, report), text(R"(
func @main(%input_ids: i64[2,3] input "input_ids" {batched, entries = 5, source = "tokens"}, %labels: i64[2,3] input "labels" {batched, source = "tokens"}, %w: f32[5,5] parameter "w") -> (%sum "loss", %n "weight") {
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
    EXPECT_NE(with_loss(chosen).find("input \"labels\" {batched, source = \"tokens\"}"), std::string::npos)
        << with_loss(chosen);
    // Which of two inputs the labels are is not guessed.
    const std::string both = "%c = select(%is, %none, %labels)";
    chosen.replace(chosen.find(both), both.size(), "%c = select(%is, %input_ids, %labels)");
    EXPECT_NE(with_loss(chosen).find("input \"labels\" {batched},"), std::string::npos) << with_loss(chosen);
}

// What labels are against the logits of one head: `labels` and `logits` are slices of positions, [begin, end) of 6.
struct Head {
    int labels_begin, labels_end, logits_begin, logits_end;
};

std::string model_with_heads(const std::vector<Head>& heads, const std::string& input = "labels") {
    std::string ops, sum;
    for (std::size_t k = 0; k < heads.size(); ++k) {
        const Head& h = heads[k];
        const int n = h.labels_end - h.labels_begin, rows = 2 * n;
        const auto name = [&](const std::string& s) { return "%" + s + std::to_string(k); };
        const auto slice = [&](const std::string& to, const std::string& from, int begin, int end,
                               const std::string& type) {
            ops += "  " + to + " = slice(" + from + ") {axis = 1, begin = " + std::to_string(begin) +
                   ", end = " + std::to_string(end) + ", step = 1} : " + type + "\n";
        };
        const std::string r = std::to_string(rows);
        slice(name("h"), "%x", h.logits_begin, h.logits_end, "f32[2," + std::to_string(n) + ",5]");
        slice(name("c"), "%labels", h.labels_begin, h.labels_end, "i64[2," + std::to_string(n) + "]");
        ops += "  " + name("y") + " = linear(" + name("h") + ", %w) : f32[2," + std::to_string(n) + ",5]\n  " +
               name("f") + " = reshape(" + name("y") + ") {dims = [" + r + ", 5]} : f32[" + r + ",5]\n  " + name("l") +
               " = reshape(" + name("c") + ") {dims = [" + r + "]} : i64[" + r + "]\n  " + name("s") + ", " +
               name("e") + " = cross_entropy(" + name("f") + ", " + name("l") +
               ") {ignore_index = -100} : f32[], f32[" + r + "]\n";
        if (k > 0) ops += "  " + name("t") + " = add(" + sum + ", " + name("s") + ") : f32[]\n";
        sum = k > 0 ? name("t") : name("s");
    }
    return "\nfunc @main(%input_ids: i64[2,6] input \"input_ids\" {batched, entries = 5, source = \"tokens\"}, "
           "%labels: i64[2,6] input \"" +
           input + "\" {batched}, %w: f32[5,5] parameter \"w\") -> (" + sum +
           " \"loss\") {\n  %x = gather(%w, %input_ids) {axis = 0} : f32[2,6,5]\n" + ops + "}\n";
}

// Labels that the model shifts by itself, by however many positions, are the tokens: then position t learns what comes
// at t + 2 where labels[:, 2:] stand against logits[:, :-2]. Positions that both leave out are no shift.
TEST(AddLoss, LabelsThatTheModelShiftsAreTheTokens) {
    const auto source = [](const std::vector<Head>& heads) {
        const std::string text = with_loss(model_with_heads(heads));
        return text.find("input \"labels\" {batched, source = \"tokens\"}") != std::string::npos        ? "tokens"
               : text.find("input \"labels\" {batched, source = \"next_tokens\"}") != std::string::npos ? "next_tokens"
                                                                                                        : "none";
    };
    EXPECT_STREQ(source({{0, 6, 0, 6}}), "next_tokens");
    EXPECT_STREQ(source({{1, 6, 0, 5}}), "tokens");
    EXPECT_STREQ(source({{2, 6, 0, 4}}), "tokens");
    EXPECT_STREQ(source({{3, 6, 2, 5}}), "tokens");
    EXPECT_STREQ(source({{2, 6, 2, 6}}), "next_tokens");  // a prompt that is not learnt
    EXPECT_STREQ(source({{5, 6, 5, 6}}), "next_tokens");  // the last position alone
    EXPECT_STREQ(source({{0, 4, 0, 4}}), "next_tokens");
    EXPECT_STREQ(source({{1, 6, 0, 5}, {2, 6, 0, 4}}), "tokens");  // heads for the next token and the one behind it
    EXPECT_STREQ(source({{0, 6, 0, 6}, {2, 6, 2, 6}}), "next_tokens");
}

TEST(AddLoss, LabelsAreNoTwoThings) {
    for (const auto& heads : std::vector<std::vector<Head>>{{{0, 6, 0, 6}, {1, 6, 0, 5}}, {{1, 6, 0, 5}, {0, 6, 0, 6}}})
        EXPECT_EQ(error_of(model_with_heads(heads, "classes"), "auto"),
                  "error: one cross entropy shifts classes against its logits, and another one does not\n"
                  "help: give the model an input for each of the two: what it shifts by itself are the tokens, and the "
                  "labels of a loss that does not are the tokens behind them\n");
}

// The labels' first dimension is the batch's, as every other input's: micro-batches and ranks are cut along it.
TEST(AddLoss, LabelsHaveTheRowsOfTheBatch) {
    const auto graph = [](const std::string& ops, const std::string& type) {
        return "\nfunc @main(%ids: i64[2,3] input \"input_ids\" {batched, source = \"tokens\"}, %w: f32[5,3] "
               "parameter \"w\") -> (%y \"logits\") {\n  %x = gather(%w, %ids) {axis = 0} : f32[2,3,3]\n  %y = " +
               ops + " : f32[" + type + "]\n}\n";
    };
    const std::string folded = with_loss(graph("reshape(%x) {dims = [6, 3]}", "6,3"), "cross-entropy");
    EXPECT_NE(folded.find("i64[2,3] input \"labels\" {batched, added, source = \"next_tokens\"}"), std::string::npos)
        << folded;
    EXPECT_NE(folded.find("{dims = [6]} : i64[6]"), std::string::npos) << folded;
    const std::string numbers = with_loss(graph("reshape(%x) {dims = [6, 3]}", "6,3"), "mse");
    EXPECT_NE(numbers.find("f32[2,3,3] input \"labels\" {batched,"), std::string::npos) << numbers;
    // A parameter with as many entries as a dimension is no batch.
    const std::string first = "the labels of logits would not have the batch's rows in their first dimension";
    for (const std::string loss : {"cross-entropy", "mse"}) {
        EXPECT_EQ(error_of(graph("transpose(%x) {permutation = [1, 0, 2]}", "3,2,3"), loss),
                  "error: " + first +
                      "\n  expected: a result with the 2 rows of the batch in dimension 0\n"
                      "  found: logits f32[3,2,3], with the batch in dimension 1\n"
                      "help: let the model return [batch, …], as y.transpose(0, 1) does of [positions, batch, …]; or "
                      "export it with its loss\n");
        EXPECT_NE(error_of(graph("reduce_sum(%x) {axes = [0], keep_dims = false}", "3,3"), loss).find(first),
                  std::string::npos);
    }
    std::string runs = graph("transpose(%x) {permutation = [1, 0, 2]}", "3,2,3");
    runs.replace(runs.find("%y \"logits\""), 11, "%f \"logits\"");
    runs.insert(runs.rfind('}'), "  %f = reshape(%y) {dims = [6, 3]} : f32[6,3]\n");
    EXPECT_NE(error_of(runs, "mse").find("with the batch in dimension 0, behind 3 others"), std::string::npos)
        << error_of(runs, "mse");
}

TEST(AddLoss, AnotherScalarIsKeptAndSaid) {
    Report report;
    EXPECT_EQ(with_loss(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%m "value") {
  %m = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[]
}
)",
                        report),
              text(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%m "loss") {
  %m = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[]
}
)"));
    EXPECT_EQ(notes(report),
              "warning loss at value: is a sum over the batch's rows. In one batch on one rank that is the model's own "
              "loss; with --grad-accum or several ranks a step takes the mean over these of it, which is smaller than "
              "the loss of all rows at once. Divide by the number of rows in the model, so that it is a mean, to have "
              "the same; one that does so is\n");
    // On one rank nothing has to be done.
    Report one;
    add_loss(parse_module(R"(module "m" values
func @main(%x: f32[2,3] input "x" {batched}) -> (%m "value") {
  %m = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[]
}
)"),
             "auto", one, false);
    EXPECT_EQ(notes(one).substr(0, 24), "done loss at value: is a");
}

// What a sum is divided by need not be its own number of labels: it is what inputs say of the whole batch.
TEST(AddLoss, AnyWeightOfTheInputsSplitsASum) {
    std::string ir(own_mean);
    ir.replace(ir.find("cross_entropy_weight(%l)"), 24, "cross_entropy_weight(%s)");
    Report report;
    EXPECT_NE(with_loss(ir, report).find("\"weight\""), std::string::npos);
    EXPECT_EQ(notes(report), "done loss at loss: the model's own mean cross entropy, split into sum and weight\n");
}

// A head, ids and two kinds of labels; the loss of the test behind them.
std::string losses(const std::string& ops, const std::string& result = "%loss") {
    return R"(
func @main(%ids: i64[2,3] input "ids" {batched, entries = 5}, %labels: i64[2,3] input "labels" {batched}, %mask: f32[2,3] input "mask" {batched}, %table: f32[4] input "table", %w: f32[5,5] parameter "w", %s: f32[] parameter "s") -> ()" +
           result + R"( "loss") {
  %y = gather(%w, %ids) {axis = 0} : f32[2,3,5]
  %rows = reshape(%y) {dims = [6, 5]} : f32[6,5]
  %l = reshape(%labels) {dims = [6]} : i64[6]
  %sum, %lse = cross_entropy(%rows, %l) {ignore_index = -100} : f32[], f32[6]
  %n = cross_entropy_weight(%l) {ignore_index = -100} : f32[]
  %mean = div(%sum, %n) : f32[]
  %m = reduce_sum(%mask) {axes = [0, 1], keep_dims = false} : f32[]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
)" + ops + "}\n";
}

std::string notes_of(const std::string& ops, const std::string& result = "%loss") {
    Report report;
    with_loss(losses(ops, result), report);
    return notes(report);
}

// Each mean is divided by the whole batch's weight, an argument; what is averaged by the number of micro-batches, each
// of which weighs 1.
TEST(AddLoss, EachMeanKeepsItsWeight) {
    Report report;
    const std::string ir = R"(  %masked = mul(%y, %y) : f32[2,3,5]
  %row = reduce_sum(%masked) {axes = [2], keep_dims = false} : f32[2,3]
  %kept = mul(%row, %mask) : f32[2,3]
  %other = reduce_sum(%kept) {axes = [0, 1], keep_dims = false} : f32[]
  %second = div(%other, %m) : f32[]
  %penalty = mul(%s, %s) : f32[]
  %both = sub(%mean, %second) : f32[]
  %loss = add(%both, %penalty) : f32[]
)";
    std::string expected = losses(ir);
    expected.replace(
        expected.find(") -> (%loss \"loss\")"), 19,
        ", %t0: f32[] scalar \"loss_weights[0]\", %t1: f32[] scalar \"loss_weights[1]\", %t2: f32[] scalar "
        "\"loss_weights[2]\") -> (%whole \"loss\", %n \"weight_0\", %m \"weight_1\", %c \"weight_2\")");
    expected.replace(expected.rfind('}'), 1, R"(  %a = div(%sum, %t0) : f32[]
  %b = div(%other, %t1) : f32[]
  %minus = neg(%b) : f32[]
  %means = add(%a, %minus) : f32[]
  %c = constant() {value = <f32[] splat 1.0>} : f32[]
  %share = div(%penalty, %t2) : f32[]
  %whole = add(%means, %share) : f32[]
})");
    EXPECT_EQ(with_loss(losses(ir), report), text(expected));
    EXPECT_EQ(notes(report),
              "done loss at loss: the model's own, 3 terms; 2 terms are divided by weights of their own, which are "
              "summed first; 1 mean over a fixed number of elements, or of no input, averaged over micro-steps and "
              "ranks\n");
}

TEST(AddLoss, SaysWhatALossIs) {
    const auto averaged = [](const char* what, const char* than, const char* help) {
        return fmt::format(
            ". In one batch on one rank that is the model's own loss; with --grad-accum or several ranks a step takes "
            "the mean over these of {}, which is {} the loss of all rows at once. {}\n",
            what, than, help);
    };
    const char* mean_help =
        "Divide by the number of rows in the model, so that it is a mean, to have the same; one that does so is";
    const std::string sum = "is a sum over the batch's rows" + averaged("it", "smaller than", mean_help);
    const std::string no_mean =
        "is no mean over the batch" + averaged("it", "not", "For the same, give the whole batch with --batch");
    const std::string split = "done loss at loss: the model's own mean times a factor, split into sum and weight\n";
    // A factor that is the same whatever the batch is: a parameter, a constant.
    EXPECT_EQ(notes_of("  %e = exp(%s) : f32[]\n  %loss = mul(%e, %mean) : f32[]\n"), split);
    EXPECT_EQ(notes_of("  %x = neg(%s) : f32[]\n  %loss = div(%mean, %x) : f32[]\n"), split);
    // The weight's bound is the whole batch's.
    EXPECT_EQ(notes_of("  %b = max(%m, %one) : f32[]\n  %loss = div(%sum, %b) : f32[]\n"),
              "done loss at loss: the model's own mean, divided by weights that are summed first\n");
    EXPECT_EQ(notes_of("", "%sum"), "warning loss at loss: " + sum);
    // Neither a root of a sum nor a product of means is a term of the whole batch's.
    for (const char* ir :
         {"  %r = sqrt(%sum) : f32[]\n  %loss = div(%r, %n) : f32[]\n", "  %loss = mul(%mean, %mean) : f32[]\n",
          "  %loss = exp(%mean) : f32[]\n", "  %loss = div(%one, %mean) : f32[]\n"})
        EXPECT_EQ(notes_of(ir), "warning loss at loss: " + no_mean) << ir;
    // Rows summed before they are squared: no sum over rows any more.
    EXPECT_EQ(notes_of("  %c = reduce_sum(%rows) {axes = [0], keep_dims = false} : f32[5]\n"
                       "  %q = mul(%c, %c) : f32[5]\n"
                       "  %t = reduce_sum(%q) {axes = [0], keep_dims = false} : f32[]\n"
                       "  %loss = div(%t, %n) : f32[]\n"),
              "warning loss at loss: " + no_mean);
    EXPECT_EQ(notes_of("  %loss = add(%mean, %sum) : f32[]\n"),
              "warning loss at loss: the model's own, 2 terms; 1 term is divided by its weight, which is summed first; "
              "1 sum over the batch's rows" +
                  averaged("such terms", "smaller than", mean_help));
    EXPECT_EQ(notes_of("  %loss = reduce_mean(%y) {axes = [0, 1, 2], keep_dims = false} : f32[]\n"),
              "done loss at loss: the model's own mean over a fixed number of elements, averaged over micro-steps and "
              "ranks\n");
    // Each row less the mean of the batch: a mean all the same, but not of micro-batches.
    EXPECT_EQ(notes_of("  %c = reduce_mean(%rows) {axes = [0], keep_dims = true} : f32[1,5]\n"
                       "  %d = sub(%rows, %c) : f32[6,5]\n"
                       "  %q = mul(%d, %d) : f32[6,5]\n"
                       "  %loss = reduce_mean(%q) {axes = [0, 1], keep_dims = false} : f32[]\n"),
              "done loss at loss: the model's own mean over a fixed number of elements, averaged over micro-steps and "
              "ranks; rows of a batch see one another on the way to it, so micro-batches and ranks are batches of "
              "their own\n");
}

// What acts by element keeps rows apart, wherever they are: softplus and binary cross entropy as abs.
TEST(AddLoss, LossesByElementAreMeansAlongAnyAxis) {
    const auto of_rows = [](const std::string& op) {
        return notes_of("  %v = reduce_sum(%rows) {axes = [1], keep_dims = false} : f32[6]\n  %p = " + op +
                        " : f32[6]\n  %loss = reduce_mean(%p) {axes = [0], keep_dims = false} : f32[]\n");
    };
    const auto transposed = [](const std::string& op) {
        return notes_of(
            "  %e = reduce_sum(%y) {axes = [2], keep_dims = false} : f32[2,3]\n"
            "  %v = transpose(%e) {permutation = [1, 0]} : f32[3,2]\n"
            "  %k = transpose(%mask) {permutation = [1, 0]} : f32[3,2]\n  %p = " +
            op +
            " : f32[3,2]\n  %q = mul(%p, %k) : f32[3,2]\n"
            "  %t = reduce_sum(%q) {axes = [0, 1], keep_dims = false} : f32[]\n  %loss = div(%t, %m) : f32[]\n");
    };
    EXPECT_EQ(transposed("abs(%v)").find("no mean"), std::string::npos) << transposed("abs(%v)");
    for (const char* op : {"softplus(%v)", "binary_cross_entropy(%v, %v)"}) {
        EXPECT_EQ(of_rows(op), of_rows("abs(%v)"));
        EXPECT_EQ(transposed(op), transposed("abs(%v)"));
    }
}

// As many terms as there are, with a weight each: %mask to the power of a half, of one and a half, and so on.
TEST(AddLoss, EachOfManyMeansKeepsItsWeight) {
    std::string ops, sum = "%mean";
    for (int terms = 2; terms <= 200; ++terms) {
        const std::string n = std::to_string(terms - 2);
        ops += "  %f" + n + " = constant() {value = <f32[] splat " + n + ".5>} : f32[]\n  %p" + n + " = pow(%mask, %f" +
               n + ") : f32[2,3]\n  %w" + n + " = reduce_sum(%p" + n +
               ") {axes = [0, 1], keep_dims = false} : f32[]\n  %d" + n + " = div(%sum, %w" + n + ") : f32[]\n  %a" +
               n + " = add(" + sum + ", %d" + n + ") : f32[]\n";
        sum = "%a" + n;
        Report report;
        const std::string out = with_loss(losses(ops, sum), report);
        const std::string count = std::to_string(terms), last = std::to_string(terms - 1);
        ASSERT_EQ(notes(report), "done loss at loss: the model's own, " + count + " terms; " + count +
                                     " terms are divided by weights of their own, which are summed first\n");
        ASSERT_NE(out.find("scalar \"loss_weights[" + last + "]\""), std::string::npos);
        ASSERT_EQ(out.find("scalar \"loss_weights[" + count + "]\""), std::string::npos);
    }
}

}  // namespace add_loss_test
}  // namespace thunderc
