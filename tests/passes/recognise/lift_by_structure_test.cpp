// SPDX-License-Identifier: Apache-2.0
// lift_parameters where names and scopes are gone: structure and numbers tell parameters from constants, and name them.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/passes/recognise/lift_parameters.h"
#include "tests/passes/lift_test.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace lift_by_structure_test {

// Numbers as somebody learned them: none of them equal, in no order.
std::vector<float> learned(std::int64_t n, unsigned seed = 1) {
    std::mt19937 bits(seed);
    std::vector<float> out(static_cast<std::size_t>(n));
    for (float& x : out) x = static_cast<float>(bits()) / 4294967296.0F - 0.5F;
    return out;
}

// Parses main and gives each initializer learned numbers, or by name others.
Module with_numbers(std::string_view text, const std::map<std::string, std::vector<float>>& given = {}) {
    Module module = parse_module("module \"m\" values\n" + std::string(text));
    verify(module);
    Function& main = module.main();
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        ArgInfo& info = main.argument_info[k];
        if (info.kind == ArgInfo::Kind::input) continue;
        const Type& type = main.type(main.arguments[k]);
        const auto at = given.find(info.names.front());
        info.sources = {
            source_of(type, at != given.end() ? at->second : learned(type.elements(), static_cast<unsigned>(k)))};
    }
    return module;
}

// "name: f32[2,3]" for each parameter, in order.
std::vector<std::string> parameters_of(const Module& module) {
    std::vector<std::string> out;
    for (std::size_t k = 0; k < module.main().arguments.size(); ++k)
        if (module.main().argument_info[k].kind == ArgInfo::Kind::parameter)
            out.push_back(module.main().argument_info[k].names.front() + ": " +
                          to_string(module.main().type(module.main().arguments[k])));
    return out;
}

std::vector<std::string> lifted_names(Module module, Report& report, const LiftOptions& options = {}) {
    module = lift_parameters(std::move(module), options, report);
    verify(module);
    return parameters_of(module);
}

std::vector<std::string> lifted_names(Module module, const LiftOptions& options = {}) {
    Report report;
    return lifted_names(std::move(module), report, options);
}

using Names = std::vector<std::string>;

// An embedding, a norm, a product that the exporter transposed, one that it did not, a bias, an MLP, a head.
constexpr const char* language = R"(
func @main(%ids: i64[2,3] input "ids", %t0: f32[9,4] value "t_0", %t1: f32[4] value "t_1", %t2: f32[4,6] value "t_2", %t3: f32[6] value "t_3", %t4: f32[4,6] value "t_4", %t5: f32[9,4] value "t_5") -> (%y) {
  %x = gather(%t0, %ids) {axis = 0} : f32[2,3,4]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %q = pow(%x, %two) : f32[2,3,4]
  %m = reduce_mean(%q) {axes = [-1], keep_dims = true} : f32[2,3,1]
  %e = add(%m, %eps) : f32[2,3,1]
  %r = rsqrt(%e) : f32[2,3,1]
  %n = mul(%x, %r) : f32[2,3,4]
  %s = mul(%t1, %n) : f32[2,3,4]
  %u = matmul(%s, %t2) {transpose_a = false, transpose_b = false} : f32[2,3,6]
  %b = add(%u, %t3) : f32[2,3,6]
  %a = relu(%b) : f32[2,3,6]
  %t = transpose(%t4) {permutation = [1, 0]} : f32[6,4]
  %d = matmul(%a, %t) {transpose_a = false, transpose_b = false} : f32[2,3,4]
  %h = add(%x, %d) : f32[2,3,4]
  %o = transpose(%t5) {permutation = [1, 0]} : f32[4,9]
  %y = matmul(%h, %o) {transpose_a = false, transpose_b = false} : f32[2,3,9]
}
)";

TEST(LiftByStructure, WhatItIsAnOperandOfMakesAParameter) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(language), report),
              (Names{"embedding.weight: f32[9,4]", "norm.weight: f32[4]", "mlp.up.weight: f32[6,4]",
                     "mlp.up.bias: f32[6]", "mlp.down.weight: f32[4,6]", "head.weight: f32[9,4]"}));
    EXPECT_EQ(notes(report),
              "done modules at main: the graph names none: they are called after what they compute\n"
              "done parameter at embedding.weight: table of an embedding, by structure; from the initializer t_0\n"
              "done parameter at norm.weight: scale of a norm, by structure; from the initializer t_1\n"
              "done parameter at mlp.up.weight: weight of a product, by structure; from the initializer t_2, "
              "transposed\n"
              "done parameter at mlp.up.bias: bias of a product, by structure; from the initializer t_3\n"
              "done parameter at mlp.down.weight: weight of a product, by structure; from the initializer t_4\n"
              "done parameter at head.weight: weight of a product, by structure; from the initializer t_5\n"
              "warning names at m: the graph names neither modules nor parameters: they are called after what they "
              "do, so no checkpoint of the framework fits without renaming\n");
}

