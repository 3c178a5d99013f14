// SPDX-License-Identifier: Apache-2.0
// What --loss says, and what is said of the losses that it may name.
#include "compiler/losses/losses.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "compiler/interpreter/evaluate.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

std::string refused(const std::string& text) {
    try {
        parse_loss(text);
    } catch (const UsageError& error) {
        return error.diagnostic().text();
    }
    return "nothing is refused";
}

TEST(ParseLoss, OptionsHaveTheirNumbers) {
    EXPECT_EQ(parse_loss("huber").numbers.number("delta"), 1);
    EXPECT_EQ(parse_loss("huber:delta=0.5").loss, find_loss("huber"));
    EXPECT_EQ(parse_loss("huber:delta=0.5").numbers.number("delta"), 0.5);
    EXPECT_EQ(parse_loss("kl-div:log_target=1").numbers.flag("log_target"), true);
    EXPECT_EQ(parse_loss("kl-div").numbers.flag("log_target"), false);
    EXPECT_EQ(parse_loss("cosine-embedding:margin=-1").numbers.number("margin"), -1);
    const std::vector<double> weights = {0.5, 1, 2};
    for (const char* text : {"cross-entropy:class_weights=0.5,1,2,label_smoothing=0.1,z_loss=1e-4",
                             "cross-entropy:z_loss=1e-4,class_weights=0.5,1,2,label_smoothing=0.1",
                             "cross-entropy:label_smoothing=0.1,z_loss=0.0001,class_weights=0.5,1,2"}) {
        const GivenLoss given = parse_loss(text);
        EXPECT_EQ(given.numbers.numbers("class_weights"), weights) << text;
        EXPECT_EQ(given.numbers.number("label_smoothing"), 0.1) << text;
        EXPECT_EQ(given.numbers.number("z_loss"), 1e-4) << text;
    }
    EXPECT_TRUE(parse_loss("cross-entropy").numbers.numbers("class_weights").empty());
}

std::string shown(const LossTerm& term) {
    return fmt::format("{} {} {}", term.factor, term.loss.loss == nullptr ? "own" : term.loss.loss->name,
                       term.result.empty() ? "-" : term.result);
}

TEST(ParseLosses, TermsHaveFactorsAndResults) {
    const auto terms = [](const std::string& text) {
        std::string out;
        for (const LossTerm& term : parse_losses(text)) out += (out.empty() ? "" : ", ") + shown(term);
        return out;
    };
    EXPECT_EQ(terms("mse"), "1 mse -");
    EXPECT_EQ(terms("mse@y"), "1 mse y");
    EXPECT_EQ(terms("0.5*mse@y"), "0.5 mse y");
    EXPECT_EQ(terms("-1e+2*mse+own"), "-100 mse -, 1 own -");
    EXPECT_EQ(terms("cross-entropy@logits+0.5*mse@value+own@aux"), "1 cross-entropy logits, 0.5 mse value, 1 own aux");
    EXPECT_EQ(terms(" 2 * l1 @ y + mse "), "2 l1 y, 1 mse -");
    EXPECT_EQ(terms("mse@Identity:0+l1@/head/Add_output_0"), "1 mse Identity:0, 1 l1 /head/Add_output_0");
    EXPECT_EQ(terms("huber@y:delta=2e+1+3*huber:delta=0.25@z+huber@Identity:0:delta=4"),
              "1 huber y, 3 huber z, 1 huber Identity:0");
    const std::vector<LossTerm> huber =
        parse_losses("huber@y:delta=2e+1+3*huber:delta=0.25@z+huber@Identity:0:delta=4");
    EXPECT_EQ(huber[0].loss.numbers.number("delta"), 20);
    EXPECT_EQ(huber[1].loss.numbers.number("delta"), 0.25);
    EXPECT_EQ(huber[2].loss.numbers.number("delta"), 4);
    const std::vector<double> weights = {1, 2.5};
    EXPECT_EQ(parse_losses("mse+cross-entropy@y:class_weights=1,2.5")[1].loss.numbers.numbers("class_weights"),
              weights);
}

