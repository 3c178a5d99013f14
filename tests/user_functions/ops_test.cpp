// SPDX-License-Identifier: Apache-2.0
// Functions that users bring as ops: shapes, text, gradients, and the patterns that they are put in the place of.
#include <fmt/format.h>

#include "compiler/ir/builder.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/raise/use_user_functions.h"
#include "tests/passes/pass_test.h"
#include "tests/passes/transform_text.h"
#include "tests/user_functions/folder.h"

namespace thunderc::tests::ops_test {

class UserOps : public UserFolder {
  protected:
    UserOps() { load_user_executors({folder_ / "my.json"}); }

    // Of functions that patterns find: the others of the sample are operators, which none of these modules has.
    static std::string notes_on_patterns(Report report) {
        std::erase_if(report.notes, [](const Note& note) { return note.what != "learned_swish"; });
        return notes(report);
    }
};

constexpr const char* twice = R"(
func @main(%x: f32[2,5,4] input "x", %b: f32[4] parameter "b", %z: f32[4,4] input "z") -> (%y, %kept, %w) {
  %s = mul(%b, %x) : f32[2,5,4]
  %g = sigmoid(%s) : f32[2,5,4]
  %y = mul(%g, %x) : f32[2,5,4]
  %s1 = mul(%x, %b) : f32[2,5,4]
  %kept = sigmoid(%s1) : f32[2,5,4]
  %y1 = mul(%x, %kept) : f32[2,5,4]
  %n = neg(%y1) : f32[2,5,4]
  %s2 = mul(%z, %z) : f32[4,4]
  %g2 = sigmoid(%s2) : f32[4,4]
  %w = mul(%z, %g2) : f32[4,4]
}
)";

TEST_F(UserOps, StandWhereThePatternStands) {
    const Module before = parsed(twice);
    Report report;
    const Module used = use_user_functions(before, report);
    EXPECT_EQ(
        printed_functions(used),
        printed_functions(parsed(
            R"(func @main(%x: f32[2,5,4] input "x", %b: f32[4] parameter "b", %z: f32[4,4] input "z") -> (%learned_swish, %kept, %w) {
  %learned_swish, %learned_swish_gate = user.learned_swish(%x, %b) : f32[2,5,4], f32[2,5,4]
  %s1 = mul(%x, %b) : f32[2,5,4]
  %kept = sigmoid(%s1) : f32[2,5,4]
  %s2 = mul(%z, %z) : f32[4,4]
  %g2 = sigmoid(%s2) : f32[4,4]
  %w = mul(%z, %g2) : f32[4,4]
}
)")));
    EXPECT_EQ(notes_on_patterns(report),
              "done learned_swish: learned_swish_forward of my.json\n"
              "declined learned_swish: %kept is read by others as well\n"
              "declined learned_swish: its arguments are f32[4,4], f32[4,4], and the file has f32[..., C], f32[C]\n");
    verify(used);
    EXPECT_EQ(printed_functions(parsed(printed_functions(used))), printed_functions(used));
    // Evaluated as the pattern says it, which is what was there: the same operations in the same order.
    const Module expanded = expand_user_functions(used, report);
    verify(expanded);
    expect_same_bits(values_of(before), values_of(expanded));
}

TEST_F(UserOps, OtherAttributesAndConstantsStay) {
    write_file(folder_ / "learned_swish.ir",
               "func @f(%x: f32[..., C], %beta: f32[C]) -> (%y) {\n"
               "  %two = constant() {value = <f32[] splat 2>} : f32[]\n  %t = mul(%x, %two) : f32[..., C]\n"
               "  %y = add(%t, %beta) : f32[..., C]\n}\n");
    ASSERT_EQ(said(), "");
    const std::string ir = R"(func @main(%x: f32[3,4] input "x", %b: f32[4] parameter "b") -> (%y) {
  %c = constant() {value = <f32[] splat 3>} : f32[]
  %t = mul(%x, %c) : f32[3,4]
  %y = add(%t, %b) : f32[3,4]
}
)";
    Report report;
    EXPECT_EQ(printed_functions(use_user_functions(parsed(ir), report)), printed_functions(parsed(ir)));
    EXPECT_EQ(notes_on_patterns(report),
              "declined learned_swish: the constant %two is another one here\n"
              "warning learned_swish at my.json: it is called nowhere: of one place that has its pattern's structure "
              "none is the pattern; thunderc inspect says why of each. The first, the constant %two is another one "
              "here\n");
}

