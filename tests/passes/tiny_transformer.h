// SPDX-License-Identifier: Apache-2.0
// A small decoder in text IR, as raising leaves it: embedding, rotary tables, layers of attention and a gated MLP, a
// head, cross entropy. Every layer is written out.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/check/gradient_check.h"
#include "compiler/support/error.h"

namespace thunderc {

struct TinyTransformer {
    int layers = 5;
    bool scopes = true;             // false: as an export that lost its metadata
    bool tied = false;              // the head is the embedding
    bool learned_tables = false;    // the rotary tables depend on a parameter, and are computed in the first layer
    int windowed_every = 0;         // > 0: every so many layers attend over a window, the first one among them
    int frozen_layer = -1;          // all weights of this one are frozen
    bool differing_tables = false;  // each layer has a constant of its own

    std::string text() const {
        std::string arguments =
            "%ids: i64[2,6] input \"input_ids\" {batched, entries = 11, source = \"tokens\"},\n"
            "%labels: i64[12] input \"labels\" {entries = 11, ignore = -100},\n";
        arguments += parameter("embed", "11,8", "model.embed_tokens.weight");
        std::string ops;
        auto op = [&](const std::string& line, const std::string& scope, const std::string& module_class) {
            ops += "  " + line +
                   (scopes && !scope.empty() ? fmt::format(" at \"{}\" \"{}\"", scope, module_class) : "") + "\n";
        };
        op("%x0 = embedding(%embed, %ids) : f32[2,6,8]", "model.embed_tokens", "Embedding");
        for (int i = 0; i < layers; ++i) {
            const std::string layer = fmt::format("model.layers.{}", i);
            auto weight = [&](const std::string& name, const std::string& dims) {
                arguments += parameter(fmt::format("{}{}", name.substr(name.rfind('.') + 1), i), dims,
                                       fmt::format("{}.{}.weight", layer, name), i == frozen_layer);
            };
            weight("input_layernorm", "8");
            weight("self_attn.q_proj", "8,8");
            weight("self_attn.k_proj", "4,8");
            weight("self_attn.v_proj", "4,8");
            weight("self_attn.o_proj", "8,8");
            weight("post_attention_layernorm", "8");
            weight("mlp.gate_proj", "16,8");
            weight("mlp.up_proj", "16,8");
            weight("mlp.down_proj", "8,16");
            auto line = [&](std::string text, const std::string& scope, const std::string& module_class) {
                for (std::size_t at = 0; (at = text.find('#', at)) != std::string::npos;)
                    text.replace(at, 1, std::to_string(i));
                op(text, scope.empty() ? layer : layer + "." + scope, module_class);
            };
            line("%n# , %r# = rms_norm(%x#, %input_layernorm#) {eps = 0.00001} : f32[2,6,8], f32[2,6]",
                 "input_layernorm", "Norm");
            line("%q# = linear(%n#, %q_proj#) : f32[2,6,8]", "self_attn.q_proj", "Linear");
            line("%qh# = reshape(%q#) {dims = [2,6,4,2]} : f32[2,6,4,2]", "self_attn", "Attention");
            line("%k# = linear(%n#, %k_proj#) : f32[2,6,4]", "self_attn.k_proj", "Linear");
            line("%kh# = reshape(%k#) {dims = [2,6,2,2]} : f32[2,6,2,2]", "self_attn", "Attention");
            line("%v# = linear(%n#, %v_proj#) : f32[2,6,4]", "self_attn.v_proj", "Linear");
            line("%vh# = reshape(%v#) {dims = [2,6,2,2]} : f32[2,6,2,2]", "self_attn", "Attention");
            if (i == 0) {  // exporters put the tables where they are read first
                op("%angle = constant() {value = <f32[1,6,2] affine 0.0 + [0.0, 0.7, 0.0]>} : f32[1,6,2]",
                   "model.rotary_emb", "Rotary");
                std::string angle = "angle";
                if (learned_tables) {
                    arguments += parameter("frequency", "2", "model.rotary_emb.frequency");
                    op("%learned = mul(%angle, %frequency) : f32[1,6,2]", "model.rotary_emb", "Rotary");
                    angle = "learned";
                }
                op("%cos = cos(%" + angle + ") : f32[1,6,2]", "model.rotary_emb", "Rotary");
                op("%sin = sin(%" + angle + ") : f32[1,6,2]", "model.rotary_emb", "Rotary");
            }
            line("%qr# = rotary(%qh#, %cos, %sin) {style = \"half\"} : f32[2,6,4,2]", "self_attn", "Attention");
            line("%kr# = rotary(%kh#, %cos, %sin) {style = \"half\"} : f32[2,6,2,2]", "self_attn", "Attention");
            const bool windowed = windowed_every > 0 && i % windowed_every == 0;
            line(fmt::format(
                     "%a# , %lse# = sdpa(%qr#, %kr#, %vh#) {{causal = true, scale = 0.7{}}} : f32[2,6,4,2], f32[2,4,6]",
                     windowed ? ", window = 3" : ""),
                 "self_attn", "Attention");
            line("%af# = reshape(%a#) {dims = [2,6,8]} : f32[2,6,8]", "self_attn", "Attention");
            line("%o# = linear(%af#, %o_proj#) : f32[2,6,8]", "self_attn.o_proj", "Linear");
            line("%m# = add(%x#, %o#) : f32[2,6,8]", "", "TinyDecoderLayer");
            line("%p# , %s# = rms_norm(%m#, %post_attention_layernorm#) {eps = 0.00001} : f32[2,6,8], f32[2,6]",
                 "post_attention_layernorm", "Norm");
            line("%g# = linear(%p#, %gate_proj#) : f32[2,6,16]", "mlp.gate_proj", "Linear");
            line("%u# = linear(%p#, %up_proj#) : f32[2,6,16]", "mlp.up_proj", "Linear");
            line("%h# = swiglu(%g#, %u#) : f32[2,6,16]", "mlp", "Mlp");
            std::string down = "h#";
            if (differing_tables) {
                line(fmt::format("%t# = constant() {{value = <f32[16] splat {}.5>}} : f32[16]", i + 1), "mlp", "Mlp");
                line("%ht# = mul(%h#, %t#) : f32[2,6,16]", "mlp", "Mlp");
                down = "ht#";
            }
            line("%d# = linear(%" + down + ", %down_proj#) : f32[2,6,8]", "mlp.down_proj", "Linear");
            line(fmt::format("%x{} = add(%m#, %d#) : f32[2,6,8]", i + 1), "", "TinyDecoderLayer");
        }
        arguments += parameter("norm", "8", "model.norm.weight");
        if (!tied) arguments += parameter("head", "11,8", "lm_head.weight");
        op(fmt::format("%f, %fr = rms_norm(%x{}, %norm) {{eps = 0.00001}} : f32[2,6,8], f32[2,6]", layers),
           "model.norm", "Norm");
        op(fmt::format("%logits = linear(%f, %{}) : f32[2,6,11]", tied ? "embed" : "head"), "lm_head", "Linear");
        op("%rows = reshape(%logits) {dims = [12,11]} : f32[12,11]", "", "");
        op("%loss, %clse = cross_entropy(%rows, %labels) {ignore_index = -100} : f32[], f32[12]", "", "");
        op("%weight = cross_entropy_weight(%labels) {ignore_index = -100} : f32[]", "", "");
        arguments.erase(arguments.rfind(','));
        return "func @main(" + arguments + ") -> (%loss \"loss\", %weight \"weight\") {\n" + ops + "}\n";
    }