TEST(ParseLosses, RefusesWhatIsNoTerm) {
    const auto message = [](const std::string& text) -> std::string {
        try {
            parse_losses(text);
        } catch (const UsageError& error) {
            const std::string all = error.diagnostic().text();
            return all.substr(0, all.find('\n'));
        }
        return "nothing is refused";
    };
    for (const char* text : {"mse+", "+mse", "mse++l1", "+", "", " "})
        EXPECT_EQ(message(text), fmt::format("error: a term of --loss \"{}\" is empty", text));
    for (const char* factor : {"0", "x", "", "nan", "inf", "1e999", "1 2", "mse"})
        EXPECT_EQ(message(fmt::format("{}*mse", factor)),
                  fmt::format("error: the factor \"{}\" of a loss is no number other than 0", factor));
    EXPECT_EQ(message("mse@"), "error: there is no result behind mse@");
    EXPECT_EQ(message("mse@:delta=1"), "error: there is no result behind mse@");
    EXPECT_EQ(message("own:x=1"), "error: own takes no options");
    EXPECT_EQ(message("own@y:x=1"), "error: own takes no options");
    EXPECT_EQ(message("own:x=1@y"), "error: own takes no options");
    EXPECT_EQ(message("mse+hinge@y"), "error: there is no loss called hinge");
    EXPECT_EQ(message("mse+auto"), "error: there is no loss called auto");
    EXPECT_EQ(message("l1@y:delta=1"), "error: --loss l1 has no option delta");
}

// One sentence of what is wrong, and all that there is instead.
TEST(ParseLoss, RefusesWhatItDoesNotKnow) {
    const std::string huber =
        "\nhelp: those of --loss huber are delta=1 (up to where distances are squared; a number above 0)\n";
    EXPECT_EQ(refused("hinge"),
              "error: there is no loss called hinge\nhelp: --loss takes auto, none, " + loss_names() + "\n");
    EXPECT_EQ(refused("Huber:delta=1"),
              "error: there is no loss called Huber\nhelp: --loss takes auto, none, " + loss_names() + "\n");
    EXPECT_EQ(refused("mse:delta=1"),
              "error: --loss mse has no option delta\nhelp: it takes none: leave away what is behind the colon\n");
    EXPECT_EQ(refused("huber:beta=1"), "error: --loss huber has no option beta" + huber);
    EXPECT_EQ(refused("huber:0.5"), "error: --loss huber has no option 0.5" + huber);
    EXPECT_EQ(refused("huber:"), "error: an option of --loss huber has no name" + huber);
    EXPECT_EQ(refused("huber:=1"), "error: an option of --loss huber has no name" + huber);
    EXPECT_EQ(refused("huber:delta=1,"), "error: an option of --loss huber has no name" + huber);
    EXPECT_EQ(refused("huber:delta"), "error: delta of --loss huber has no number" + huber);
    EXPECT_EQ(refused("huber:delta=1,delta=2"),
              "error: delta of --loss huber is given twice\nhelp: leave one of the two out\n");
    for (const char* number : {"", "x", "1x", "0", "-1", "nan", "inf", "1e999", " 1"})
        EXPECT_EQ(
            refused(fmt::format("huber:delta={}", number)),
            fmt::format("error: delta of --loss huber is \"{}\", which is not a number above 0{}", number, huber));
    const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
    EXPECT_EQ(first_line(refused("cross-entropy:label_smoothing=1.5")),
              "error: label_smoothing of --loss cross-entropy is \"1.5\", which is not a number from 0 to 1");
    EXPECT_EQ(first_line(refused("cross-entropy:z_loss=-1")),
              "error: z_loss of --loss cross-entropy is \"-1\", which is not a number of at least 0");
    EXPECT_EQ(first_line(refused("cross-entropy:class_weights=1,-2")),
              "error: class_weights of --loss cross-entropy is \"-2\", which is not a number of at least 0 for each "
              "class");
    EXPECT_EQ(first_line(refused("cross-entropy:class_weights=1,,2")),
              "error: class_weights of --loss cross-entropy is \"\", which is not a number of at least 0 for each "
              "class");
    EXPECT_EQ(first_line(refused("kl-div:log_target=0.5")),
              "error: log_target of --loss kl-div is \"0.5\", which is not 0 or 1");
    EXPECT_EQ(first_line(refused("cosine-embedding:margin=2")),
              "error: margin of --loss cosine-embedding is \"2\", which is not a number from -1 to 1");
}

