// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/outline_blocks.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/layers/find_blocks.h"
#include "compiler/passes/layers/roll_repeats.h"
#include "compiler/passes/layers/unroll_repeats.h"
#include "tests/passes/pass_test.h"
#include "tests/passes/tiny_transformer.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace outline_blocks_test {

Module outlined(const std::string& text, Report* report = nullptr) {
    Report own;
    Module module = outline_blocks(parsed(text), report != nullptr ? *report : own);
    verify(module);
    return module;
}

Module rolled(const std::string& text, Report* report = nullptr) {
    Report own;
    Module module = roll_repeats(outlined(text, report), report != nullptr ? *report : own);
    verify(module);
    return module;
}

std::size_t count(const Module& module, const std::string& op) {
    std::size_t n = 0;
    for (const Op& o : module.main().ops) n += o.name == op ? 1 : 0;
    return n;
}

TEST(OutlineBlocks, LayersBecomeOneFunction) {
    Report report;
    const Module module = outlined(TinyTransformer{.layers = 2}.text(), &report);
    EXPECT_EQ(printed_functions(module), R"(func @main(
    %ids: i64[2,6] input "input_ids" {batched, entries = 11, source = "tokens"},
    %labels: i64[12] input "labels" {entries = 11, ignore = -100},
    %embed: f32[11,8] parameter "model.embed_tokens.weight",
    %input_layernorm0: f32[8] parameter "model.layers.0.input_layernorm.weight",
    %q_proj0: f32[8,8] parameter "model.layers.0.self_attn.q_proj.weight",
    %k_proj0: f32[4,8] parameter "model.layers.0.self_attn.k_proj.weight",
    %v_proj0: f32[4,8] parameter "model.layers.0.self_attn.v_proj.weight",
    %o_proj0: f32[8,8] parameter "model.layers.0.self_attn.o_proj.weight",
    %post_attention_layernorm0: f32[8] parameter "model.layers.0.post_attention_layernorm.weight",
    %gate_proj0: f32[16,8] parameter "model.layers.0.mlp.gate_proj.weight",
    %up_proj0: f32[16,8] parameter "model.layers.0.mlp.up_proj.weight",
    %down_proj0: f32[8,16] parameter "model.layers.0.mlp.down_proj.weight",
    %input_layernorm1: f32[8] parameter "model.layers.1.input_layernorm.weight",
    %q_proj1: f32[8,8] parameter "model.layers.1.self_attn.q_proj.weight",
    %k_proj1: f32[4,8] parameter "model.layers.1.self_attn.k_proj.weight",
    %v_proj1: f32[4,8] parameter "model.layers.1.self_attn.v_proj.weight",
    %o_proj1: f32[8,8] parameter "model.layers.1.self_attn.o_proj.weight",
    %post_attention_layernorm1: f32[8] parameter "model.layers.1.post_attention_layernorm.weight",
    %gate_proj1: f32[16,8] parameter "model.layers.1.mlp.gate_proj.weight",
    %up_proj1: f32[16,8] parameter "model.layers.1.mlp.up_proj.weight",
    %down_proj1: f32[8,16] parameter "model.layers.1.mlp.down_proj.weight",
    %norm: f32[8] parameter "model.norm.weight",
    %head: f32[11,8] parameter "lm_head.weight") -> (%loss "loss", %weight "weight") {
  %x0 = embedding(%embed, %ids) : f32[2,6,8]
  %angle = constant() {value = <f32[1,6,2] affine 0.0 + [0.0, 0.7, 0.0]>} : f32[1,6,2]
  %cos = cos(%angle) : f32[1,6,2]
  %sin = sin(%angle) : f32[1,6,2]
  %x1 = call(%x0, %input_layernorm0, %q_proj0, %k_proj0, %v_proj0, %o_proj0, %post_attention_layernorm0, %gate_proj0, %up_proj0, %down_proj0, %cos, %sin) {callee = "decoder_layer"} : f32[2,6,8]
  %x2 = call(%x1, %input_layernorm1, %q_proj1, %k_proj1, %v_proj1, %o_proj1, %post_attention_layernorm1, %gate_proj1, %up_proj1, %down_proj1, %cos, %sin) {callee = "decoder_layer"} : f32[2,6,8]
  %f, %fr = rms_norm(%x2, %norm) {eps = 1e-05} : f32[2,6,8], f32[2,6]
  %logits = linear(%f, %head) : f32[2,6,11]
  %rows = reshape(%logits) {dims = [12, 11]} : f32[12,11]
  %loss, %clse = cross_entropy(%rows, %labels) {ignore_index = -100} : f32[], f32[12]
  %weight = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
}
func @decoder_layer(%x: f32[2,6,8], %input_layernorm.weight: f32[8], %self_attn.q_proj.weight: f32[8,8], %self_attn.k_proj.weight: f32[4,8], %self_attn.v_proj.weight: f32[4,8], %self_attn.o_proj.weight: f32[8,8], %post_attention_layernorm.weight: f32[8], %mlp.gate_proj.weight: f32[16,8], %mlp.up_proj.weight: f32[16,8], %mlp.down_proj.weight: f32[8,16], %cos: f32[1,6,2], %sin: f32[1,6,2]) -> (%y) scope "model.layers.{0..1}" class "TinyDecoderLayer" {
  %n0, %r0 = rms_norm(%x, %input_layernorm.weight) {eps = 1e-05} : f32[2,6,8], f32[2,6]
  %q0 = linear(%n0, %self_attn.q_proj.weight) : f32[2,6,8]
  %qh0 = reshape(%q0) {dims = [2, 6, 4, 2]} : f32[2,6,4,2]
  %k0 = linear(%n0, %self_attn.k_proj.weight) : f32[2,6,4]
  %kh0 = reshape(%k0) {dims = [2, 6, 2, 2]} : f32[2,6,2,2]
  %v0 = linear(%n0, %self_attn.v_proj.weight) : f32[2,6,4]
  %vh0 = reshape(%v0) {dims = [2, 6, 2, 2]} : f32[2,6,2,2]
  %qr0 = rotary(%qh0, %cos, %sin) {style = "half"} : f32[2,6,4,2]
  %kr0 = rotary(%kh0, %cos, %sin) {style = "half"} : f32[2,6,2,2]
  %a0, %lse0 = sdpa(%qr0, %kr0, %vh0) {causal = true, scale = 0.7} : f32[2,6,4,2], f32[2,4,6]
  %af0 = reshape(%a0) {dims = [2, 6, 8]} : f32[2,6,8]
  %o0 = linear(%af0, %self_attn.o_proj.weight) : f32[2,6,8]
  %m0 = add(%x, %o0) : f32[2,6,8]
  %p0, %s0 = rms_norm(%m0, %post_attention_layernorm.weight) {eps = 1e-05} : f32[2,6,8], f32[2,6]
  %g0 = linear(%p0, %mlp.gate_proj.weight) : f32[2,6,16]
  %u0 = linear(%p0, %mlp.up_proj.weight) : f32[2,6,16]
  %h0 = swiglu(%g0, %u0) : f32[2,6,16]
  %d0 = linear(%h0, %mlp.down_proj.weight) : f32[2,6,8]
  %y = add(%m0, %d0) : f32[2,6,8]
}
)");
    ASSERT_EQ(report.notes.size(), 1u);
    EXPECT_EQ(report.notes[0].where, "model.layers.{0..1}");
    EXPECT_EQ(report.notes[0].text, "2 layers of 19 ops become @decoder_layer");
}

