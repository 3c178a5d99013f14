// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/exempt_layers.h"

#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace exempt_layers_test {

using testing::functions_of;
using testing::module_of;

// Four layers of a stack, each of one product; a head; a product with what is no parameter.
const std::string model = R"(
func @main(%x: f32[4,8] input "x", %w0: f32[8,8] parameter "h.0.fc.weight", %w1: f32[8,8] parameter "h.1.fc.weight", %w2: f32[8,8] parameter "h.2.fc.weight", %w3: f32[8,8] parameter "h.3.fc.weight", %head: f32[8,8] parameter "head.weight") -> (%y) {
  %a = linear(%x, %w0) : f32[4,8]
  %b = linear(%a, %w1) : f32[4,8]
  %c = linear(%b, %w2) : f32[4,8]
  %d = linear(%c, %w3) : f32[4,8]
  %twice = add(%w3, %w3) : f32[8,8]
  %e = linear(%d, %twice) : f32[4,8]
  %y = linear(%e, %head) : f32[4,8]
})";

// The products that are marked, by their results: "a b".
std::string exempt(const std::string& skip) {
    Report report;
    const Module m = exempt_layers(module_of(model), skip, report);
    std::string out;
    for (const Op& op : m.main().ops)
        if (op.name == "linear" && is_exempt(op)) out += (out.empty() ? "" : " ") + m.main().info(op.results[0]).name;
    return out;
}

std::string message_of(const std::string& skip) {
    try {
        exempt(skip);
    } catch (const UserError& error) {
        return error.what();
    }
    return "nothing is wrong";
}

TEST(ExemptLayers, ByTheNamesOfModules) {
    EXPECT_EQ(exempt("fc$"), "a b c d");
    EXPECT_EQ(exempt("h\\.(0|2)\\."), "a c");
    EXPECT_EQ(exempt("head"), "y");
    EXPECT_EQ(exempt("weight|^head"), "y");  // a module has no weight in its name
}

TEST(ExemptLayers, ByTheirPlaceInTheStack) {
    EXPECT_EQ(exempt("first=1"), "a");
    EXPECT_EQ(exempt("last=2"), "c d");
    EXPECT_EQ(exempt("first=1,last=1"), "a d");
    EXPECT_EQ(exempt("last=1,first=2"), "a b d");
    EXPECT_EQ(exempt("first=9"), "a b c d");
    EXPECT_EQ(exempt("first=1,head,|h\\.2"), "a c");  // commas are the expression's from its beginning on
}

TEST(ExemptLayers, OthersStayAsTheyAreAndNoMarkIsLeft) {
    Report report;
    Module m = exempt_layers(module_of(model), "h\\.0", report);
    EXPECT_NE(
        functions_of(m).find("%a = linear(%x, %w0) {exempt = true} : f32[4,8]\n  %b = linear(%a, %w1) : f32[4,8]"),
        std::string::npos)
        << functions_of(m);
    forget_exempt(m);
    EXPECT_EQ(functions_of(m), functions_of(module_of(model)));
}

TEST(ExemptLayers, RefusesWhatNamesNothing) {
    EXPECT_EQ(message_of("up"), "--fp8-skip: 'up' names no linear layer");
    EXPECT_EQ(message_of("("), "--fp8-skip \"(\" is not a regular expression");
    for (const std::string text : {"first=", "first=0", "last=-1", "first=1x", "last=99999999999999999999"})
        EXPECT_EQ(message_of(text), "--fp8-skip \"" + text + "\": " + text + " is no number of layers");
    EXPECT_EQ(message_of("first=1,last=x,y"), "--fp8-skip \"first=1,last=x,y\": last=x is no number of layers");
}

}  // namespace exempt_layers_test
}  // namespace thunderc
