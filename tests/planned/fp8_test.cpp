// SPDX-License-Identifier: Apache-2.0
// Training steps in FP8 as planned bytes: weights that are quantised once a step and kept as codes give what those give
// that are quantised wherever they are read, in each recipe.
#include <gtest/gtest.h>

#include "compiler/check/check_plan.h"
#include "compiler/ops/fp8_once.h"
#include "tests/planned/reference_step.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace fp8_test {

struct Case {
    std::string fp8, recompute = "none";
    std::string name() const { return fp8 + "_" + recompute; }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

class PlannedFp8 : public testing::TestWithParam<Case> {
  protected:
    static Module compiled_with(const std::string& weights) {
        CompileOptions o;
        o.dtype = "bf16";
        o.fp8 = GetParam().fp8;
        o.fp8_weights = weights;
        o.recompute = GetParam().recompute;
        return compiled("fp8/wide/dynamo.logits.onnx", o);
    }
};

// Numbers between -0.25 and 0.25, the same for each program.
Tensor numbers_of(const std::string& name, const Type& type) {
    Tensor t(type);
    std::uint32_t state = 2166136261U;
    for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 16777619U;
    for (std::int64_t k = 0; k < t.size(); ++k) {
        state = state * 1664525U + 1013904223U;
        t.set(k, static_cast<double>(state >> 9) / (1 << 24) - 0.25);
    }
    return t;
}

// What a run begins with. Codes are left as they are, which is poison: who reads them before a first micro-step has
// made them, reads no numbers.
void begin(PlannedProgram& program) {
    clear_states(program);
    const Function& f = program.module().main();
    for (const ArgInfo& info : f.argument_info)
        for (const std::string& name : info.names)
            if (info.kind == ArgInfo::Kind::parameter) program.set(name, numbers_of(name, program.type(name)));
    make_narrow_copies(program);
    for (const std::string& name : program.names()) {
        Tensor t(program.type(name));
        const bool scale = name.ends_with("_scale");
        if (!name.starts_with("fp8.") || !(scale || name.ends_with("_amax") || name.ends_with("_history"))) continue;
        for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, scale ? 1 : 0);
        program.set(name, t);
    }
}

std::int64_t count(const Module& m, bool once) {
    std::int64_t out = 0;
    for (const Function& f : m.functions)
        for (const Op& op : f.ops)
            if (op.name.starts_with("fp8_quantise")) out += is_once_a_step(op) == once ? 1 : 0;
    return out;
}

// A step of two micro-batches and one of one, to the bit: the second micro-step and the backward passes read what the
// first one's forward pass has left, and a new step makes codes of what the update has left.
TEST_P(PlannedFp8, WeightsKeptAsCodesAreThoseOfEachTime) {
    const Module once = compiled_with("once"), each = compiled_with("each");
    EXPECT_EQ(plan_violations(once), std::vector<std::string>());
    EXPECT_EQ(count(each, true), 0);
    EXPECT_GT(count(once, true), 0);
    EXPECT_LT(count(once, false), count(each, false));
    PlannedProgram kept(once), made(each);
    begin(kept);
    begin(made);
    const auto all = read_safetensors(fixture("fp8/wide/feed.safetensors"));
    for (int s = 0; s < 2; ++s) {
        std::vector<MicroBatch> batches = {batch(all, 2 * s)};
        if (s == 0) batches.push_back(batch(all, 1));
        PlannedOptimizer optimizer;
        optimizer.learning_rate = 0.01;  // so far that codes are others in each step
        const PlannedStep a = planned_step(kept, batches, optimizer, s), b = planned_step(made, batches, optimizer, s);
        EXPECT_EQ(a.loss, b.loss) << "step " << s;
        EXPECT_EQ(a.grad_norm, b.grad_norm) << "step " << s;
        for (const std::string& name : made.names()) {
            if (!made.get(name).floating()) continue;
            EXPECT_EQ(kept.get(name).f, made.get(name).f) << name << ", step " << s;
        }
    }
}

// In CI of recipes with a scale for a tensor one, where the backward pass computes layers again, and one of blocks.
std::vector<Case> all_cases() {
    std::vector<Case> out = {{"delayed", "block"}, {"blockwise"}};
    for (const char* recipe : {"delayed", "current", "mxfp8"})
        if (full_form) out.push_back({recipe});
    return out;
}

INSTANTIATE_TEST_SUITE_P(All, PlannedFp8, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace fp8_test
}  // namespace thunderc
