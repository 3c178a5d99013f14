// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_interpreter/run_planned.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "tests/planned/reference_step.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace run_planned_test {

// The fixtures' optimizer, see reference.json.
const PlannedOptimizer adamw = {.learning_rate = 1e-3,
                                .weight_decay = 0.1,
                                .options = {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}},
                                .max_grad_norm = 0,
                                .decay_all = true};

void set_parameters(PlannedProgram& program, const std::string& model) {
    for (const auto& [name, tensor] : read_safetensors(fixture(model + "/params.safetensors")))
        program.set(name, tensor);
    clear_states(program);
}

struct Case {
    std::string model, variant, recompute;
    bool roll = true;
    std::string executors;

    std::string name() const {
        return model + "_" + variant.substr(0, variant.find('.')) + "_" + recompute + (roll ? "_rolled" : "_unrolled") +
               (executors.empty() ? "" : "_" + executors);
    }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

CompileOptions options_of(const Case& c) {
    CompileOptions o;
    o.recompute = c.recompute;
    o.roll = c.roll;
    if (!c.executors.empty()) o.executors = {c.executors};
    return o;
}

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const char* model : {"mlp", "llama2", "llama2_tied"})
        for (const char* recompute : {"none", "selective", "block"})
            for (bool roll : {true, false}) out.push_back({model, "dynamo.logits", recompute, roll, ""});
    out.push_back({"llama5", "dynamo.logits", "none", true, ""});
    out.push_back({"llama5", "dynamo.logits", "block", true, ""});
    out.push_back({"llama2", "noopt.logits", "none", true, ""});
    out.push_back({"llama2", "dynamo.logits", "none", true, "reference"});
    // Under sanitizers each model, and each way of recomputing with loops and without.
    return all_or_covering(out, [](const Case& c) {
        return Facets{c.model, c.variant, c.recompute + (c.roll ? " rolled" : " unrolled"), c.executors + " executors"};
    });
}

class RunPlanned : public ::testing::TestWithParam<Case> {
  protected:
    Module planned() const { return compiled(model_file(), options_of(GetParam())); }
    std::string model_file() const { return GetParam().model + "/" + GetParam().variant + ".onnx"; }
};

// Five steps of AdamW, against what PyTorch recorded in f32: both round after every op, in other orders. A gradient's
// element is a sum of at most 400 products, and 24 * 2^-24 is 1.4e-6 of the largest.
TEST_P(RunPlanned, TrainsAsPyTorch) {
    const std::string& model = GetParam().model;
    PlannedProgram program(planned());
    set_parameters(program, model);
    const auto batches = read_safetensors(fixture(model + "/batch.safetensors"));
    const auto gradients = read_safetensors(fixture(model + "/grads.safetensors"));
    const auto after = read_safetensors(fixture(model + "/params_after.safetensors"));
    std::ifstream file(fixture(model + "/reference.json"));
    const nlohmann::json reference = nlohmann::json::parse(file);
    const int steps = reference.at("steps").get<int>();
    for (int s = 0; s < steps; ++s) {
        const PlannedStep step = planned_step(program, {batch(batches, s)}, adamw, s);
        const auto at = static_cast<std::size_t>(s);
        EXPECT_NEAR(step.loss, reference.at("loss64").at(at).get<double>(), 2e-6 * 4) << "step " << s;
        EXPECT_NEAR(step.grad_norm, reference.at("grad_norm64").at(at).get<double>(), 2e-5) << "step " << s;
        if (s > 0) continue;
        ASSERT_FALSE(gradients.empty());
        for (const auto& [name, expected] : gradients)
            EXPECT_LE(largest_difference(program.get("grad." + name), expected), 4e-6 * largest(expected) + 1e-8)
                << name;
    }
    // AdamW divides by the gradient's own size: an element of relative error e moves by lr * e a step. 2e-5 is 0.4% of
    // the way of five steps.
    for (const auto& [name, expected] : after) EXPECT_LE(largest_difference(program.get(name), expected), 2e-5) << name;
}

// Two steps of three micro-batches each, with clipping, against values in fp64.
void expect_values(Module planned, const std::string& model, const std::string& variant) {
    PlannedProgram program(std::move(planned));
    set_parameters(program, model);
    CompileOptions plain;
    plain.roll = false;
    ValuesProgram exact(compiled(model + "/" + variant + ".onnx", plain, "compose_step"));
    for (const auto& [name, tensor] : read_safetensors(fixture(model + "/params.safetensors"))) exact.set(name, tensor);
    const auto all = read_safetensors(fixture(model + "/batch.safetensors"));
    PlannedOptimizer optimizer = adamw;
    optimizer.max_grad_norm = 0.5;
    optimizer.decay_all = false;
    for (int s = 0; s < 2; ++s) {
        const std::vector<MicroBatch> batches = {batch(all, s), batch(all, s + 1), batch(all, s + 2)};
        const PlannedStep a = planned_step(program, batches, optimizer, s);
        const PlannedStep b = exact.step(batches, optimizer, s);
        EXPECT_EQ(a.loss_weight, b.loss_weight);
        EXPECT_NEAR(a.loss, b.loss, 2e-6 * 4);
        EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5);
        for (const std::string& name : program.names()) {
            if (!exact.has(name) || program.type(name).dtype != DType::f32) continue;
            const Tensor& expected = exact.values().at(name);
            // f32 after every op against fp64; what AdamW divides is as above, of one or two steps of 1e-3.
            const bool moved =
                !name.starts_with("grad.") && !name.starts_with("first_moment.") && !name.starts_with("second_moment.");
            EXPECT_LE(largest_difference(program.get(name), expected), moved ? 2e-5 : 1e-5 * largest(expected) + 1e-8)
                << name << ", step " << s;
        }
    }
}