// A name that is not of an exporter's making stays, and so does the orientation of what has it.
TEST(LiftByStructure, NamesThatSaySomethingStay) {
    std::string text = language;
    for (const auto& [from, to] : std::map<std::string, std::string>{
             {"\"t_0\"", "\"tokens\""}, {"\"t_2\"", "\"fc_in\""}, {"\"t_1\"", "\"ln_scale\""}})
        text.replace(text.find(from), from.size(), to);
    EXPECT_EQ(lifted_names(with_numbers(text)),
              (Names{"tokens: f32[9,4]", "ln_scale: f32[4]", "fc_in: f32[4,6]", "mlp.up.bias: f32[6]",
                     "mlp.down.weight: f32[4,6]", "head.weight: f32[9,4]"}));
}

TEST(LiftByStructure, EqualContentIsATie) {
    Module module = with_numbers(language, {{"t_5", learned(36)}, {"t_0", learned(36)}});
    Report report;
    module = lift_parameters(std::move(module), {}, report);
    EXPECT_EQ(parameters_of(module).front(), "embedding.weight: f32[9,4]");
    EXPECT_EQ(parameters_of(module).size(), 5U);
    EXPECT_EQ(module.main().argument_info[1].aliases.front(), Names{"head.weight"});
}

// The exporter keeps one initializer for all norms of a model as it was initialised.
TEST(LiftByStructure, EqualNormsAreUntiedAloud) {
    constexpr const char* text = R"(
func @main(%x: f32[2,4] input "x", %w: f32[4] value "t_0", %p: f32[4,4] value "t_1") -> (%z) {
  %a, %ra = rms_norm(%x, %w) {eps = 1e-05} : f32[2,4], f32[2]
  %b = matmul(%a, %p) {transpose_a = false, transpose_b = false} : f32[2,4]
  %z, %rz = rms_norm(%b, %w) {eps = 1e-05} : f32[2,4], f32[2]
}
)";
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(text, {{"t_0", {1, 1, 1, 1}}}), report),
              (Names{"norm_1.weight: f32[4]", "linear.weight: f32[4,4]", "norm_2.weight: f32[4]"}));
    EXPECT_NE(notes(report).find("warning untied at t_0: one initializer of equal numbers was 2 parameters: "
                                 "norm_1.weight, norm_2.weight. The graph does not say so"),
              std::string::npos);
    EXPECT_EQ(lifted_names(with_numbers(text)),  // different numbers: a tie
              (Names{"norm_1.weight: f32[4]", "linear.weight: f32[4,4]"}));
}

// Queries with a rotation and a mask, (B,NH,T,HS) = (1,1,T,4). The tables and the mask are what `given` says.
std::string attention(std::int64_t T) {
    return fmt::format(R"(
func @main(%x: f32[1,{0},4] input "x", %w: f32[4,4] value "t_0", %c: f32[1,1,{0},4] value "t_1", %s: f32[1,1,{0},4] value "t_2", %m: f32[1,1,{0},{0}] value "t_3") -> (%y) {{
  %p = matmul(%x, %w) {{transpose_a = false, transpose_b = false}} : f32[1,{0},4]
  %q = reshape(%p) {{dims = [1, 1, {0}, 4]}} : f32[1,1,{0},4]
  %qc = mul(%q, %c) : f32[1,1,{0},4]
  %q1 = slice(%q) {{axis = 3, begin = 0, end = 2, step = 1}} : f32[1,1,{0},2]
  %q2 = slice(%q) {{axis = 3, begin = 2, end = 4, step = 1}} : f32[1,1,{0},2]
  %qn = neg(%q2) : f32[1,1,{0},2]
  %qr = concat(%qn, %q1) {{axis = 3}} : f32[1,1,{0},4]
  %qs = mul(%qr, %s) : f32[1,1,{0},4]
  %r = add(%qc, %qs) : f32[1,1,{0},4]
  %k = transpose(%r) {{permutation = [0, 1, 3, 2]}} : f32[1,1,4,{0}]
  %a = matmul(%r, %k) {{transpose_a = false, transpose_b = false}} : f32[1,1,{0},{0}]
  %b = add(%a, %m) : f32[1,1,{0},{0}]
  %d = softmax(%b) {{axis = 3}} : f32[1,1,{0},{0}]
  %y = matmul(%d, %q) {{transpose_a = false, transpose_b = false}} : f32[1,1,{0},4]
}}
)",
                       T);
}

