// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/add_loss.h"

#include <fmt/format.h>

#include "compiler/losses/losses.h"
#include "tests/passes/step/add_loss_test.h"

namespace thunderc {
namespace add_loss_test {

// Scores of the next of the only integers that have their positions: these are tokens, whatever they are called.
TEST(AddLoss, WhatScoresAreOfAreTokens) {
    const auto sources = [](const std::string& arguments, const std::string& loss) {
        Report report;
        const std::string ir = fmt::format(R"(
func @main({}, %w: f32[5,5] parameter "w") -> (%y "y") {{
  %y = gather(%w, %ids) {{axis = 0}} : f32[2,3,5]
}}
)",
                                           arguments);
        std::string out;
        const Module module = add_loss(parse_module("module \"m\" values\n" + ir), loss, report);
        for (const ArgInfo& info : module.main().argument_info)
            if (info.kind == ArgInfo::Kind::input) out += info.names[0] + ":" + info.source + " ";
        return out;
    };
    const std::string ids = R"(%ids: i64[2,3] input "ids" {batched, entries = 5})";
    EXPECT_EQ(sources(ids, "auto"), "ids:tokens labels:next_tokens ");
    EXPECT_EQ(sources(ids, "cross-entropy"), "ids: labels: ");  // scores may be of anything
    EXPECT_EQ(sources(ids + R"(, %segments: i64[2,3] input "segments" {batched, entries = 2})", "auto"),
              "ids: segments: labels: ");
    // A mask and positions are fed with what they are: neither is what the scores are of.
    const std::string mask = R"(, %mask: i64[2,3] input "attention_mask" {batched, source = "ones"})",
                      positions = R"(, %at: i64[2,3] input "position_ids" {batched, source = "positions"})";
    EXPECT_EQ(sources(ids + mask + positions, "auto"),
              "ids:tokens attention_mask:ones position_ids:positions labels:next_tokens ");
    for (const std::string& alone : {mask, positions}) {
        const std::string ir = fmt::format(R"(
func @main(%x: f32[2,3,4] input "x" {{batched}}{}) -> (%y "y") {{
  %y = concat(%x, %x) {{axis = 2}} : f32[2,3,8]
}}
)",
                                           alone);
        EXPECT_NE(error_of(ir, "auto").find("which has no loss yet"), std::string::npos) << error_of(ir, "auto");
    }
}