TEST(RollRepeats, CallsBecomeALoopOverFamilies) {
    Report report;
    const Module module = rolled(TinyTransformer{.layers = 5}.text(), &report);
    EXPECT_EQ(to_string(module.main(), {.provenance = false}), R"(func @main(
    %ids: i64[2,6] input "input_ids" {batched, entries = 11, source = "tokens"},
    %labels: i64[12] input "labels" {entries = 11, ignore = -100},
    %embed: f32[11,8] parameter "model.embed_tokens.weight",
    %input_layernorm.weight: 5 x f32[8] parameter "model.layers.{0..4}.input_layernorm.weight",
    %self_attn.q_proj.weight: 5 x f32[8,8] parameter "model.layers.{0..4}.self_attn.q_proj.weight",
    %self_attn.k_proj.weight: 5 x f32[4,8] parameter "model.layers.{0..4}.self_attn.k_proj.weight",
    %self_attn.v_proj.weight: 5 x f32[4,8] parameter "model.layers.{0..4}.self_attn.v_proj.weight",
    %self_attn.o_proj.weight: 5 x f32[8,8] parameter "model.layers.{0..4}.self_attn.o_proj.weight",
    %post_attention_layernorm.weight: 5 x f32[8] parameter "model.layers.{0..4}.post_attention_layernorm.weight",
    %mlp.gate_proj.weight: 5 x f32[16,8] parameter "model.layers.{0..4}.mlp.gate_proj.weight",
    %mlp.up_proj.weight: 5 x f32[16,8] parameter "model.layers.{0..4}.mlp.up_proj.weight",
    %mlp.down_proj.weight: 5 x f32[8,16] parameter "model.layers.{0..4}.mlp.down_proj.weight",
    %norm: f32[8] parameter "model.norm.weight",
    %head: f32[11,8] parameter "lm_head.weight") -> (%loss "loss", %weight "weight") {
  %x0 = embedding(%embed, %ids) : f32[2,6,8]
  %angle = constant() {value = <f32[1,6,2] affine 0.0 + [0.0, 0.7, 0.0]>} : f32[1,6,2]
  %cos = cos(%angle) : f32[1,6,2]
  %sin = sin(%angle) : f32[1,6,2]
  %x5 = repeat(%x0, %input_layernorm.weight, %self_attn.q_proj.weight, %self_attn.k_proj.weight, %self_attn.v_proj.weight, %self_attn.o_proj.weight, %post_attention_layernorm.weight, %mlp.gate_proj.weight, %mlp.up_proj.weight, %mlp.down_proj.weight, %cos, %sin) {body = "decoder_layer", carried = 1, n = 5, per_layer = 9, reverse = false} : f32[2,6,8]
  %f, %fr = rms_norm(%x5, %norm) {eps = 1e-05} : f32[2,6,8], f32[2,6]
  %logits = linear(%f, %head) : f32[2,6,11]
  %rows = reshape(%logits) {dims = [12, 11]} : f32[12,11]
  %loss, %clse = cross_entropy(%rows, %labels) {ignore_index = -100} : f32[], f32[12]
  %weight = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]
}
)");
    EXPECT_EQ(report.notes.back().text, "5 calls of @decoder_layer");
}