std::map<std::string, std::vector<float>> tables(std::int64_t T) {
    std::vector<float> cos, sin, mask;
    for (std::int64_t t = 0; t < T; ++t) {
        for (double frequency : {1.0, 0.01, 1.0, 0.01}) {
            cos.push_back(static_cast<float>(std::cos(frequency * static_cast<double>(t))));
            sin.push_back(static_cast<float>(std::sin(frequency * static_cast<double>(t))));
        }
        for (std::int64_t s = 0; s < T; ++s) mask.push_back(s <= t ? 0.0F : -std::numeric_limits<float>::infinity());
    }
    return {{"t_1", cos}, {"t_2", sin}, {"t_3", mask}};
}

TEST(LiftByStructure, RotaryTablesAndMasksDoNotTrain) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(attention(8), tables(8)), report),
              Names{"attention.query_key_value.weight: f32[4,4]"});
    EXPECT_NE(
        notes(report).find("done constant at t_1: sines and cosines of positions, by its numbers\n"
                           "done constant at t_2: sines and cosines of positions, by its numbers\n"
                           "done constant at t_3: holds -inf or the lowest number, as masks do, by its numbers\n"),
        std::string::npos)
        << notes(report);
}

// Of three positions, numbers say nothing; nor do they where they are missing, or where somebody has a rotation of
// his own. What the rotation is done with is no parameter all the same.
TEST(LiftByStructure, RotaryTablesAreKnownWithoutTheirNumbers) {
    auto given = tables(3);
    given["t_1"] = learned(12, 5);
    given["t_2"] = learned(12, 6);
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(attention(3), given), report),
              Names{"attention.query_key_value.weight: f32[4,4]"});
    EXPECT_NE(
        notes(report).find("done constant at t_1: nothing but tables of a rotation is made of it, by structure\n"),
        std::string::npos)
        << notes(report);
}

// A bias that depends on the distance, evaluated by the exporter, stands where a mask stands.
TEST(LiftByStructure, WhatIsAddedToScoresAndIsNoMaskIsAskedFor) {
    auto given = tables(8);
    given["t_3"] = learned(64, 7);
    EXPECT_EQ(message_of(with_numbers(attention(8), given)),
              "error: nothing says whether t_3 is a parameter or a constant\n"
              "  found: t_3 [1,1,8,8], operand of add\n"
              "help: --trainable '^t_3$' if it is to be trained, --constant '^t_3$' if not\n");
    EXPECT_EQ(lifted_names(with_numbers(attention(8), given), {{"^t_3$"}, {}}).size(), 2U);
    EXPECT_EQ(lifted_names(with_numbers(attention(8), given), {{}, {"^t_3$"}}).size(), 1U);
}

// cos(position * frequency), before it is folded: the positions come from an input.
TEST(LiftByStructure, WhatCosinesAreTakenOfDoesNotTrain) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(R"(
func @main(%x: f32[1,3,2] input "x", %positions: i64[1,3] input "positions", %f: f32[1,2] value "t_0") -> (%y) {
  %p = cast(%positions) {dtype = f32} : f32[1,3]
  %r = reshape(%p) {dims = [1, 3, 1]} : f32[1,3,1]
  %a = mul(%r, %f) : f32[1,3,2]
  %c = cos(%a) : f32[1,3,2]
  %y = mul(%x, %c) : f32[1,3,2]
}
)"),
                           report),
              Names{});
    EXPECT_EQ(notes(report), "done constant at t_0: nothing but tables of a rotation is made of it, by structure\n");
    // A frequency that is learned, of data: the same ops.
    EXPECT_EQ(message_of(with_numbers(R"(
func @main(%x: f32[1,3,2] input "x", %f: f32[1,2] value "t_0") -> (%y) {
  %a = mul(%x, %f) : f32[1,3,2]
  %y = sin(%a) : f32[1,3,2]
}
)")),
              "error: nothing says whether t_0 is a parameter or a constant\n"
              "  found: t_0 [1,2], operand of mul\n"
              "help: --trainable '^t_0$' if it is to be trained, --constant '^t_0$' if not\n");
}

