// SPDX-License-Identifier: Apache-2.0
// Programs of two streams, written by hand: the checker and permuted execution agree on which are sound.
#include <cmath>
#include <set>

#include "compiler/check/check_plan.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/plan_interpreter/run_planned.h"
#include "tests/planned/pipeline_of_layers.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace streams_test {

const std::string head =
    "module \"m\" planned\narena batch 64\narena parameters 256\narena scratch 384\nstream gather\n";

// The text without the lines that contain `what`: there has to be one.
std::string without(const std::string& text, const std::string& what) {
    std::string out;
    bool found = false;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        const std::string line = text.substr(begin, end - begin);
        if (line.find(what) == std::string::npos)
            out += line;
        else
            found = true;
        begin = end;
    }
    EXPECT_TRUE(found) << what;
    return out;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), with);
}

Module parsed(const std::string& functions) {
    Module m = parse_module(head + functions);
    verify(m);
    return m;
}

std::vector<std::string> violations(const std::string& functions) {
    return plan_violations(parsed(functions));
}

double loss_of(const std::string& functions, std::optional<std::uint64_t> seed) {
    PlannedProgram program(parsed(functions));
    program.set("x", Tensor::floats({4}, {1, 2, 3, 4}));
    for (const std::string& name : program.names())
        if (name.starts_with("w")) {
            const double k = name.size() > 2 ? name.back() - '0' + 2 : 2;
            program.set(name, Tensor::floats({4}, {k, k / 2, -k, 1}));
        }
    program.set_scalar("loss_sum", 0.5);
    program.run("f", seed);
    return program.scalar("loss_sum");
}

// Losses of 64 orders; NaN as text, so that a set holds it.
std::set<std::string> losses(const std::string& functions) {
    std::set<std::string> out;
    for (std::uint64_t seed = 0; seed < 64; ++seed) out.insert(number_text(loss_of(functions, seed)));
    return out;
}

std::string text_of(double x) {
    return number_text(x);
}

// A weight is copied beside the work that does not need it, and its place is used again.
const std::string two_copies = R"(
func @f(
    %x: f32[4] @batch+0 input "x",
    %w: 2 x f32[4] @parameters+0 layer 64 parameter "w.{0..1}",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
  %w0 = member(%w) {index = 0} : f32[4] @parameters+0
  %w1 = member(%w) {index = 1} : f32[4] @parameters+64
  record() {event = "begin"}
  wait() {event = "begin"} on gather
  %g = copy(%w0) : f32[4] @scratch+0 on gather
  record() {event = "first"} on gather
  %a = add(%x, %x) : f32[4] @scratch+64
  wait() {event = "first"}
  %b = mul(%a, %g) : f32[4] @scratch+128
  record() {event = "free"}
  wait() {event = "free"} on gather
  %h = copy(%w1) : f32[4] @scratch+0 on gather
  record() {event = "second"} on gather
  %c = add(%b, %x) : f32[4] @scratch+192
  wait() {event = "second"}
  %d = mul(%c, %h) : f32[4] @scratch+64
  %s = reduce_sum(%d) {axes = [0], keep_dims = false} : f32[] @scratch+256
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
)";

TEST(Streams, ReadBack) {
    const std::string text = to_string(parsed(two_copies));
    EXPECT_EQ(to_string(parse_module(text)), text);
    EXPECT_NE(text.find("\nstream gather\n"), std::string::npos);
    EXPECT_NE(text.find("  %g = copy(%w0) : f32[4] @scratch+0 on gather\n"), std::string::npos);
    EXPECT_NE(text.find("  wait() {event = \"begin\"} on gather\n"), std::string::npos);
}

TEST(Streams, ASoundProgramGivesTheSameInEveryOrder) {
    EXPECT_EQ(violations(two_copies), std::vector<std::string>());
    // By hand: w0 = (2, 1, -2, 1), w1 = (3, 1.5, -3, 1): (2 x w0 + x) w1 summed, and what was there.
    const double expected = 0.5 + 5 * 3 + (4 + 2) * 1.5 + (-12 + 3) * -3 + (8 + 4) * 1;
    EXPECT_EQ(loss_of(two_copies, std::nullopt), expected);
    EXPECT_EQ(losses(two_copies), std::set<std::string>{text_of(expected)});
}

TEST(Streams, ALackingWaitForWhatIsReadIsFound) {
    const std::string broken = without(two_copies, "wait() {event = \"first\"}");
    EXPECT_EQ(violations(broken),
              std::vector<std::string>{
                  "@f: copy %g on gather writes %g (f32[4] @scratch+0, 16 bytes), and @f: mul %b on compute reads %g "
                  "(f32[4] @scratch+0, 16 bytes): neither waits for the other"});
    EXPECT_GT(losses(broken).size(), 1U);
}

TEST(Streams, ALackingWaitForWhoReadsIsFound) {
    // h is copied over g while b may still be read from it.
    const std::string broken = without(two_copies, "wait() {event = \"free\"} on gather");
    EXPECT_EQ(violations(broken),
              std::vector<std::string>{
                  "@f: mul %b on compute reads %g (f32[4] @scratch+0, 16 bytes), and @f: copy %h on gather writes %h "
                  "(f32[4] @scratch+0, 16 bytes): neither waits for the other"});
    EXPECT_GT(losses(broken).size(), 1U);
}