TEST(OutlineBlocks, StructureAloneGivesTheSameProgram) {
    for (int layers : {2, 5}) {
        const Module with = rolled(TinyTransformer{.layers = layers}.text());
        const Module without = rolled(TinyTransformer{.layers = layers, .scopes = false}.text());
        ASSERT_EQ(with.functions.size(), without.functions.size());
        for (std::size_t k = 0; k < with.functions.size(); ++k) {
            const Function &a = with.functions[k], &b = without.functions[k];
            ASSERT_EQ(a.ops.size(), b.ops.size());
            EXPECT_EQ(a.arguments, b.arguments);
            EXPECT_EQ(a.results, b.results);
            for (std::size_t o = 0; o < a.ops.size(); ++o) {
                EXPECT_EQ(a.ops[o].name, b.ops[o].name);
                EXPECT_EQ(a.ops[o].operands, b.ops[o].operands);
                EXPECT_EQ(a.ops[o].results, b.ops[o].results);
                if (a.ops[o].attributes.has("body")) continue;  // it names the function
                EXPECT_TRUE(a.ops[o].attributes == b.ops[o].attributes);
            }
            for (std::size_t v = 0; v < a.values.size(); ++v) EXPECT_EQ(a.values[v].type, b.values[v].type);
        }
        EXPECT_EQ(without.functions[1].name, "layer");
    }
}