// Rows looked up by positions and then turned with are no embedding, though ids of an input choose them.
TEST(LiftByStructure, RowsOfARotationAreNoEmbedding) {
    constexpr const char* text = R"(
func @main(%q: f32[1,1,3,4] input "q", %positions: i64[1,3] input "positions", %c: f32[9,4] value "t_1", %s: f32[9,4] value "t_2") -> (%r) {
  %c0 = gather(%c, %positions) {axis = 0} : f32[1,3,4]
  %s0 = gather(%s, %positions) {axis = 0} : f32[1,3,4]
  %c1 = reshape(%c0) {dims = [1, 1, 3, 4]} : f32[1,1,3,4]
  %s1 = reshape(%s0) {dims = [1, 1, 3, 4]} : f32[1,1,3,4]
  %qc = mul(%q, %c1) : f32[1,1,3,4]
  %q1 = slice(%q) {axis = 3, begin = 0, end = 2, step = 1} : f32[1,1,3,2]
  %q2 = slice(%q) {axis = 3, begin = 2, end = 4, step = 1} : f32[1,1,3,2]
  %qn = neg(%q2) : f32[1,1,3,2]
  %qr = concat(%qn, %q1) {axis = 3} : f32[1,1,3,4]
  %qs = mul(%qr, %s1) : f32[1,1,3,4]
  %r = add(%qc, %qs) : f32[1,1,3,4]
}
)";
    EXPECT_EQ(lifted_names(with_numbers(text)), Names{});
}

// Learned positions and sines of positions are looked up and added in the same way: the numbers tell them apart.
TEST(LiftByStructure, PositionsAddedToAnEmbedding) {
    constexpr const char* text = R"(
func @main(%ids: i64[1,8] input "ids", %e: f32[9,4] value "t_0", %p: f32[8,4] value "t_1") -> (%y) {
  %positions = constant() {value = <i64[8] affine 0.0 + [1.0]>} : i64[8]
  %a = gather(%e, %ids) {axis = 0} : f32[1,8,4]
  %b = gather(%p, %positions) {axis = 0} : f32[8,4]
  %y = add(%a, %b) : f32[1,8,4]
}
)";
    EXPECT_EQ(lifted_names(with_numbers(text)),
              (Names{"embedding.weight: f32[9,4]", "position_embedding.weight: f32[8,4]"}));
    EXPECT_EQ(lifted_names(with_numbers(text, {{"t_1", tables(8).at("t_2")}})), Names{"embedding.weight: f32[9,4]"});
    Module unread = with_numbers(text);
    auto missing = std::make_shared<WeightSource>(*unread.main().argument_info[2].sources.front());
    missing->read = nullptr;
    missing->missing = "model.onnx.data";
    unread.main().argument_info[2].sources = {missing};
    EXPECT_EQ(message_of(std::move(unread)).substr(0, 60),
              "error: nothing says whether t_1 is a parameter or a constant");
}

// A framework's name that is there stays, whatever the op that reads it would be called.
TEST(LiftByStructure, NamesOfTablesStay) {
    for (const char* positions :
         {"%b = gather(%p, %positions) {axis = 0} : f32[8,4]", "%b = gather(%p, %ids) {axis = 0} : f32[1,8,4]"})
        for (const char* rows : {"8", "12"}) {
            SCOPED_TRACE(fmt::format("{} rows, {}", rows, positions));
            EXPECT_EQ(lifted_names(with_numbers(fmt::format(R"(
func @main(%ids: i64[1,8] input "ids", %e: f32[9,4] value "t_0", %p: f32[{0},4] value "transformer.wpe.weight") -> (%y) {{
  %positions = constant() {{value = <i64[8] affine 0.0 + [1.0]>}} : i64[8]
  %a = gather(%e, %ids) {{axis = 0}} : f32[1,8,4]
  {1}
  %y = add(%a, %b) : f32[1,8,4]
}}
)",
                                                            rows, positions))),
                      (Names{"embedding.weight: f32[9,4]", fmt::format("transformer.wpe.weight: f32[{},4]", rows)}));
        }
}