// Of one class, of embeddings of one number: the loss would stand still, and nothing be trained.
TEST(AddLoss, ALossThatDependsOnNothingIsRefused) {
    constexpr const char* narrow = R"(
func @main(%x: f32[4,1] input "x" {batched}) -> (%y "scores") {
  %y = neg(%x) : f32[4,1]
}
)";
    for (const AddedLoss& loss : added_losses()) {
        const bool stands = loss.name == "cross-entropy" || loss.name == "cosine-embedding";
        if (!stands) {
            Report report;
            EXPECT_NE(with_loss(narrow, report, loss.name), "") << loss.name;
            continue;
        }
        EXPECT_EQ(
            error_of(narrow, loss.name),
            fmt::format("error: --loss {} does not change with scores, whose last dimension is 1\n"
                        "  expected: a last dimension of 2 or more\n"
                        "  found: scores f32[4,1]\n"
                        "help: say with another --loss what it is: bce-with-logits for the score of one class, mse "
                        "and the like for numbers\n",
                        loss.name));
    }
}

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
func @main(%input_ids: i64[2,3] input "input_ids" {batched, entries = 5, source = "tokens"}, %labels: i64[2,3] input "labels" {batched, added, source = "next_tokens"}, %w: f32[5,5] parameter "w") -> (%loss "loss", %weight "weight") {
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

// Whatever a model returns beside what is trained on, in whatever order: which one is taken, why, and how to take
// another is said, or asked.
TEST(AddLoss, OfSeveralResultsItIsSaidWhichIsTaken) {
    const std::string scores = "%y: f32[2,3,5]", mean = "%s: f32[]", one = "%o: f32[1]", rows = "%r: f32[2]",
                      flat = "%f: f32[2,5]", count = "%n: i64[]";
    struct Case {
        std::vector<std::pair<std::string, std::string>> results;  // value, name
        std::string loss, said;                                    // the warning, or the error's first and last line
        bool own = false;                                          // trained on as it is
    };
    const std::string taken = "warning output at ", another = " not computed (--output NAME takes another)",
                      wide = " is what is trained on, being the first of two dimensions or more; ",
                      so = " is what is trained on, being called so; ",
                      scalar = " is what is trained on, being a scalar, and the first; ",
                      loss = " is what is trained on, being a scalar called loss; ",
                      added = "; a cross-entropy is added; if ", if_not = "; if not, --loss cross-entropy says so\n";
    const auto colon = [](std::string text) { return text.replace(0, 1, ": "); };
    const std::vector<Case> cases = {
        // logits and a loss, under the names that authors and exporters give them
        {{{scores, "logits"}, {mean, "mean"}},
         "auto",
         taken + "logits" + colon(so) + "mean is" + another + added +
             "mean is the model's loss, --output mean trains on it" + if_not},
        {{{scores, "linear_4"}, {mean, "nll_loss"}},
         "auto",
         taken + "linear_4" + colon(wide) + "nll_loss is" + another + added +
             "nll_loss is the model's loss, --output nll_loss trains on it" + if_not},
        {{{scores, "linear_4"}, {one, "view"}},
         "auto",
         taken + "linear_4" + colon(wide) + "view is" + another + added +
             "view is the model's loss, --output view trains on it" + if_not},
        {{{mean, "nll_loss"}, {scores, "linear_4"}},
         "auto",
         taken + "nll_loss" + colon(scalar) + "linear_4 is" + another + "\n",
         true},
        {{{scores, "logits"}, {mean, "loss"}},
         "auto",
         taken + "loss" + colon(loss) + "logits is" + another + "\n",
         true},
        {{{mean, "loss"}, {scores, "logits"}},
         "auto",
         taken + "loss" + colon(loss) + "logits is" + another + "\n",
         true},
        {{{scores, "logits"}, {mean, "mean"}},
         "cross-entropy",
         taken + "logits" + colon(so) + "mean is" + another + "\n"},
        // two scalars: what is called loss, else the first
        {{{mean, "accuracy"}, {mean, "loss"}},
         "auto",
         taken + "loss" + colon(loss) + "accuracy is" + another + "\n",
         true},
        {{{mean, "loss"}, {mean, "accuracy"}},
         "auto",
         taken + "loss" + colon(loss) + "accuracy is" + another + "\n",
         true},
        {{{mean, "mean"}, {mean, "mean_1"}},
         "auto",
         taken + "mean" + colon(scalar) + "mean_1 is" + another + "\n",
         true},
        {{{scores, "y"}, {mean, "mean"}, {mean, "mean_1"}},
         "auto",
         taken + "y" + colon(wide) + "mean, mean_1 are" + another + added +
             "one of mean, mean_1 is the model's loss, --output NAME trains on it" + if_not},
        // a loss for each row is none, in whatever order
        {{{rows, "losses"}, {scores, "logits"}}, "auto", taken + "logits" + colon(so) + "losses is" + another + "\n"},
        {{{scores, "y"}, {rows, "losses"}}, "auto", taken + "y" + colon(wide) + "losses is" + another + "\n"},
        {{{rows, "losses"}, {mean, "mean"}},
         "auto",
         "error: the model ends in losses, which has no loss yet: it may be scores of classes, or numbers\n"
         "help: if mean is the model's loss, --output mean trains on it; if not, say what losses is trained with: "
         "--loss "},
        {{{rows, "loss"}},
         "auto",
         "error: the model ends in loss, which has no loss yet: it may be scores of classes, or numbers\nhelp: say "
         "what it is trained with: --loss mse"},
        // scores of which nothing says what they are for
        {{{flat, "logits"}, {mean, "mean"}},
         "auto",
         "error: the model ends in logits, which has no loss yet: it may be scores of classes, or numbers\n"
         "help: if mean is the model's loss, --output mean trains on it; if not, say what logits is trained with: "
         "--loss "},
        {{{count, "count"}, {mean, "mean"}},
         "auto",
         "error: training needs a loss, and the model ends neither in logits nor in a scalar\n"
         "help: if mean is the model's loss, --output mean trains on it; if not, export a model that ends in"},
        // --loss says otherwise
        {{{scores, "logits"}, {mean, "mean"}},
         "none",
         "error: training needs a loss, and the model ends in none\n"
         "help: if mean is the model's loss, --output mean trains on it; if not, use --loss " +
             loss_names() + ", or"},
        {{{mean, "mean"}, {scores, "logits"}},
         "cross-entropy",
         "error: --loss cross-entropy is given, but the model ends in a loss of its own, mean\n"
         "help: leave --loss out, or add --output logits to train on that with it"},
        {{{mean, "mean"}, {rows, "losses"}},
         "cross-entropy",
         "error: --loss cross-entropy is given, but the model ends in a loss of its own, mean\n"
         "help: leave --loss out, or export the model without its loss"},
    };
    for (const Case& c : cases) {
        std::string results;
        for (const auto& [value, name] : c.results)
            results += (results.empty() ? "" : ", ") + value.substr(0, value.find(':')) + " \"" + name + "\"";
        std::string ir(logits);
        ir.replace(ir.find("(%y \"logits\")"), 13, "(" + results + ")");
        std::string ops =
            "  %s = reduce_mean(%y) {axes = [0, 1, 2], keep_dims = false} : f32[]\n"
            "  %o = reshape(%s) {dims = [1]} : f32[1]\n"
            "  %r = reduce_mean(%y) {axes = [1, 2], keep_dims = false} : f32[2]\n"
            "  %f = reduce_mean(%y) {axes = [1], keep_dims = false} : f32[2,5]\n"
            "  %n = reduce_sum(%input_ids) {axes = [0, 1], keep_dims = false} : i64[]\n";
        ir.insert(ir.rfind('}'), ops);
        const std::string what = results + " --loss " + c.loss;
        if (c.said.starts_with("error: ")) {
            const std::string error = error_of(ir, c.loss);
            const std::size_t end = c.said.find('\n') + 1;
            EXPECT_TRUE(error.starts_with(c.said.substr(0, end))) << what << "\n" << error;
            EXPECT_NE(error.find("\n" + c.said.substr(end)), std::string::npos) << what << "\n" << error;
            continue;
        }
        Report report;
        const std::string out = with_loss(ir, report, c.loss);
        const std::string said = notes(report);
        EXPECT_NE(said.find(c.said), std::string::npos) << what << "\n" << said;
        EXPECT_EQ(said.find("warning output"), said.rfind("warning output")) << what << "\n" << said;
        EXPECT_EQ(out.find("cross_entropy(") == std::string::npos, c.own) << what << "\n" << out;
    }
}

// A model that takes its labels has its loss among its results: of that the error says how to take it.
TEST(AddLoss, AModelWithLabelsIsToldOfItsLoss) {
    std::string ir = logits;
    ir.replace(ir.find("(%y \"logits\")"), 13, "(%y \"logits\", %s \"nll_loss\")");
    ir.insert(ir.find(", %w:"), ", %labels: i64[2,3] input \"labels\" {batched}");
    ir.insert(ir.rfind('}'), "  %s = reduce_sum(%y) {axes = [0, 1, 2], keep_dims = false} : f32[]\n");
    EXPECT_EQ(error_of(ir, "auto"),
              "error: the model has an input labels, but none of its results is called loss\n"
              "  expected: a scalar result that is the first or is called loss\n"
              "  found: logits f32[2,3,5], nll_loss f32[]\n"
              "help: if nll_loss is the model's loss, --output nll_loss trains on it; if not, --loss cross-entropy "
              "trains on logits\n");
}

// Of logits alone, as --output leaves them, the labels of the model's own loss are something else.
TEST(AddLoss, AGuessedLossBesideLabelsIsWarnedOf) {
    std::string ir = logits;
    ir.insert(ir.find(", %w:"), ", %labels: i64[2,3] input \"labels\" {batched}");
    Report report;
    const std::string out = with_loss(ir, report, "auto");
    EXPECT_NE(out.find("input \"logits_labels\" {batched, added, source = \"next_tokens\"}"), std::string::npos) << out;
    EXPECT_NE(notes(report).find("warning loss at logits: is trained on with a cross-entropy against the new input "
                                 "logits_labels; the model's own input labels is something else (--loss cross-entropy "
                                 "says that this is meant)"),
              std::string::npos)
        << notes(report);
    Report asked;
    EXPECT_EQ(with_loss(ir, asked, "cross-entropy"), out);
    EXPECT_EQ(notes(asked).find("warning"), std::string::npos) << notes(asked);
    // Labels alone are no token ids, of which the next would be asked for.
    EXPECT_NE(error_of(R"(
func @main(%x: f32[2,3,4] input "x" {batched}, %labels: i64[2,3] input "labels" {batched}) -> (%y "y") {
  %y = neg(%x) : f32[2,3,4]
}
)",
                       "auto")
                  .find("which has no loss yet"),
              std::string::npos);
}