TEST(OutlineBlocks, MeansTheSame) {
    for (const TinyTransformer& variant :
         {TinyTransformer{.layers = 2}, TinyTransformer{.layers = 5, .tied = true},
          TinyTransformer{.layers = 5, .windowed_every = 2}, TinyTransformer{.layers = 3, .differing_tables = true},
          TinyTransformer{.layers = 2, .learned_tables = true}}) {
        const Module flat = parsed(variant.text());
        const NamedArguments arguments(flat.main(), 3);
        const auto expected = named_results(flat, arguments);
        Report report;
        EXPECT_EQ(named_results(outlined(variant.text()), arguments), expected);
        EXPECT_EQ(named_results(rolled(variant.text()), arguments), expected);
        Module unrolled = unroll_repeats(rolled(variant.text()), report);
        verify(unrolled);
        EXPECT_EQ(named_results(unrolled, arguments), expected);
        EXPECT_EQ(count(unrolled, "repeat"), 0u);
    }
}

TEST(OutlineBlocks, LayersThatAlternateAreTakenInPairs) {
    const Module module = rolled(TinyTransformer{.layers = 5, .windowed_every = 2}.text());
    ASSERT_EQ(module.functions.size(), 2u);
    EXPECT_EQ(module.functions[1].scope, "model.layers.{0..2:2}");
    EXPECT_EQ(module.functions[1].ops.size(), 38u);
    ASSERT_EQ(count(module, "repeat"), 1u);
    EXPECT_EQ(count(module, "sdpa"), 1u);  // the fifth layer stays as it is
}

TEST(OutlineBlocks, WhatLayersShareMayStandInTheFirstOfThem) {
    for (int layers : {2, 5}) {
        Report report;
        const Module module = rolled(TinyTransformer{.layers = layers, .learned_tables = true}.text(), &report);
        EXPECT_EQ(count(module, "repeat"), 1u);
        EXPECT_EQ(count(module, "sdpa"), 0u);
        EXPECT_EQ(report.notes.back().text, fmt::format("{} calls of @decoder_layer", layers));
    }
}

TEST(OutlineBlocks, AConstantThatDiffersIsAnArgument) {
    const Module module = rolled(TinyTransformer{.layers = 3, .differing_tables = true}.text());
    ASSERT_EQ(module.functions.size(), 2u);
    EXPECT_EQ(count(module, "family"), 1u);
    for (const Op& op : module.functions[1].ops) EXPECT_NE(op.name, "constant");
}

TEST(OutlineBlocks, AConstantThatIsEqualMovesIntoTheFunction) {
    std::string text = "func @main(%x: f32[2,4] input \"x\"";
    std::string ops;
    for (int i = 0; i < 3; ++i) {
        text += fmt::format(", %w{}: f32[4,4] parameter \"w.{}\"", i, i);
        ops += fmt::format(R"(  %c{0} = constant() {{value = <f32[] splat 0.5>}} : f32[]
  %a{0} = linear(%{1}, %w{0}) : f32[2,4]
  %b{0} = mul(%a{0}, %c{0}) : f32[2,4]
  %t{0} = tanh(%b{0}) : f32[2,4]
  %y{0} = exp(%t{0}) : f32[2,4]
)",
                           i, i == 0 ? "x" : fmt::format("y{}", i - 1));
    }
    EXPECT_EQ(printed_functions(rolled(text + ") -> (%y2 \"y\") {\n" + ops + "}\n")), R"(func @main(
    %x: f32[2,4] input "x",
    %w: 3 x f32[4,4] parameter "w.{0..2}") -> (%y2 "y") {
  %y2 = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : f32[2,4]
}
func @layer(%x: f32[2,4], %w: f32[4,4]) -> (%y) {
  %c0 = constant() {value = <f32[] splat 0.5>} : f32[]
  %a0 = linear(%x, %w) : f32[2,4]
  %b0 = mul(%a0, %c0) : f32[2,4]
  %t0 = tanh(%b0) : f32[2,4]
  %y = exp(%t0) : f32[2,4]
}
)");
}