// Nor does another op that reads the same tensor take it away, in whatever order they stand.
TEST(LiftByStructure, NamesOfTiesStay) {
    const std::vector<std::string> readers = {
        "%a = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[4,4]",
        "%b = gather(%w, %ids) {axis = 0} : f32[4,4]",
        "%c = gather(%w, %rows) {axis = 0} : f32[4,4]",
        "%d = slice(%w) {axis = 0, begin = 1, end = 5, step = 1} : f32[4,4]",
    };
    for (std::size_t one = 0; one < readers.size(); ++one)
        for (std::size_t two = 0; two < readers.size(); ++two) {
            if (one == two) continue;
            SCOPED_TRACE(readers[one] + "\n" + readers[two]);
            Report report;
            const Module m =
                lift_parameters(with_numbers(fmt::format(R"(
func @main(%x: f32[4,9] input "x", %ids: i64[4] input "ids", %w: f32[9,4] value "model.shared.weight") -> (%y) {{
  %rows = constant() {{value = <i64[4] affine 2.0 + [1.0]>}} : i64[4]
  {}
  {}
  %y = add({}, {}) : f32[4,4]
}}
)",
                                                         readers[one], readers[two], readers[one].substr(0, 2),
                                                         readers[two].substr(0, 2))),
                                {}, report);
            verify(m);
            const ArgInfo& weight = m.main().argument_info.back();
            EXPECT_EQ(weight.kind, ArgInfo::Kind::parameter);
            EXPECT_EQ(weight.names, std::vector<std::string>{"model.shared.weight"});
        }
}

// A triangle of ones that sums along positions is a matrix in a product, and learned by nobody; pruned weights look
// like it.
TEST(LiftByStructure, AMatrixOfZerosIsAskedFor) {
    std::vector<float> triangle;
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) triangle.push_back(c <= r ? 1.0F : 0.0F);
    constexpr const char* text = R"(
func @main(%x: f32[2,4] input "x", %w: f32[4,4] value "t_0") -> (%y) {
  %y = matmul(%x, %w) {transpose_a = false, transpose_b = false} : f32[2,4]
}
)";
    EXPECT_EQ(message_of(with_numbers(text, {{"t_0", triangle}})),
              "error: nothing says whether t_0 is a parameter or a constant\n"
              "  found: t_0 [4,4], weight of a product, which holds two different numbers only in linear\n"
              "help: --trainable '^t_0$' if it is to be trained, --constant '^t_0$' if not\n");
    // What is zero throughout was initialised so.
    EXPECT_EQ(lifted_names(with_numbers(text, {{"t_0", std::vector<float>(16, 0.0F)}})),
              Names{"linear.weight: f32[4,4]"});
}

TEST(LiftByStructure, WhatNoGradientReachesIsAConstant) {
    Report report;
    EXPECT_EQ(lifted_names(with_numbers(R"(
func @main(%x: f32[3] input "x", %t: f32[3] value "t_0") -> (%y) {
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %c = lt(%t, %zero) : bool[3]
  %y = select(%c, %x, %zero) : f32[3]
}
)"),
                           report),
              Names{});
    EXPECT_EQ(notes(report), "done constant at t_0: no gradient passes through lt, by structure\n");
}

// Three layers of a norm and an MLP; the norm of the second is called `name`.
std::string layers(const std::string& name) {
    std::string ops, arguments, x = "%x";
    for (int layer = 0; layer < 3; ++layer) {
        arguments += fmt::format(
            ", %n{0}: f32[4] value \"{1}\", %u{0}: f32[4,6] value \"val_{0}1\", %w{0}: f32[6,4] value \"val_{0}2\"",
            layer, layer == 1 ? name : fmt::format("val_{}0", layer));
        ops += fmt::format(R"(
  %a{0}, %r{0} = rms_norm({1}, %n{0}) {{eps = 1e-05}} : f32[2,4], f32[2]
  %b{0} = matmul(%a{0}, %u{0}) {{transpose_a = false, transpose_b = false}} : f32[2,6]
  %c{0} = relu(%b{0}) : f32[2,6]
  %d{0} = matmul(%c{0}, %w{0}) {{transpose_a = false, transpose_b = false}} : f32[2,4]
  %y{0} = add({1}, %d{0}) : f32[2,4])",
                           layer, x);
        x = fmt::format("%y{}", layer);
    }
    return fmt::format("func @main(%x: f32[2,4] input \"x\"{}) -> (%y2) {{{}\n}}\n", arguments, ops);
}