// What a loss adds has a name that no input of the model has: each loss, and each of its inputs.
TEST(AddLoss, LabelsStepAsideForInputs) {
    for (const AddedLoss& loss : added_losses()) {
        for (const LossInput& input : loss.inputs) {
            std::string own = fmt::format(R"(
func @main(%x: f32[2,3] input "x" {{batched}}, %own: f32[2] input "{}" {{batched}}) -> (%y "y") {{
  %r = reshape(%own) {{dims = [2,1]}} : f32[2,1]
  %y = mul(%x, %r) : f32[2,3]
}}
)",
                                          input.name);
            Report report;
            const std::string out = with_loss(own, report, loss.name);
            EXPECT_NE(out.find(fmt::format(": f32[2] input \"{}\" {{batched}}", input.name)), std::string::npos) << out;
            for (const LossInput& each : loss.inputs) {
                const std::string name = each.name == input.name ? "y_" + each.name : each.name;
                EXPECT_NE(out.find(fmt::format(" input \"{}\" {{batched, added", name)), std::string::npos)
                    << loss.name << "\n"
                    << out;
            }
            // That name may be an input's as well.
            own.insert(own.find(") ->"), fmt::format(", %other: f32[2] input \"y_{}\" {{batched}}", input.name));
            EXPECT_NE(with_loss(own, loss.name).find(" input \"targets\" {batched, added"), std::string::npos)
                << loss.name;
        }
    }
}

