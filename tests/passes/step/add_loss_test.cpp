// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/add_loss.h"

#include <fmt/format.h>

#include "compiler/losses/losses.h"
#include "compiler/support/error.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace add_loss_test {

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
    EXPECT_EQ(
        error_of(ir, "auto"),
        "error: the model has an input labels and ends in logits f32[2,3,5], nll_loss f32[] all the same; the loss "
        "would need one of that name\n"
        "help: if nll_loss is the model's loss, --output nll_loss trains on it; if not, export the model without "
        "that input, or with its own loss as its first result\n");
}

TEST(AddLoss, SquaredError) {
    EXPECT_EQ(with_loss(R"(
func @main(%x: f32[2,3] input "x" {batched}) -> (%y "y") {
  %y = neg(%x) : f32[2,3]
}
)",
                        "mse"),
              text(R"(
func @main(%x: f32[2,3] input "x" {batched}, %labels: f32[2,3] input "labels" {batched, note = "the number that each element is to be"}) -> (%loss "loss") {
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
    EXPECT_NE(with.find(": f32[2,3] input \"other_embeddings\" {batched, note = \"the other embedding\"}"),
              std::string::npos)
        << with;
    EXPECT_NE(with.find(": f32[2] input \"signs\" {batched, note = \"1 where the two are alike, -1 where they are "
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
                  .find("input \"labels\" {batched, entries = 5, ignore = -100, source = \"next_tokens\"}"),
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
    EXPECT_NE(folded.find("i64[2,3] input \"labels\" {batched, source = \"next_tokens\"}"), std::string::npos)
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
              "the same\n");
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
    const char* mean_help = "Divide by the number of rows in the model, so that it is a mean, to have the same";
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