// Layers give modules their number; a parameter that kept its name gives all layers their path.
TEST(LiftByStructure, LayersAreNumbered) {
    EXPECT_EQ(
        lifted_names(with_numbers(layers("val_10"))),
        (Names{"layers.0.norm.weight: f32[4]", "layers.0.mlp.up.weight: f32[6,4]", "layers.0.mlp.down.weight: f32[4,6]",
               "layers.1.norm.weight: f32[4]", "layers.1.mlp.up.weight: f32[6,4]", "layers.1.mlp.down.weight: f32[4,6]",
               "layers.2.norm.weight: f32[4]", "layers.2.mlp.up.weight: f32[6,4]",
               "layers.2.mlp.down.weight: f32[4,6]"}));
    EXPECT_EQ(lifted_names(with_numbers(layers("net.blocks.5.ln.weight"))),
              (Names{"net.blocks.4.ln.weight_folded: f32[4]", "net.blocks.4.mlp.up.weight: f32[6,4]",
                     "net.blocks.4.mlp.down.weight: f32[4,6]", "net.blocks.5.ln.weight: f32[4]",
                     "net.blocks.5.mlp.up.weight: f32[6,4]", "net.blocks.5.mlp.down.weight: f32[4,6]",
                     "net.blocks.6.ln.weight_folded: f32[4]", "net.blocks.6.mlp.up.weight: f32[6,4]",
                     "net.blocks.6.mlp.down.weight: f32[4,6]"}));
}

// An activation times what none was taken of: a gated MLP; the activation's side is the gate.
TEST(LiftByStructure, GatedMlps) {
    EXPECT_EQ(lifted_names(with_numbers(R"(
func @main(%x: f32[2,4] input "x", %a: f32[4,6] value "t_0", %b: f32[4,6] value "t_1", %c: f32[6,4] value "t_2") -> (%y) {
  %u = matmul(%x, %a) {transpose_a = false, transpose_b = false} : f32[2,6]
  %g = matmul(%x, %b) {transpose_a = false, transpose_b = false} : f32[2,6]
  %t = relu(%g) : f32[2,6]
  %m = mul(%u, %t) : f32[2,6]
  %y = matmul(%m, %c) {transpose_a = false, transpose_b = false} : f32[2,4]
}
)")),
              (Names{"mlp.up.weight: f32[6,4]", "mlp.gate.weight: f32[6,4]", "mlp.down.weight: f32[4,6]"}));
}

// A single number has no dimension that a vector beside it could be a row of: the epsilon of a norm by given
// statistics, whose names say nothing.
TEST(LiftByStructure, SingleNumbersBesideVectors) {
    EXPECT_EQ(message_of(with_numbers(R"(
func @main(%x: f32[2,3] input "x", %a: f32[3] value "a", %b: f32[3] value "b", %c: f32[3] value "c", %d: f32[3] value "d") -> (%y) {
  %eps = constant() {value = <f32[] splat 1e-05>} : f32[]
  %e = add(%d, %eps) : f32[3]
  %r = rsqrt(%e) : f32[3]
  %m = sub(%x, %c) : f32[2,3]
  %n = mul(%m, %r) : f32[2,3]
  %s = mul(%n, %a) : f32[2,3]
  %y = add(%s, %b) : f32[2,3]
}
)")),
              "error: nothing says whether 4 tensors are parameters or constants\n"
              "  found: a [3], operand of mul; b [3], operand of add; c [3], operand of sub; d [3], operand of add\n"
              "help: --trainable '^(a|b|c|d)$' if they are to be trained, --constant '^(a|b|c|d)$' if not\n");
    // A scalar input, and a scalar that may be a parameter itself.
    EXPECT_EQ(message_of(with_numbers(R"(
func @main(%x: f32[2,3] input "x", %t: f32[] input "t", %a: f32[3] value "a", %b: f32[] value "b") -> (%y) {
  %u = add(%t, %a) : f32[3]
  %v = add(%u, %b) : f32[3]
  %s = sqrt(%v) : f32[3]
  %w = add(%b, %t) : f32[]
  %z = mul(%x, %s) : f32[2,3]
  %y = mul(%z, %w) : f32[2,3]
}
)")),
              "error: nothing says whether 2 tensors are parameters or constants\n"
              "  found: a [3], operand of add; b [], operand of add\n"
              "help: --trainable '^(a|b)$' if they are to be trained, --constant '^(a|b)$' if not\n");
}

}  // namespace lift_by_structure_test
}  // namespace thunderc
