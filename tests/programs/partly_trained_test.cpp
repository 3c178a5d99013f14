// Programs that train a part of the model: some layers are frozen, or compiled in. The gradients of the rest are
// PyTorch's of the whole model, in the first step; what is frozen stays as it is to the last bit.
#include <gtest/gtest.h>

#include <regex>

#include "tests/programs/pytorch_numbers.h"

namespace thunderc::tests {
namespace {

struct Part {
    const char *name, *options, *frozen, *constant;  // what the options match
};

class PartlyTrained : public testing::TestWithParam<Part> {};

TEST_P(PartlyTrained, LeavesTheRestAlone) {
    const Part& part = GetParam();
    const GeneratedProgram program(part.name, "llama5", "dynamo.logits", part.options);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome outcome = program.train(
        program.recipe() + " --log run.jsonl --dump-gradients gradients.safetensors --save after.safetensors");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const double norm = expect_some_of_pytorchs_gradients(program, program.file("gradients.safetensors"));
    const nlohmann::json first = read_log(program.file("run.jsonl")).front();
    const double loss = program.reference().at("loss").at(0);
    EXPECT_NEAR(first.at("loss").get<double>(), loss, loss_tolerance * loss);
    EXPECT_NEAR(first.at("grad_norm").get<double>(), norm, norm_tolerance * norm);

    std::vector<std::string> frozen;
    const auto matches = [](const char* pattern, const std::string& name) {
        return *pattern != 0 && std::regex_search(name, std::regex(pattern));
    };
    for (const auto& [name, shape] : program.reference().at("parameters").items())
        if (matches(part.frozen, name) && !matches(part.constant, name)) frozen.push_back(name);
    EXPECT_EQ(untouched(program, program.file("after.safetensors")), frozen);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, PartlyTrained,
    testing::Values(
        Part{"llama5_lower_layers_frozen", "--freeze 'embed|layers\\.[01]\\.'", "embed|layers\\.[01]\\.", ""},
        Part{"llama5_parts_frozen_and_constant",
             "--freeze 'layers\\.2\\.|v_proj' --constant 'layernorm|layers\\.4\\.mlp\\.up' --recompute block",
             "layers\\.2\\.|v_proj", "layernorm|layers\\.4\\.mlp\\.up"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace thunderc::tests