  private:
    std::string parameter(const std::string& value, const std::string& dims, const std::string& name,
                          bool frozen = false) const {
        return fmt::format("%{}: f32[{}] parameter \"{}\"{},\n", value, dims, scopes ? name : "onnx::" + value,
                           frozen ? " {frozen}" : "");
    }
};

// Values for each name of main's arguments, so that a program and its rolled form can be given the same.
class NamedArguments {
  public:
    explicit NamedArguments(const Function& main, std::uint64_t seed) {
        const std::vector<Members> values = random_arguments(main, seed);
        for (std::size_t k = 0; k < values.size(); ++k)
            for (std::size_t m = 0; m < values[k].size(); ++m)
                by_name_[main.argument_info[k].names.at(m)] = values[k][m];
    }

    std::vector<Members> of(const Function& main) const {
        std::vector<Members> out;
        for (const ArgInfo& info : main.argument_info) {
            out.emplace_back();
            for (const std::string& name : info.names) out.back().push_back(by_name_.at(name));
        }
        return out;
    }

  private:
    std::map<std::string, Tensor> by_name_;
};

// Results of a differentiated main by name: "loss", "weight", and gradients by the parameter's own name.
inline std::map<std::string, Tensor> named_results(const Module& module, const NamedArguments& arguments) {
    const Function& main = module.main();
    const std::vector<Members> given = arguments.of(main);
    const std::vector<Members> results = evaluate(module, main, std::span<const Members>(given));
    std::map<std::string, Tensor> out;
    for (std::size_t r = 0; r < results.size(); ++r) {
        const std::string& name = main.result_names.at(r);
        std::vector<std::string> names = {name};  // gradients are named after the value of their parameter
        for (std::size_t k = 0; k < main.arguments.size(); ++k)
            if (name == "d" + main.info(main.arguments[k]).name) names = main.argument_info[k].names;
        for (std::size_t m = 0; m < results[r].size(); ++m) out[names.at(m)] = results[r][m];
    }
    return out;
}

}  // namespace thunderc
