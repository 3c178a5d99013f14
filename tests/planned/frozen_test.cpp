// SPDX-License-Identifier: Apache-2.0
// Models of which a part is not trained, or is compiled in as constants: all layers' tensors of a kind, or some
// layers'. Gradients of the rest are PyTorch's own of the whole model (freezing changes none of them in the first
// step); the steps after it are those of the same model in fp64, neither rolled nor fused nor planned.
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/planned/reference_step.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace frozen_test {

struct Case {
    std::string name, model, freeze, constant;
    std::string recompute = "none";
    std::string variant = "dynamo.logits";
    bool roll = true;

    friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

CompileOptions options_of(const Case& c) {
    CompileOptions o;
    o.freeze = c.freeze;
    if (!c.constant.empty()) o.constant = {c.constant};
    o.recompute = c.recompute;
    o.roll = c.roll;
    return o;
}

bool matches(const std::string& pattern, const std::string& name) {
    return !pattern.empty() && std::regex_search(name, std::regex(pattern));
}

class PartlyTrained : public ::testing::TestWithParam<Case> {};

TEST_P(PartlyTrained, TrainsTheRest) {
    const Case& c = GetParam();
    const std::string file = c.model + "/" + c.variant + ".onnx";
    PlannedProgram program(compiled(file, options_of(c)));
    CompileOptions plain = options_of(c);
    plain.roll = false;
    plain.recompute = "none";
    ValuesProgram exact(compiled(file, plain, "compose_step"));
    const auto parameters = read_safetensors(fixture(c.model + "/params.safetensors"));
    const auto gradients = read_safetensors(fixture(c.model + "/grads.safetensors"));
    const auto all = read_safetensors(fixture(c.model + "/batch.safetensors"));
    std::ifstream recorded(fixture(c.model + "/reference.json"));
    const nlohmann::json reference = nlohmann::json::parse(recorded);

    std::size_t constants = 0, frozen = 0;
    double squares = 0;
    for (const auto& [name, tensor] : parameters) {
        const bool constant = matches(c.constant, name), still = matches(c.freeze, name) && !constant;
        constants += constant ? 1 : 0;
        frozen += still ? 1 : 0;
        EXPECT_EQ(program.has(name), !constant) << name;
        EXPECT_EQ(program.has("grad." + name), !constant && !still) << name;
        if (constant) continue;
        program.set(name, tensor);
        exact.set(name, tensor);
        if (!still)
            for (double x : gradients.at(name).f) squares += x * x;
    }
    EXPECT_EQ(constants > 0, !c.constant.empty());
    EXPECT_EQ(frozen > 0, !c.freeze.empty());
    clear_states(program);

    const PlannedOptimizer optimizer = {.learning_rate = 1e-3,
                                        .weight_decay = 0.1,
                                        .options = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}},
                                        .max_grad_norm = 0,
                                        .decay_all = true};
    for (int s = 0; s < (short_form ? 1 : 3); ++s) {
        const PlannedStep a = planned_step(program, {batch(all, s)}, optimizer, s);
        const PlannedStep b = exact.step({batch(all, s)}, optimizer, s);
        // As in run_planned_test.cpp: f32 after every op, against fp64.
        EXPECT_NEAR(a.loss, b.loss, 2e-6 * 4);
        EXPECT_NEAR(a.grad_norm, b.grad_norm, 2e-5);
        if (s > 0) continue;
        EXPECT_NEAR(a.loss, reference.at("loss64").at(0).get<double>(), 2e-6 * 4);
        EXPECT_NEAR(a.grad_norm, std::sqrt(squares), 2e-5);
        for (const auto& [name, expected] : gradients) {
            if (!program.has("grad." + name)) continue;
            EXPECT_LE(largest_difference(program.get("grad." + name), expected), 4e-6 * largest(expected) + 1e-8)
                << name;
        }
    }
    for (const auto& [name, tensor] : parameters) {
        if (!program.has(name)) continue;
        const bool still = matches(c.freeze, name);
        EXPECT_LE(largest_difference(program.get(name), still ? tensor : exact.values().at(name)), still ? 0 : 2e-5)
            << name;
    }
}