TEST(OutlineBlocks, WhatIsReadOutsideIsCollected) {
    std::string arguments = "%x: f32[2,4] input \"x\"", ops;
    for (int i = 0; i < 3; ++i) {
        arguments += fmt::format(", %w{}: f32[4,4] parameter \"w.{}\"", i, i);
        ops += fmt::format(
            "  %a{0} = linear(%{1}, %w{0}) : f32[2,4]\n  %b{0} = tanh(%a{0}) : f32[2,4]\n"
            "  %c{0} = exp(%b{0}) : f32[2,4]\n  %y{0} = tanh(%c{0}) : f32[2,4]\n",
            i, i == 0 ? "x" : fmt::format("y{}", i - 1));
    }
    ops += "  %s = add(%b0, %y1) : f32[2,4]\n  %t = add(%s, %y2) : f32[2,4]\n";
    const std::string text = "func @main(" + arguments + ") -> (%t \"t\") {\n" + ops + "}\n";
    const Module module = rolled(text);
    EXPECT_EQ(count(module, "repeat"), 1u);
    EXPECT_EQ(count(module, "member"), 2u);
    EXPECT_EQ(module.functions[1].results.size(), 3u);
    const Module flat = parsed(text);
    const NamedArguments given(flat.main(), 1);
    EXPECT_EQ(named_results(module, given), named_results(flat, given));
}

// Each op looks like the one before it, for a whole row of layers: what is no layer of one op is one of three.
TEST(OutlineBlocks, LayersOfOpsThatAreAllAlikeAreTakenWhole) {
    std::string arguments = "%y: f32[2,4] input \"x\"", ops;
    for (int i = 0; i < 15; ++i) arguments += fmt::format(", %w{0}: f32[4,4] parameter \"w.{0}\"", i);
    for (int i = 0; i < 5; ++i)
        ops += fmt::format(
            "  %a{0} = linear(%y{1}, %w{2}) : f32[2,4]\n  %b{0} = linear(%y{1}, %w{3}) : f32[2,4]\n"
            "  %y{0} = linear(%a{0}, %w{4}) : f32[2,4]\n",
            i, i == 0 ? "" : std::to_string(i - 1), 3 * i, 3 * i + 1, 3 * i + 2);
    ops += "  %s = add(%b0, %b3) : f32[2,4]\n  %t = add(%s, %y4) : f32[2,4]\n";
    const std::string text = "func @main(" + arguments + ") -> (%t \"t\") {\n" + ops + "}\n";
    const Module module = rolled(text);
    ASSERT_EQ(module.functions.size(), 2u);
    EXPECT_EQ(module.functions[1].ops.size(), 3u);
    ASSERT_EQ(count(module, "repeat"), 1u);
    EXPECT_EQ(count(module, "linear"), 0u);
    const Module flat = parsed(text);
    const NamedArguments given(flat.main(), 1);
    EXPECT_EQ(named_results(module, given), named_results(flat, given));
}

// ---- what must stay -------------------------------------------------------------------------------------------------

void expect_unchanged(const std::string& text) {
    EXPECT_EQ(printed_functions(rolled(text)), printed_functions(parsed(text)));
}

// Layers before and behind it are loops; the ops of the frozen one stay. In a deep model, too: the search for what
// repeats ends at that layer, and does not try every shorter run first.
TEST(OutlineBlocks, AFrozenLayerStaysAmongLoops) {
    for (const auto& [layers, frozen] : {std::pair(5, 2), std::pair(126, 63), std::pair(200, 100)}) {
        SCOPED_TRACE(layers);
        Report report;
        const Module module = rolled(TinyTransformer{.layers = layers, .frozen_layer = frozen}.text(), &report);
        std::vector<std::int64_t> rows;
        for (const Op& op : module.main().ops)
            if (op.name == "repeat") rows.push_back(op.attributes.integer("n"));
        EXPECT_EQ(rows, (std::vector<std::int64_t>{frozen, layers - frozen - 1}));
        EXPECT_EQ(count(module, "call"), 0u);
        EXPECT_EQ(count(module, "sdpa"), 1u);
        for (const Note& note : report.notes) EXPECT_NE(note.kind, Note::Kind::warning) << note.text;
    }
}