// A person writes decimal numbers; those of a model are the f32 that are nearest to them.
TEST_F(UserOps, ConstantsAreTheSameInF32) {
    write_file(folder_ / "learned_swish.ir",
               "// brackets of a comment, [x and y], say nothing: [\n"
               "func @f(%x: f32[..., C], %beta: f32[C]) -> (%y) {\n"
               "  %c = constant() {value = <f32[] splat 0.1>} : f32[]\n  %t = mul(%x, %c) : f32[..., C]\n"
               "  %y = add(%t, %beta) : f32[..., C]\n}\n");
    ASSERT_EQ(said(), "");
    const auto notes_with = [](const char* number) {
        Report report;
        use_user_functions(parsed(fmt::format(R"(
func @main(%x: f32[3,4] input "x", %b: f32[4] parameter "b") -> (%y) {{
  %c = constant() {{value = <f32[] splat {}>}} : f32[]
  %t = mul(%x, %c) : f32[3,4]
  %y = add(%t, %b) : f32[3,4]
}}
)",
                                              number)),
                           report);
        return notes_on_patterns(report);
    };
    EXPECT_EQ(notes_with("0.10000000149011612"), "done learned_swish: learned_swish_forward of my.json\n");
    EXPECT_EQ(notes_with("0.10000000894069672").substr(0, 8), "declined");  // the f32 behind it
}

TEST_F(UserOps, APatternThatIsNowhereIsWarnedOf) {
    Report report;
    use_user_functions(parsed("func @main(%x: f32[3,4] input \"x\") -> (%y) {\n  %y = neg(%x) : f32[3,4]\n}\n"),
                       report);
    EXPECT_EQ(notes(report),
              "warning snake at my.json: nothing that the model computes is made by an operator com.example::Snake\n"
              "warning squareplus at my.json: nothing that the model computes is made by an operator "
              "com.example::Squareplus\n"
              "warning learned_swish at my.json: its pattern is nowhere in the model: no mul with what comes before it "
              "there; thunderc trace MODEL --after simplify_raised shows what there is\n");
}

// Which operand of a commutative op is which is known only when what comes behind it has been seen.
TEST_F(UserOps, OrdersOfOperandsAreTriedTogether) {
    write_file(folder_ / "learned_swish.ir",
               "func @f(%x: f32[..., C], %beta: f32[C]) -> (%y) {\n"
               "  %p = add(%beta, %x) : f32[..., C]\n  %q = max(%x, %beta) : f32[..., C]\n"
               "  %t = mul(%p, %q) : f32[..., C]\n  %y = sub(%t, %x) : f32[..., C]\n}\n");
    ASSERT_EQ(said(), "");
    Report report;
    const Module used = use_user_functions(parsed(R"(
func @main(%a: f32[4,4] input "a", %b: f32[4] parameter "b") -> (%y) {
  %q = max(%b, %a) : f32[4,4]
  %p = add(%a, %b) : f32[4,4]
  %t = mul(%q, %p) : f32[4,4]
  %y = sub(%t, %a) : f32[4,4]
}
)"),
                                           report);
    EXPECT_EQ(notes_on_patterns(report), "done learned_swish: learned_swish_forward of my.json\n");
    EXPECT_NE(printed_functions(used).find("user.learned_swish(%a, %b)"), std::string::npos);
}

// A pattern is read with the attributes of the file: for others it says nothing.
TEST_F(UserOps, APatternStaysOutWhereAttributesAreOthers) {
    write_file(folder_ / "squareplus.ir",
               "func @f(%x: f32[...]) -> (%y) {\n  %s = mul(%x, %x) : f32[...]\n"
               "  %four = constant() {value = <f32[] splat 4>} : f32[]\n  %t = add(%s, %four) : f32[...]\n"
               "  %r = sqrt(%t) : f32[...]\n  %u = add(%x, %r) : f32[...]\n"
               "  %half = constant() {value = <f32[] splat 0.5>} : f32[]\n  %y = mul(%u, %half) : f32[...]\n}\n");
    replace("my.json", "\"saved\": {\"root\"", "\"pattern\": \"squareplus.ir\", \"saved\": {\"root\"");
    ASSERT_EQ(said(), "");
    const Module calls = parsed(R"(
func @main(%a: f32[2,3] input "a") -> (%y, %z) {
  %y, %r = user.squareplus(%a) {bend = 4.0} : f32[2,3], f32[2,3]
  %z, %s = user.squareplus(%a) {bend = 0.5} : f32[2,3], f32[2,3]
}
)");
    Report report;
    const std::string text = printed_functions(expand_user_functions(calls, report));
    EXPECT_EQ(notes(report),
              "done squareplus: as the pattern of my.json says it\n"
              "declined squareplus: its pattern is for the attributes of my.json, and these are others\n");
    EXPECT_EQ(text.find("{bend = 4"), std::string::npos) << text;
    EXPECT_NE(text.find("user.squareplus(%a) {bend = 0.5}"), std::string::npos) << text;
    try {
        values_of(calls);
        FAIL() << "a number was given";
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().message,
                  "user.squareplus cannot be evaluated: its pattern holds for the attributes of my.json, and these are "
                  "others");
    }
}