TEST(AddLoss, SquaredError) {
    EXPECT_EQ(with_loss(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%y "y") {
  %y = neg(%x) : f32[2,3]
}
)",
                        "mse"),
              text(R"(
func @main(%x: f32[2,3] input "x" {batched}, %labels: f32[2,3] input "labels" {batched, added, note = "the number that each element is to be"}) -> (%loss "loss") {
  %y = neg(%x) : f32[2,3]
  %sub = sub(%y, %labels) : f32[2,3]
  %mul = mul(%sub, %sub) : f32[2,3]
  %loss = reduce_mean(%mul) {axes = [0, 1], keep_dims = false} : f32[]
}
)"));
}

// Each of a loss's inputs is one of the graph's, with what it holds; those that parameters' names are taken for step
// aside.
TEST(AddLoss, ALossMayTakeSeveralInputs) {
    Report report;
    const std::string model = R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[3] parameter "w") -> (%y "y") {
  %y = mul(%x, %w) : f32[2,3]
}
)";
    const std::string with = with_loss(model, report, "cosine-embedding:margin=0.5");
    EXPECT_NE(with.find(": f32[2,3] input \"other_embeddings\" {batched, added, note = \"the other embedding\"}"),
              std::string::npos)
        << with;
    EXPECT_NE(
        with.find(": f32[2] input \"signs\" {batched, added, note = \"1 where the two are alike, -1 where they are "
                  "not; a row of 0 adds nothing to the sum\"}"),
        std::string::npos)
        << with;
    EXPECT_EQ(notes(report),
              "done loss at y: mean cosine embedding loss with margin 0.5 against the new inputs other_embeddings and "
              "signs: the sum over 2 elements of each micro-batch, divided by their number\n");
    std::string taken = model;
    taken.replace(taken.find("\"w\""), 3, "\"signs\" {alias 0 = [\"other_embeddings\"]}");
    Report aside;
    with_loss(taken, aside, "cosine-embedding");
    EXPECT_NE(notes(aside).find("against the new inputs targets and targets_2: "), std::string::npos) << notes(aside);
}