TEST(Streams, AWaitForTooEarlyAnEventIsFound) {
    const std::string broken = replaced(two_copies, "wait() {event = \"second\"}", "wait() {event = \"first\"}");
    const std::vector<std::string> found = violations(broken);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0], "@f: what gather does last is not waited for on compute");
    EXPECT_EQ(found[1],
              "@f: copy %h on gather writes %h (f32[4] @scratch+0, 16 bytes), and @f: mul %d on compute reads %h "
              "(f32[4] @scratch+0, 16 bytes): neither waits for the other");
    EXPECT_GT(losses(broken).size(), 1U);
}

TEST(Streams, WorkThatDoesNotWaitForTheFunctionsBeginIsFound) {
    // The order inside is right, but the weights may still be written by the function before.
    EXPECT_EQ(violations(without(two_copies, "wait() {event = \"begin\"}")),
              std::vector<std::string>{
                  "@f: copy %g on gather waits for nothing on compute: what came before @f may not be done"});
}

TEST(Streams, PlacesThatMeetInTimeAreFoundWithoutEvents) {
    // a is written beside the copy of the weight, to where it is copied.
    const std::string broken =
        replaced(two_copies, "%a = add(%x, %x) : f32[4] @scratch+64", "%a = add(%x, %x) : f32[4] @scratch+320");
    EXPECT_EQ(violations(broken), std::vector<std::string>());  // elsewhere is as good
    const std::string meets =
        replaced(replaced(two_copies, "%a = add(%x, %x) : f32[4] @scratch+64", "%a = add(%x, %x) : f32[4] @scratch+0"),
                 "%g = copy(%w0) : f32[4] @scratch+0", "%g = copy(%w0) : f32[4] @scratch+320");
    // In the order of the list a ends before h is written to its place: and so it does in any other, by "free".
    EXPECT_EQ(violations(meets), std::vector<std::string>());
    EXPECT_EQ(losses(meets), losses(two_copies));
    EXPECT_EQ(violations(without(meets, "wait() {event = \"free\"} on gather")).size(), 2U);
}

TEST(Streams, ALoopMayRunAheadAsFarAsItsEventsPermit) {
    EXPECT_EQ(violations(pipeline_of_layers), std::vector<std::string>());
    // 2 x times the product of the weights (k, k / 2, -k, 1) for k = 2, 3, 4, 5.
    const double product = 2 * 3 * 4 * 5;
    const double expected = 0.5 + 2 * product + 4 * product / 16 + 6 * product + 8;
    EXPECT_EQ(loss_of(pipeline_of_layers, std::nullopt), expected);
    EXPECT_EQ(losses(pipeline_of_layers), std::set<std::string>{text_of(expected)});
    // A nearer event serves as well: nothing runs ahead then.
    const std::string nearer = replaced(pipeline_of_layers, "distance = 2", "distance = 1");
    EXPECT_EQ(violations(nearer), std::vector<std::string>());
    EXPECT_EQ(losses(nearer), std::set<std::string>{text_of(expected)});
}

TEST(Streams, ALoopThatRunsTooFarAheadIsFound) {
    const std::string message =
        "@layer: mul %y on compute reads %g (f32[4] @scratch+192, 16 bytes), and @layer: copy %g on gather writes %g "
        "(f32[4] @scratch+192, 16 bytes): neither waits for the other";
    for (const std::string& broken :
         {replaced(pipeline_of_layers, "distance = 2", "distance = 3"), without(pipeline_of_layers, "distance = 2")}) {
        const std::vector<std::string> found = violations(broken);
        EXPECT_NE(std::find(found.begin(), found.end(), message), found.end()) << ::testing::PrintToString(found);
        EXPECT_GT(losses(broken).size(), 1U);
    }
}

TEST(Streams, ALayerThatDoesNotWaitForItsWeightsIsFound) {
    const std::string broken = without(pipeline_of_layers, "wait() {event = \"gathered\"}");
    EXPECT_FALSE(violations(broken).empty());
    EXPECT_GT(losses(broken).size(), 1U);
}

// Every event of both programs, taken away one at a time: what the checker passes gives one result in every order.
TEST(Streams, EveryWaitOfTheseProgramsIsNeeded) {
    int found = 0;
    for (const std::string& program : {two_copies, pipeline_of_layers}) {
        const std::set<std::string> expected = losses(program);
        ASSERT_EQ(expected.size(), 1U);
        for (std::size_t at = program.find("  wait("); at != std::string::npos; at = program.find("  wait(", at + 1)) {
            std::string less = program;
            less.erase(at, less.find('\n', at) + 1 - at);
            if (!violations(less).empty())
                ++found;
            else
                EXPECT_EQ(losses(less), expected) << less;
        }
    }
    EXPECT_EQ(found, 7);
}

}  // namespace streams_test
}  // namespace thunderc