// What every loss has to say.
TEST(Losses, AreWhole) {
    std::set<std::string> names;
    for (const AddedLoss& loss : added_losses()) {
        EXPECT_TRUE(names.insert(loss.name).second) << loss.name;
        EXPECT_EQ(loss.name.find_first_of(":,= |"), std::string::npos) << loss.name;
        EXPECT_FALSE(loss.what.empty()) << loss.name;
        EXPECT_GE(loss.least_rank, 1) << loss.name;
        EXPECT_FALSE(loss.inputs.empty()) << loss.name;
        for (const LossInput& input : loss.inputs)
            EXPECT_FALSE(input.name.empty() || input.shape.empty() || input.holds.empty() || input.type == nullptr)
                << loss.name;
        for (const LossOption& option : loss.options) {
            EXPECT_FALSE(option.name.empty() || option.what.empty()) << loss.name;
            EXPECT_LT(option.least, option.most) << loss.name;
        }
        EXPECT_TRUE(loss.build != nullptr && loss.said != nullptr && loss.definition != nullptr) << loss.name;
        EXPECT_NE(losses_help().find(fmt::format("\n  {}: {}\n", loss.name, loss.what)), std::string::npos);
    }
}

// By hand: the cosine of (3, 4) and (4, 3) is 24/25. Of rows with signs 1, -1 and 0, torch's sum has 1 - 0.96,
// 0.96 - 0.25, and nothing; its mean is over all three.
TEST(Losses, ACosineOfSignZeroAddsNothing) {
    const GivenLoss given = parse_loss("cosine-embedding:margin=0.25");
    const Type pairs = Type::tensor(DType::f32, {3, 2}), rows = Type::tensor(DType::f32, {3});
    std::vector<Tensor> tensors = {Tensor(pairs), Tensor(pairs), Tensor(rows)};
    for (std::int64_t row = 0; row < 3; ++row) {
        tensors[0].set(2 * row, 3), tensors[0].set(2 * row + 1, 4);
        tensors[1].set(2 * row, 4), tensors[1].set(2 * row + 1, 3);
        tensors[2].set(row, row == 0 ? 1 : row == 1 ? -1 : 0);
    }
    Module module;
    Function& f = module.functions.emplace_back();
    f.name = "main";
    std::vector<Value> arguments;
    for (const char* name : {"x", "y", "signs"})
        arguments.push_back(f.add_argument(tensors[arguments.size()].type, name));
    Builder b(f);
    f.results = given.loss->build(b, arguments[0], std::span(arguments).subspan(1), given.numbers);
    f.result_names = {"loss"};
    EXPECT_NEAR(evaluate(module, f, std::span<const Tensor>(tensors)).at(0).at(0), 0.25, 1e-12);
    EXPECT_NEAR(given.loss->definition(tensors[0], std::span(tensors).subspan(1), given.numbers), 0.25, 1e-12);
}

// docs/usage.md has the table as it is: what stands here is what is to stand there.
TEST(Losses, StandInTheDocs) {
    std::ifstream file(FIXTURES "/../../docs/usage.md");
    std::stringstream text;
    text << file.rdbuf();
    const Type some = Type::tensor(DType::f32, {2, 2});
    std::string rows = "| --loss | what it is | inputs | options |\n|---|---|---|---|\n";
    for (const AddedLoss& loss : added_losses()) {
        std::string inputs, options;
        for (const LossInput& input : loss.inputs)
            inputs += fmt::format("{}`{}` ({}, {}): {}", inputs.empty() ? "" : "; ", input.name,
                                  name_of(input.type(some).dtype), input.shape, input.holds);
        for (const LossOption& option : loss.options)
            options += fmt::format("{}`{}`: {} ({})", options.empty() ? "" : "; ", default_text(option), option.what,
                                   range_text(option));
        std::string what;
        for (const char c : loss.what) what += c == '|' ? std::string("\\|") : std::string(1, c);
        rows += fmt::format("| `{}` | {} | {} | {} |\n", loss.name, what, inputs, options);
    }
    EXPECT_NE(text.str().find("\n\n" + rows + "\n"), std::string::npos) << "docs/usage.md lacks\n\n" << rows;
}

}  // namespace
}  // namespace thunderc
