// SPDX-License-Identifier: Apache-2.0
// The printed form of a planned program is the program: it reads back to the same text, plan and numbers.
#include <filesystem>

#include "compiler/check/check_plan.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "tests/planned/reference_step.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace printed_plan_test {

// Every model among the fixtures that trains; the goldens are programs of these. Under sanitizers each model, and each
// kind of graph.
std::vector<std::string> models() {
    std::vector<std::string> out;
    for (const char* folder : {"llama1", "llama2", "llama2_tied", "llama5", "mlp", "odd"})
        for (const auto& entry : std::filesystem::directory_iterator(fixture(folder)))
            if (entry.path().extension() == ".onnx")
                out.push_back(std::string(folder) + "/" + entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return all_or_covering(out, [](const std::string& model) {
        return Facets{model.substr(0, model.find('/')), model.substr(model.find('/'))};
    });
}

CompileOptions bound(const std::string& model) {
    CompileOptions options;
    if (model.find(".logits.") != std::string::npos) options.loss = "cross-entropy";
    if (model.find("/dyn.") == std::string::npos) return options;
    options.batch = 2;
    if (model.starts_with("llama")) options.seq = 16;
    return options;
}

std::string text_of(const Module& m) {
    PrintOptions whole;
    whole.dense_elements = 1 << 30;
    return to_string(m, whole);
}

class PrintedPlan : public ::testing::TestWithParam<std::string> {};

TEST_P(PrintedPlan, ReadsBack) {
    CompileOptions options = bound(GetParam());
    for (const char* recompute : {"none", "block"})
        for (bool naive : {false, true}) {
            if (short_form && naive != (recompute == std::string_view("block")))
                continue;  // under sanitizers two of four
            options.recompute = recompute;
            options.executors = naive ? std::vector<std::string>{"reference"} : CompileOptions().executors;
            const std::string text = text_of(compiled(GetParam(), options));
            const Module again = parse_module(text);
            EXPECT_EQ(text_of(again), text);
            verify(again);
            EXPECT_EQ(plan_violations(again), std::vector<std::string>());
        }
}

// With a mesh: units, streams, events under flags, slots, what runs ahead.
TEST(PrintedPlanOfRanks, ReadsBack) {
    for (const Mesh mesh : {Mesh{2, 1}, Mesh{1, 2}, Mesh{2, 2}})
        for (const char* reshard : {"never", "forward", "always"}) {
            CompileOptions options;
            options.mesh = mesh;
            options.reshard = reshard;
            const std::string text = text_of(compiled("llama5/dynamo.logits.onnx", options));
            const Module again = parse_module(text);
            EXPECT_EQ(text_of(again), text);
            verify(again);
            EXPECT_EQ(plan_violations(again), std::vector<std::string>());
        }
}

// The same holds for values, so that every pass can be tested on what the one before wrote.
TEST_P(PrintedPlan, ReadsBackAfterEveryPass) {
    const CompileOptions options = bound(GetParam());
    std::vector<PassRun> runs;
    PassOptions passes;
    passes.after = [](const Module& m, const PassRun& run) {
        const std::string text = text_of(m);
        EXPECT_EQ(text_of(parse_module(text)), text) << "after " << run.name;
    };
    run_passes(import_model(fixture(GetParam()), options), pipeline(options), runs, passes);
    EXPECT_EQ(runs.back().name, "check_plan");
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PrintedPlan, ::testing::ValuesIn(models()), [](const auto& info) {
    std::string name = info.param.substr(0, info.param.rfind('.'));
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
});

TEST(PrintedPlanRuns, ToTheSameNumbers) {
    const Module planned = compiled("llama2/dynamo.logits.onnx", {});
    PlannedProgram a(planned), b(parse_module(text_of(planned)));
    const MicroBatch x = batch(read_safetensors(fixture("llama2/batch.safetensors")), 0);
    for (PlannedProgram* program : {&a, &b}) {
        for (const auto& [name, tensor] : read_safetensors(fixture("llama2/params.safetensors")))
            program->set(name, tensor);
        planned_gradients(*program, {x});
    }
    EXPECT_EQ(a.scalar("loss_sum"), b.scalar("loss_sum"));
    for (const std::string& name : a.names()) {
        if (name.starts_with("grad.")) {
            EXPECT_EQ(a.get(name).f, b.get(name).f) << name;
        }
    }
}

}  // namespace printed_plan_test
}  // namespace thunderc
