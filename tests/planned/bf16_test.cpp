// SPDX-License-Identifier: Apache-2.0
// Training steps in bf16 as planned bytes, beside the same steps as values: the module as it is before the planner,
// whose kernels and calls round at the same places.
#include <gtest/gtest.h>

#include "tests/planned/reference_step.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace bf16_test {

struct Case {
    std::string graph = "noopt.logits", recompute = "none";
    bool roll = true;
    std::string master = "f32", grad_dtype = "f32", optim_dtype = "f32";

    std::string name() const {
        return graph.substr(0, graph.find('.')) + "_" + recompute + (roll ? "_rolled" : "_unrolled") + "_" + master +
               "_" + grad_dtype + "_" + optim_dtype;
    }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const char* recompute : {"none", "selective", "block"})
        for (const bool roll : {true, false}) out.push_back({.recompute = recompute, .roll = roll});
    out.push_back({.graph = "bf16.logits"});
    out.push_back({.grad_dtype = "bf16"});
    out.push_back({.optim_dtype = "bf16"});
    out.push_back({.master = "none"});
    out.push_back({.recompute = "block", .master = "none", .grad_dtype = "bf16", .optim_dtype = "bf16"});
    // Under sanitizers each value of each option.
    return all_or_covering(out, [](const Case& c) {
        return Facets{c.graph,
                      c.recompute,
                      c.roll ? "rolled" : "unrolled",
                      "master " + c.master,
                      "gradients " + c.grad_dtype,
                      "moments " + c.optim_dtype};
    });
}

class PlannedBf16 : public testing::TestWithParam<Case> {
  protected:
    static CompileOptions options() {
        CompileOptions o;
        o.dtype = "bf16";
        o.recompute = GetParam().recompute;
        o.roll = GetParam().roll;
        o.master = GetParam().master;
        o.grad_dtype = GetParam().grad_dtype;
        o.optim_dtype = GetParam().optim_dtype;
        return o;
    }
    static std::string graph() { return "llama2/" + GetParam().graph + ".onnx"; }
};

double norm(const Tensor& t) {
    double sum = 0;
    for (const double x : t.f) sum += x * x;
    return std::sqrt(sum);
}

double relative_difference(const Tensor& a, const Tensor& b, double floor) {
    if (a.type.dims != b.type.dims) return HUGE_VAL;
    double sum = 0;
    for (std::size_t k = 0; k < a.f.size(); ++k) sum += (a.f[k] - b.f[k]) * (a.f[k] - b.f[k]);
    return std::sqrt(sum) / std::max(norm(b), floor);
}

// A fused kernel's inner numbers are fp64 here and f32 there; in places a number between two of bf16 is rounded to the
// other, by 2^-8 of it. Bytes that were written over would differ by the whole.
constexpr double between_neighbours = 0x1p-8;

TEST_P(PlannedBf16, StepsAsItsValuesDo) {
    PlannedProgram program(compiled(graph(), options()));
    ValuesProgram values(compiled(graph(), options(), "fuse"), {.round_to_dtype = true, .observe = {}});
    for (const auto& [name, tensor] : read_safetensors(fixture("llama2/params.safetensors"))) {
        program.set(name, tensor);
        Tensor as_stored = program.get(name);
        values.set(name, as_stored);
        if (!values.has("narrow_copy." + name)) continue;
        as_stored.type.dtype = DType::bf16;
        round_to_dtype(as_stored);
        values.set("narrow_copy." + name, as_stored);
    }
    clear_states(program);
    make_narrow_copies(program);
    const auto all = read_safetensors(fixture("llama2/batch.safetensors"));
    PlannedOptimizer optimizer;
    optimizer.max_grad_norm = 0.5;
    for (int s = 0; s < 2; ++s) {
        const std::vector<MicroBatch> batches = {batch(all, s), batch(all, s + 1)};
        const PlannedStep a = planned_step(program, batches, optimizer, s);
        const PlannedStep b = values.step(batches, optimizer, s);
        EXPECT_NEAR(a.loss, b.loss, between_neighbours * b.loss);
        EXPECT_NEAR(a.grad_norm, b.grad_norm, between_neighbours * b.grad_norm);
        int narrow_copies = 0;
        for (const std::string& name : program.names()) {
            const Tensor got = program.get(name);
            if (name.starts_with("narrow_copy.")) {
                Tensor rounded = program.get(name.substr(std::string("narrow_copy.").size()));
                rounded.type.dtype = DType::bf16;
                round_to_dtype(rounded);
                EXPECT_EQ(got.f, rounded.f) << name << " after step " << s;
                ++narrow_copies;
            }
            if (!got.floating() || !values.has(name)) continue;
            EXPECT_LE(relative_difference(got, values.values().at(name), 1e-6), between_neighbours)
                << name << " after step " << s;
        }
        EXPECT_EQ(narrow_copies > 0, GetParam().master == "f32");
    }
}

// The same parameters and batches in fp64: what bf16 costs. A gradient is behind some ten roundings of 2^-9 each way.
TEST_P(PlannedBf16, IsBf16AwayFromFp64) {
    PlannedProgram program(compiled(graph(), options()));
    CompileOptions plain;
    plain.dtype = "f32";
    plain.roll = false;
    ValuesProgram exact(compiled("llama2/noopt.logits.onnx", plain, "compose_step"));
    for (const auto& [name, tensor] : read_safetensors(fixture("llama2/params.safetensors"))) {
        program.set(name, tensor);
        exact.set(name, program.get(name));
    }
    clear_states(program);
    make_narrow_copies(program);
    const auto all = read_safetensors(fixture("llama2/batch.safetensors"));
    const std::vector<MicroBatch> batches = {batch(all, 0), batch(all, 1)};
    const PlannedStep a = planned_step(program, batches, {}, 0);
    const PlannedStep b = exact.step(batches, {}, 0);
    EXPECT_EQ(a.loss_weight, b.loss_weight);
    EXPECT_NEAR(a.loss, b.loss, 0x1p-8 * b.loss);
    double furthest = 0;
    for (const std::string& name : program.names()) {
        if (!name.starts_with("grad.")) continue;
        const double d = relative_difference(program.get(name), exact.values().at(name), 1e-3 * b.grad_norm);
        EXPECT_LE(d, 0.05) << name;
        furthest = std::max(furthest, d);
    }
    EXPECT_GT(furthest, 1e-4) << "that is f32";
}

INSTANTIATE_TEST_SUITE_P(All, PlannedBf16, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace bf16_test
}  // namespace thunderc
