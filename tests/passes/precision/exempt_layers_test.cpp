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

// Products of these modules in a row, with results called after their places: "a", "b".
std::string products(const std::vector<std::string>& modules) {
    std::string arguments, ops;
    for (std::size_t k = 0; k < modules.size(); ++k) {
        arguments += ", %w" + std::to_string(k) + ": f32[8,8] parameter \"" + modules[k] + ".weight\"";
        ops += std::string("  %") + static_cast<char>('a' + k) + " = linear(" +
               (k == 0 ? "%x" : std::string("%") + static_cast<char>('a' + k - 1)) + ", %w" + std::to_string(k) +
               ") : f32[4,8]\n";
    }
    return "\nfunc @main(%x: f32[4,8] input \"x\"" + arguments + ") -> (%" +
           static_cast<char>('a' + modules.size() - 1) + ") {\n" + ops + "}";
}

// The products that are marked, by their results: "a b".
std::string exempt(const std::string& skip, const std::string& text = model) {
    Report report;
    const Module m = exempt_layers(module_of(text), skip, report);
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

// Layers are told by the order of their numbers, which may have gaps and begin anywhere; each stack has its own ends;
// numbers within a layer are none of the stack's.
TEST(ExemptLayers, ByTheOrderOfTheirNumbers) {
    const std::string gaps = products({"net.2", "net.4", "net.10", "net.8"});
    EXPECT_EQ(exempt("first=1", gaps), "a");
    EXPECT_EQ(exempt("last=2", gaps), "c d");
    const std::string two = products({"encoder.layers.0.fc", "encoder.layers.1.fc", "encoder.layers.2.fc",
                                      "decoder.layers.0.fc", "decoder.layers.1.fc", "decoder.layers.2.fc"});
    EXPECT_EQ(exempt("first=1", two), "a d");
    EXPECT_EQ(exempt("last=1", two), "c f");
    const std::string inner =
        products({"layers.encoder_layer_0.mlp.0", "layers.encoder_layer_0.mlp.3", "layers.encoder_layer_1.mlp.0",
                  "layers.encoder_layer_1.mlp.3", "layers.encoder_layer_2.mlp.0", "layers.encoder_layer_2.mlp.3"});
    EXPECT_EQ(exempt("first=1", inner), "a b");
    EXPECT_EQ(exempt("last=1", inner), "e f");
    const std::string experts =
        products({"layers.0.experts.0", "layers.0.experts.1", "layers.0.experts.2", "layers.1.experts.0",
                  "layers.1.experts.1", "layers.1.experts.2", "layers.2.experts.0"});
    EXPECT_EQ(exempt("first=1", experts), "a b c");
    EXPECT_EQ(exempt("last=1", experts), "g");
}

TEST(ExemptLayers, AnAdapterGoesWithItsLayer) {
    const std::string adapted = products({"model.layers.0.q_proj", "base_model.model.model.layers.0.q_proj.lora_A",
                                          "model.layers.1.q_proj", "model.layers.2.q_proj"});
    EXPECT_EQ(exempt("^model\\.layers\\.0\\.q_proj$", adapted), "a b");
    EXPECT_EQ(exempt("lora_A", adapted), "b");
    EXPECT_EQ(exempt("first=1", adapted), "a b");
    EXPECT_EQ(exempt("last=1", adapted), "d");
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
    // Each part names something.
    EXPECT_EQ(message_of("first=1,up"), "--fp8-skip: 'up' names no linear layer");
    EXPECT_EQ(message_of("first=1,first=2"), "--fp8-skip \"first=1,first=2\" says first twice");
    EXPECT_EQ(message_of("first=1, last=1"),
              "--fp8-skip \"first=1, last=1\": \" last=1\" is neither first=N nor last=N");
    EXPECT_EQ(message_of("frist=1"), "--fp8-skip \"frist=1\": \"frist=1\" is neither first=N nor last=N");
    EXPECT_EQ(message_of("first=1,last=x,y"), "--fp8-skip \"first=1,last=x,y\": last=x is no number of layers");
}

}  // namespace exempt_layers_test
}  // namespace thunderc