std::vector<Case> cases() {
    std::vector<Case> out = {
        {"FreezeOneProduct", "llama5", "q_proj", ""},
        {"FreezeAllNorms", "llama5", "norm", ""},
        {"FreezeOneLayer", "llama5", "layers\\.2\\.", ""},
        {"FreezeTheFirstLayers", "llama5", "layers\\.[01]\\.", ""},
        {"FreezeAllBelow", "llama5", "embed_tokens|layers\\.[01]\\.", ""},
        {"FreezeEverySecond", "llama5", "layers\\.[13]\\.mlp", ""},
        {"FreezeInTheLast", "llama5", "layers\\.4\\.self_attn\\.o_proj", ""},
        {"FreezeAllLayers", "llama5", "layers\\.", ""},
        {"FreezeATie", "llama2_tied", "embed_tokens", ""},
        {"ConstantProduct", "llama5", "", "q_proj"},
        {"ConstantNorms", "llama5", "", "layernorm"},
        {"ConstantProductOfOneLayer", "llama5", "", "layers\\.2\\.self_attn\\.q_proj"},
        {"ConstantNormOfOneLayer", "llama5", "", "layers\\.2\\.input_layernorm"},
        {"ConstantNormOfTheFirst", "llama5", "", "layers\\.0\\.input_layernorm"},
        {"ConstantFirstLayer", "llama5", "", "layers\\.0\\."},
        {"ConstantLayers", "llama5", "", "layers\\."},
        {"ConstantEverySecond", "llama5", "", "layers\\.[13]\\.mlp\\.down"},
        {"ConstantEmbedding", "llama5", "", "embed_tokens"},
        {"ConstantHead", "llama5", "", "lm_head"},
        {"ConstantAndFrozen", "llama5", "layers\\.[01]\\.", "k_proj"},
        {"ConstantProductNoopt", "llama2", "", "v_proj"},
    };
    out.back().variant = "noopt.logits";
    for (const char* name : {"FreezeOneLayer", "FreezeTheFirstLayers", "ConstantNorms", "ConstantNormOfOneLayer"})
        for (std::size_t k = 0; k < 21; ++k)
            if (out[k].name == name)
                for (const char* recompute : {"selective", "block"}) {
                    out.push_back(out[k]);
                    out.back().name += std::string("_") + recompute;
                    out.back().recompute = recompute;
                }
    for (const char* name : {"FreezeOneLayer", "ConstantNorms"})
        for (std::size_t k = 0; k < 21; ++k)
            if (out[k].name == name) {
                out.push_back(out[k]);
                out.back().name += "_unrolled";
                out.back().roll = false;
            }
    // Under sanitizers each model's part in one way, and each way once.
    return all_or_covering(out, [](const Case& c) {
        return Facets{c.freeze + ", " + c.constant, c.variant, c.recompute, c.roll ? "rolled" : "unrolled"};
    });
}

INSTANTIATE_TEST_SUITE_P(All, PartlyTrained, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// ---- where the loops are --------------------------------------------------------------------------------------------

// "2 3" for a loop over two layers and one over three, going forward.
std::string loops(const std::string& freeze, const std::string& constant) {
    CompileOptions o;
    o.freeze = freeze;
    if (!constant.empty()) o.constant = {constant};
    const Module module = compiled("llama5/dynamo.logits.onnx", o, "roll_repeats");
    std::string out;
    for (const Op& op : module.main().ops)
        if (op.name == "repeat") out += (out.empty() ? "" : " ") + std::to_string(op.attributes.integer("n"));
    return out;
}

TEST(PartlyTrainedLayers, AreLoopsOfTheirOwn) {
    EXPECT_EQ(loops("", ""), "5");
    EXPECT_EQ(loops("q_proj", ""), "5");
    EXPECT_EQ(loops("layers\\.[01]\\.", ""), "2 3");
    EXPECT_EQ(loops("layers\\.2\\.", ""), "2 2");
    EXPECT_EQ(loops("layers\\.0\\.", ""), "4");
    EXPECT_EQ(loops("", "q_proj"), "5");
    EXPECT_EQ(loops("", "layers\\."), "5");
    EXPECT_EQ(loops("", "layers\\.[34]\\.mlp"), "3 2");
    EXPECT_EQ(loops("", "layers\\.4\\.post_attention_layernorm"), "4");
}

}  // namespace frozen_test
}  // namespace thunderc