// What no op of the loss bounds is bounded by it: labels of nll are compared with classes, and 7 of 5 would be none.
TEST(AddLoss, ClassesAreBounded) {
    EXPECT_NE(with_loss(logits, "nll")
                  .find("input \"labels\" {batched, added, entries = 5, ignore = -100, source = \"next_tokens\"}"),
              std::string::npos)
        << with_loss(logits, "nll");
}

TEST(AddLoss, ClassWeightsAreOneForEachClass) {
    EXPECT_EQ(error_of(logits, "cross-entropy:class_weights=1,2,3,4,5"), "no error");
    EXPECT_EQ(error_of(logits, "nll:class_weights=2"),
              "error: class_weights of --loss nll has 1 number, and logits has 5 classes\n"
              "  expected: 5 numbers\n"
              "  found: logits f32[2,3,5]\n"
              "help: give one for each class, in their order, and 1 for those that count as they are\n");
}

constexpr const char* own_mean = R"(
func @main(%input_ids: i64[2,3] input "input_ids" {batched, entries = 5, source = "tokens"}, %labels: i64[2,3] input "labels" {batched}, %w: f32[5,5] parameter "w") -> (%loss "loss") {
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

// What a result that is no sequence of scores is for is not guessed.
TEST(AddLoss, AsksForTheLossOfNumbers) {
    constexpr const char* numbers = R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%y "logits") {
  %y = neg(%x) : f32[2,3]
}
)";
    const std::string asked = error_of(numbers, "auto");
    EXPECT_EQ(
        asked.substr(0, asked.find(", --loss l1")),
        "error: the model ends in logits, which has no loss yet: it may be scores of classes, or numbers\n"
        "  expected: token ids and scores [batch, positions, classes], where a cross entropy is added, or --loss\n"
        "  found: logits f32[2,3]\n"
        "help: say what it is trained with: --loss cross-entropy (labels i64[2]), --loss mse (labels f32[2,3])");
    EXPECT_TRUE(asked.ends_with("), as thunderc train --help describes them, or export the model with its loss\n"))
        << asked;
    for (const AddedLoss& loss : added_losses())  // the table is what is listed
        EXPECT_NE(asked.find("--loss " + loss.name + " ("), std::string::npos) << loss.name;
    // Three dimensions of numbers, and two of ids.
    std::string wide(numbers), ids(logits);
    for (std::size_t at; (at = wide.find("[2,3]")) != std::string::npos;) wide.replace(at, 5, "[2,3,4]");
    EXPECT_NE(error_of(wide, "auto").find("has no loss yet"), std::string::npos);
    ids.replace(ids.find("(%y \"logits\")"), 13, "(%z \"logits\")");
    ids.insert(ids.rfind('}'), "  %z = reduce_sum(%y) {axes = [1], keep_dims = false} : f32[2,5]\n");
    EXPECT_NE(error_of(ids, "auto").find("has no loss yet"), std::string::npos);
    EXPECT_EQ(error_of(ids, "cross-entropy"), "no error");
}

constexpr const char* row_numbers = R"(
func @main(%x: f32[3] input "x" {batched}, %w: f32[1] parameter "w") -> (%y "scores") {
  %y = mul(%x, %w) : f32[3]
}
)";