TEST(OutlineBlocks, ASearchThatIsCutShortSaysSo) {
    std::string text = TinyTransformer{.layers = 2}.text();
    const std::string from = "%x2 = add(%m1, %d1)";
    text.replace(text.find(from), from.size(), "%x2 = add(%d1, %m1)");  // a candidate that is no run of layers
    const Module module = parsed(text);
    EXPECT_FALSE(find_blocks(module.main()).gave_up);
    const FoundBlocks cut = find_blocks(module.main(), 0);
    EXPECT_TRUE(cut.gave_up);
    EXPECT_TRUE(cut.runs.empty());
}

// Layers with one of four activations each, in an order that repeats in parts.
std::string layers_of_kinds(std::string_view kinds) {
    const std::map<char, std::string> activations = {{'t', "tanh"}, {'s', "sigmoid"}, {'e', "cos"}, {'n', "neg"}};
    std::string arguments = "%x0: f32[2,4] input \"x\"", ops;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        arguments += fmt::format(", %w{0}: f32[4,4] parameter \"layers.{0}.w\"", k);
        ops += fmt::format(
            "  %m{0} = linear(%x{0}, %w{0}) : f32[2,4]\n  %a{0} = {2}(%m{0}) : f32[2,4]\n"
            "  %b{0} = mul(%a{0}, %m{0}) : f32[2,4]\n  %x{1} = add(%x{0}, %b{0}) : f32[2,4]\n",
            k, k + 1, activations.at(kinds[k]));
    }
    return fmt::format("func @main({}) -> (%x{} \"y\") {{\n{}}}\n", arguments, kinds.size(), ops);
}

using Periods = std::vector<std::vector<std::size_t>>;

// What one search after the other finds, when only the first run of each is taken, and what all of them find.
std::vector<Periods> runs_of(Function f, bool one_by_one) {
    std::vector<Periods> out;
    std::int64_t mark = 0;
    for (FoundBlocks found = find_blocks(f); !found.runs.empty(); found = find_blocks(f)) {
        if (one_by_one) found.runs.resize(1);
        for (const BlockRun& run : found.runs) {
            for (const std::vector<std::size_t>& ops : run.periods)
                for (std::size_t k : ops) f.ops[k].attributes.set("taken", mark++);  // equal to no other
            out.push_back(run.periods);
        }
    }
    return out;
}

TEST(OutlineBlocks, RunsThatAreFoundAtOnceAreThoseOfOneSearchAfterTheOther) {
    for (const auto& [kinds, runs] : {std::pair("ttttt", 1u), std::pair("tttsssse", 2u), std::pair("tsetsentsetse", 2u),
                                      std::pair("tststststteeesesesetttnnnnnts", 4u)}) {
        SCOPED_TRACE(kinds);
        const Module module = parsed(layers_of_kinds(kinds));
        const std::vector<Periods> one_by_one = runs_of(module.main(), true);
        EXPECT_EQ(one_by_one.size(), runs);
        EXPECT_EQ(runs_of(module.main(), false), one_by_one);
        EXPECT_EQ(find_blocks(module.main()).runs.size(), runs) << "in one search";
        expect_same_values(module, outlined(layers_of_kinds(kinds)));
    }
}

TEST(OutlineBlocks, OneLayerStays) {
    expect_unchanged(TinyTransformer{.layers = 1}.text());
}