TEST_P(RunPlanned, AccumulatesAsValuesDo) {
    expect_values(planned(), GetParam().model, GetParam().variant);
}

// Loops over time steps: parts of tensors that lie in one, and tensors of parts.
TEST(RunPlanned, TimeStepsTrainAsValuesDo) {
    for (const auto& [model, variant] :
         {std::pair("lstm_masked", "noopt.logits"), std::pair("lstm_packed", "legacy.logits"),
          std::pair("gru", "noopt.logits"), std::pair("gru_cells", "dynamo.loss")}) {
        SCOPED_TRACE(model);
        const std::string folder = std::string("models/") + model;
        Module planned = compiled(folder + "/" + variant + ".onnx", {});
        std::size_t unstacked = 0;
        for (const Op& op : planned.functions[0].ops) unstacked += op.name == "unstack" ? 1 : 0;
        EXPECT_GT(unstacked, 0u);
        expect_values(std::move(planned), folder, variant);
    }
}

INSTANTIATE_TEST_SUITE_P(All, RunPlanned, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

// ---- what the interpreter notices ----

Module parsed(const std::string& functions) {
    Module m = parse_module("module \"m\" planned\narena batch 64\narena scratch 192\n" + functions);
    verify(m);
    return m;
}

double loss_of(const std::string& ops) {
    PlannedProgram program(parsed(R"(
func @forward_backward(
    %x: f32[4] @batch+0 input "x",
    %loss_sum: f32[] @scalars+136 scalar "loss_sum") -> (%r "loss_sum") {
)" + ops + R"(
  %s = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[] @scratch+128
  %r = add(%loss_sum, %s) : f32[] @scalars+136
}
)"));
    program.set("x", Tensor::floats({4}, {1, 2, 3, 4}));
    program.set_scalar("loss_sum", 0.5);
    program.run("forward_backward");
    return program.scalar("loss_sum");
}

TEST(RunPlannedMemory, HoldsWhatThePlanKeepsApart) {
    EXPECT_EQ(loss_of("  %a = add(%x, %x) : f32[4] @scratch+0\n"
                      "  %b = add(%x, %x) : f32[4] @scratch+64\n"
                      "  %c = add(%a, %b) : f32[4] @scratch+0\n"),
              40.5);
}

TEST(RunPlannedMemory, ShowsAValueThatIsWrittenOver) {
    // b is written over a before a is read: twice the square, where the sum with 2 x was meant.
    EXPECT_EQ(loss_of("  %a = add(%x, %x) : f32[4] @scratch+0\n"
                      "  %b = mul(%x, %x) : f32[4] @scratch+0\n"
                      "  %c = add(%a, %b) : f32[4] @scratch+64\n"),
              60.5);
}

TEST(RunPlannedMemory, PoisonsAValueThatWasReadForTheLastTime) {
    // e has the place where a was, which ended with b; nothing writes e.
    EXPECT_TRUE(
        std::isnan(loss_of("  %a = add(%x, %x) : f32[4] @scratch+0\n"
                           "  %b = add(%a, %x) : f32[4] @scratch+64\n"
                           "  %e = reshape(%x) {dims = [4]} : f32[4] @scratch+0\n"
                           "  %c = add(%b, %e) : f32[4] @scratch+64\n")));
}

TEST(RunPlannedMemory, ReadsPoisonWhereNothingWasWritten) {
    EXPECT_TRUE(
        std::isnan(loss_of("  %v = reshape(%x) {dims = [4]} : f32[4] @scratch+64\n"
                           "  %c = add(%x, %v) : f32[4] @scratch+0\n")));
}

TEST(RunPlannedMemory, FollowsStrides) {
    // Every second element, twice: 2 (1 + 3).
    EXPECT_EQ(
        loss_of("  %v = slice(%x) {axis = 0, begin = 0, end = 4, step = 2} : f32[2] @batch+0 strides [2] view %x\n"
                "  %c = add(%v, %v) : f32[2] @scratch+0\n"),
        8.5);
}

TEST(RunPlannedMemory, RefusesBytesOutsideAnArena) {
    try {
        loss_of("  %c = add(%x, %x) : f32[4] @scratch+192\n");
        FAIL() << "it was stored";
    } catch (const InternalError& e) {
        EXPECT_STREQ(e.what(), "bytes 192 to 208 are outside the arena scratch, which has 192");
    }
}

}  // namespace run_planned_test
}  // namespace thunderc