// A regressor's numbers, one for each row: no loss of its own, whatever the batch is.
TEST(AddLoss, ANumberForEachRowIsNoLoss) {
    for (const std::string rows : {"3", "1"}) {
        std::string ir(row_numbers);
        for (std::size_t at = 0; (at = ir.find("[3]", at)) != std::string::npos; at += 3) ir.replace(at + 1, 1, rows);
        EXPECT_NE(error_of(ir, "auto").find("error: the model ends in scores, which has no loss yet"),
                  std::string::npos)
            << error_of(ir, "auto");
        EXPECT_EQ(error_of(ir, "auto").find("--loss cross-entropy ("), std::string::npos);  // there are no classes
        Report report;
        const std::string mse = with_loss(ir, report, "mse");
        EXPECT_NE(mse.find(": f32[" + rows + "] input \"labels\""), std::string::npos) << mse;
    }
    // Beside a result of several dimensions it is what is left out.
    std::string two(row_numbers);
    two.replace(two.find("(%y \"scores\")"), 13, "(%y \"scores\", %z \"wide\")");
    two.insert(two.rfind('}'), "  %z = reshape(%y) {dims = [3, 1]} : f32[3,1]\n");
    Report report;
    EXPECT_NE(with_loss(two, report, "mse").find("input \"labels\" {batched,"), std::string::npos);
    EXPECT_EQ(notes(report).substr(0, 89),
              "warning output at wide: is what is trained on, being the first of two dimensions or more;");
}

// Ids and floats alone do not make scores of classes: a model that takes noise away from [B, T, C], given times of
// rows, or ids of another length.
TEST(AddLoss, GuessesNoClassesOfNumbers) {
    const auto model = [](const std::string& ids, const std::string& more) {
        return "func @main(%ids: i64[" + ids + "] input \"ids\" {batched}, %x: f32[2,3," + more +
               "] input \"x\" {batched}, %w: f32[" + more + ",5] parameter \"w\") -> (%y \"out\") {\n" +
               "  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[2,3,5]\n}\n";
    };
    EXPECT_EQ(error_of(model("2,3", "4"), "auto"), "no error");
    EXPECT_NE(error_of(model("2", "4"), "auto").find("has no loss yet"), std::string::npos);
    EXPECT_NE(error_of(model("2,7", "4"), "auto").find("has no loss yet"), std::string::npos);
    EXPECT_NE(error_of(model("2,3", "5"), "auto").find("has no loss yet"), std::string::npos);
}

TEST(AddLoss, Errors) {
    constexpr const char* labels = R"(
func @main(%x: i64[3] input "x") -> (%y "ids") {
  %y = neg(%x) : i64[3]
}
)";
    EXPECT_EQ(error_of(labels, "auto"),
              "error: training needs a loss, and the model ends neither in logits nor in a scalar\n"
              "  expected: logits or a scalar loss\n"
              "  found: ids i64[3]\n"
              "help: export a model that ends in what a loss can be made of, or in its loss\n");
    EXPECT_EQ(error_of(row_numbers, "cross-entropy"),
              "error: --loss cross-entropy needs a result of 2 dimensions or more, and the model has none\n"
              "  expected: the mean cross entropy over the classes in the last dimension, without rows of label -100\n"
              "  found: scores f32[3]\n"
              "help: export a model that ends in one, or in its loss\n");
    EXPECT_EQ(error_of(logits, "none"),
              "error: training needs a loss, and the model ends in none\n"
              "  expected: a scalar result\n"
              "  found: logits f32[2,3,5]\n"
              "help: use --loss " +
                  loss_names() + ", or export a model that ends in its loss\n");
    EXPECT_EQ(error_of(own_mean, "mse"),
              "error: --loss mse is given, but the model ends in a loss of its own, loss\n"
              "help: leave --loss out, or export the model without its loss\n");
    EXPECT_EQ(error_of(logits, "l2"),
              "error: there is no loss called l2\n"
              "help: --loss takes auto, none, " +
                  loss_names() + "\n");
}

}  // namespace add_loss_test
}  // namespace thunderc