TEST(OutlineBlocks, AFewHiddenLayersStay) {
    expect_unchanged(R"(
func @main(%x: f32[2,4] input "x", %u: f32[4,4] parameter "u", %v: f32[4,4] parameter "v", %w: f32[4,4] parameter "w") -> (%f "f") {
  %a = linear(%x, %u) : f32[2,4]
  %b = tanh(%a) : f32[2,4]
  %c = linear(%b, %v) : f32[2,4]
  %d = tanh(%c) : f32[2,4]
  %e = linear(%d, %w) : f32[2,4]
  %f = tanh(%e) : f32[2,4]
}
)");
}

TEST(OutlineBlocks, LayersThatDifferInAnAttributeStay) {
    std::string text = TinyTransformer{.layers = 2}.text();
    text.replace(text.rfind("0.7"), 3, "0.8");  // the second layer's scale of attention
    expect_unchanged(text);
}

TEST(OutlineBlocks, LayersThatAreWiredDifferentlyStay) {
    std::string text = TinyTransformer{.layers = 2}.text();
    const std::string from = "%x2 = add(%m1, %d1)";
    text.replace(text.find(from), from.size(), "%x2 = add(%d1, %m1)");
    expect_unchanged(text);
}

// Buffers of layers are a family, and so is what they will be.
TEST(RollRepeats, BuffersOfLayersMoveInTheLoop) {
    Report report;
    Module module = roll_repeats(parsed(R"(
func @main(
    %x: f32[3] input "x",
    %a: f32[3] buffer "layers.0.mean" {frozen},
    %b: f32[3] buffer "layers.1.mean" {frozen},
    %c: f32[3] buffer "layers.2.mean" {frozen}) ->
    (%z "y", %a1 "layers.0.mean", %b1 "layers.1.mean", %c1 "layers.2.mean") {
  %y0, %a1 = call(%x, %a) {callee = "layer"} : f32[3], f32[3]
  %y1, %b1 = call(%y0, %b) {callee = "layer"} : f32[3], f32[3]
  %z, %c1 = call(%y1, %c) {callee = "layer"} : f32[3], f32[3]
}
func @layer(%x: f32[3], %mean: f32[3]) -> (%y, %moved) {
  %y = tanh(%x) : f32[3]
  %moved = mul(%mean, %x) : f32[3]
}
)"),
                                 report);
    const Function& main = module.main();
    ASSERT_EQ(main.arguments.size(), 2U);
    EXPECT_EQ(main.argument_info[1].kind, ArgInfo::Kind::buffer);
    EXPECT_EQ(main.argument_info[1].names,
              (std::vector<std::string>{"layers.0.mean", "layers.1.mean", "layers.2.mean"}));
    EXPECT_EQ(main.result_names, (std::vector<std::string>{"y", "layers.0.mean"}));
    ASSERT_EQ(main.ops.size(), 1U);
    EXPECT_EQ(main.results[1], main.ops[0].results[1]);
    EXPECT_EQ(main.type(main.results[1]), main.type(main.arguments[1]));
}

TEST(RollRepeats, SaysWhyARowStays) {
    Report report;
    Module module = roll_repeats(parsed(R"(
func @main(%x: f32[4] input "x", %v: f32[4] parameter "v", %w: f32[4] parameter "w") -> (%s "s") {
  %y = call(%x, %v) {callee = "f"} : f32[4]
  %z = call(%y, %w) {callee = "f"} : f32[4]
  %s = add(%y, %z) : f32[4]
}
func @f(%x: f32[4], %w: f32[4]) -> (%y) {
  %y = mul(%x, %w) : f32[4]
}
)"),
                                 report);
    ASSERT_EQ(report.notes.size(), 1u);
    EXPECT_EQ(report.notes[0].kind, Note::Kind::declined);
    EXPECT_EQ(report.notes[0].text, "what layer 0 carries on is read elsewhere");
    EXPECT_EQ(count(module, "call"), 2u);
}

// ---- with differentiation -------------------------------------------------------------------------------------------

class RolledGradients : public ::testing::TestWithParam<RecomputePolicy> {};