TEST_F(UserOps, GradientsAreTheBackwardFunctions) {
    Report report;
    const Module used = use_user_functions(parsed(R"(
func @main(%x: f32[5,4] input "x", %a: f32[4] parameter "a") -> (%loss) {
  %y = user.snake(%x, %a) : f32[5,4]
  %loss = reduce_sum(%y) {axes = [0,1], keep_dims = false} : f32[]
}
)"),
                                           report);
    const std::string text = printed_functions(differentiate(used, {}, report));
    EXPECT_NE(text.find("= user.snake.backward(%"), std::string::npos) << text;
    EXPECT_NE(text.find(", %x, %a) : f32[5,4], f32[4]"), std::string::npos) << text;
}

TEST_F(UserOps, AFunctionWithoutABackwardOneHasNoGradient) {
    replace("my.json",
            "\"backward\": {\"function\": \"snake_backward\", \"reads\": [\"dy\", \"x\", \"alpha\"], \"gives\": "
            "[\"dx\", \"dalpha\"]},",
            "");
    ASSERT_EQ(said(), "");
    Report report;
    try {
        differentiate(parsed(R"(
func @main(%x: f32[5,4] input "x", %a: f32[4] parameter "a") -> (%loss) {
  %y = user.snake(%x, %a) : f32[5,4]
  %loss = reduce_sum(%y) {axes = [0,1], keep_dims = false} : f32[]
}
)"),
                      {}, report);
        FAIL() << "nothing was refused";
    } catch (const UserError& error) {
        EXPECT_EQ(error.diagnostic().text(),
                  "error: my.json, snake: there is no backward function, and a gradient passes through it\n"
                  "help: give \"backward\", or freeze what comes before it (--freeze)\n");
    }
}

// A dimension that is made of letters has to be whole wherever the op stands.
TEST_F(UserOps, ShapesThatAreNotWholeAreRefused) {
    replace("my.json", "\"alpha\": \"f32[C]\"", "\"alpha\": \"f32[C/2]\"");
    ASSERT_EQ(said(), "");
    auto message = [](const std::string& text) -> std::string {
        try {
            parsed(text);
        } catch (const std::exception& error) {
            return error.what();
        }
        return "taken";
    };
    EXPECT_EQ(message("func @main(%x: f32[5,4] input \"x\", %a: f32[2] input \"a\") -> (%y) {\n"
                      "  %y = user.snake(%x, %a) : f32[5,4]\n}\n"),
              "taken");
    EXPECT_NE(message("func @main(%x: f32[5,3] input \"x\", %a: f32[7] input \"a\") -> (%y) {\n"
                      "  %y = user.snake(%x, %a) : f32[5,3]\n}\n")
                  .find("alpha is f32[7], and f32[C/2] is expected, which is no whole number here"),
              std::string::npos);
}

TEST_F(UserOps, ShapesAreThoseOfTheFile) {
    auto message = [](const std::string& operands) {
        try {
            Module m = parsed("func @main(%x: f32[5,4] input \"x\", %a: f32[3] input \"a\") -> (%x) {\n}\n");
            Builder b(m.main());
            b.op("user.snake", {m.main().arguments[0], m.main().arguments[operands == "x, a" ? 1 : 0]});
        } catch (const UserError& error) {
            return error.diagnostic().message;
        }
        return std::string();
    };
    EXPECT_EQ(message("x, a"), "user.snake: alpha is f32[3], and f32[C] is expected");
    EXPECT_EQ(message("x, x"), "user.snake: alpha is f32[5,4], and f32[C] is expected");
}

TEST(UserSizes, AreSumsOfProducts) {
    Sizes sizes;
    sizes.letters = {{"B", 3}, {"C", 8}};
    EXPECT_EQ(evaluate_size("2*C + B", sizes), 19);
    EXPECT_EQ(evaluate_size("2*(C - B)", sizes), 10);
    EXPECT_EQ(evaluate_size("C/2", sizes), 4);
    EXPECT_EQ(evaluate_size("C/B", sizes), std::nullopt);
    EXPECT_EQ(evaluate_size("D", sizes), std::nullopt);
    sizes.leading = Dims{};
    EXPECT_EQ(with_sizes("f32[..., 2*C] {axes = [-1]}", sizes), "f32[16] {axes = [-1]}");
}

}  // namespace thunderc::tests::ops_test