TEST_P(RolledGradients, AreThoseOfTheUnrolledProgramBitForBit) {
    for (const TinyTransformer& variant : {TinyTransformer{.layers = 5}, TinyTransformer{.layers = 2, .tied = true},
                                           TinyTransformer{.layers = 5, .windowed_every = 2}}) {
        Report report;
        DifferentiateOptions options;
        options.keeping.policy = GetParam();
        const Module loops = differentiate(rolled(variant.text()), options, report);
        verify(loops);
        const NamedArguments arguments(loops.main(), 5);
        const auto expected = named_results(loops, arguments);
        const Module calls = differentiate(outlined(variant.text()), options, report);
        verify(calls);
        EXPECT_EQ(named_results(calls, arguments), expected);
        const Module flat = differentiate(parsed(variant.text()), options, report);
        verify(flat);
        for (const auto& [name, value] : named_results(flat, arguments))
            EXPECT_TRUE(value == expected.at(name)) << name << " of " << variant.layers;
        const Module unrolled = differentiate(unroll_repeats(rolled(variant.text()), report), options, report);
        EXPECT_EQ(named_results(unrolled, arguments), expected);
        const Module unrolled_behind = unroll_repeats(loops, report);
        verify(unrolled_behind);
        EXPECT_EQ(named_results(unrolled_behind, arguments), expected);
    }
}

// A shared value that a layer reads twice gets the sum of its layer's gradients added, where the flat program adds each
// alone: the same but for rounding.
TEST_P(RolledGradients, OfSharedValuesAreSummedOverLayers) {
    Report report;
    DifferentiateOptions options;
    options.keeping.policy = GetParam();
    const TinyTransformer variant{.layers = 3, .learned_tables = true};
    const Module loops = differentiate(rolled(variant.text()), options, report);
    verify(loops);
    const NamedArguments arguments(loops.main(), 5);
    const auto expected = named_results(loops, arguments);
    const Module calls = differentiate(outlined(variant.text()), options, report);
    EXPECT_EQ(named_results(calls, arguments), expected);
    const Module flat = differentiate(parsed(variant.text()), options, report);
    for (const auto& [name, value] : named_results(flat, arguments))
        for (std::int64_t k = 0; k < value.size(); ++k)
            EXPECT_NEAR(value.at(k), expected.at(name).at(k), 1e-13) << name;  // a few roundings of sums of size 1
    const std::vector<Members> given = arguments.of(loops.main());
    for (const GradientCheck& c : check_gradients(loops, given))
        EXPECT_LT(c.error, 1e-7) << c.what << ": " << c.actual << ", by differences " << c.expected;
}

TEST_P(RolledGradients, AreRight) {
    Report report;
    DifferentiateOptions options;
    options.keeping.policy = GetParam();
    const Module module = differentiate(rolled(TinyTransformer{.layers = 3, .tied = true}.text()), options, report);
    const std::vector<Members> arguments = random_arguments(module.main(), 9);
    for (const GradientCheck& c : check_gradients(module, arguments))
        EXPECT_LT(c.error, 1e-7) << c.what << ": " << c.actual << ", by differences " << c.expected;
}

INSTANTIATE_TEST_SUITE_P(Policies, RolledGradients,
                         ::testing::Values(RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::block));

TEST(RolledGradients, SavedOfADecoderLayer) {
    Report report;
    const Module module = differentiate(rolled(TinyTransformer{.layers = 2}.text()), {}, report);
    const Function& forward = *module.find("decoder_layer_forward");
    std::vector<std::string> saved;
    for (std::size_t k = 1; k < forward.results.size(); ++k) saved.push_back(forward.info(forward.results[k]).name);
    // Inputs of the norms and their statistics, what attention reads and gives, what the gated product reads: not the
    // normed inputs, not the gated product, no probabilities.
    EXPECT_EQ(saved, (std::vector<std::string>{"x", "r0", "v0", "qr0", "kr0", "a0", "lse0", "m0", "s0", "g0", "u0"}));
}

}  // namespace outline_blocks_test
}  // namespace thunderc
