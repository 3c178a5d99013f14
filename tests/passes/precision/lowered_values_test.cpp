// SPDX-License-Identifier: Apache-2.0
// Gradients of whole steps in bf16, as kernels, beside those of what they were lowered from.
#include <cmath>
#include <map>

#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/fusion/fuse.h"
#include "compiler/passes/precision/lower_precision.h"
#include "compiler/passes/step/compose_step.h"
#include "compiler/passes/step/sink_accumulation.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace lowered_values_test {

using testing::module_of;
using testing::random_arguments;

constexpr double unit = 0x1p-8;  // by so much of itself a bf16 is rounded at most: 8 digits, to the nearest

std::vector<Members> values_of(const Module& m, const std::vector<Members>& arguments, bool rounds) {
    return evaluate(m, m.main(), std::span<const Members>(arguments), {.round_to_dtype = rounds, .observe = {}});
}

Module as_kernels(Module m) {
    Report report;
    return fuse(claim(std::move(m), {"reference"}, report), {}, report);
}

// Gradients of a step in bf16, as kernels, against those in fp64, in the norm. A gradient is behind some `roundings`
// of 2^-8 / sqrt(3), the root mean square of a uniform error; three times that is allowed.
void expect_gradients(const std::string& text, RecomputePolicy recompute, int roundings,
                      const PrecisionOptions& options = {.compute = DType::bf16}) {
    Report report;
    DifferentiateOptions how;
    how.keeping.policy = recompute;
    Module plain = compose_step(differentiate(module_of(text), how, report), {}, report);
    plain = sink_accumulation(std::move(plain), report);
    const Module low = as_kernels(lower_precision(plain, options, report));
    verify(low);
    for (unsigned seed : {1u, 2u, 3u}) {
        std::vector<Members> arguments = random_arguments(plain, seed);
        const Function &f = plain.main(), &g = low.main();
        std::map<std::string, const Members*> by_name;
        for (std::size_t k = 0; k < arguments.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            if (info.kind == ArgInfo::Kind::parameter || info.kind == ArgInfo::Kind::input)
                for (Tensor& t : arguments[k])
                    if (t.floating()) {
                        t.type.dtype = DType::bf16;
                        round_to_dtype(t);
                        t.type.dtype = DType::f32;
                    }
            if (info.names[0] == "dloss") arguments[k][0].set(0, 1);
            if (info.names[0] == "first_micro_step") arguments[k][0].set(0, 1);
            by_name[info.names[0]] = &arguments[k];
        }
        std::vector<Members> given;
        for (std::size_t k = 0; k < g.arguments.size(); ++k) {
            const std::string& name = g.argument_info[k].names[0];
            given.push_back(*by_name.at(name.starts_with("narrow_copy.") ? name.substr(12) : name));
            for (Tensor& t : given.back()) t.type = g.type(g.arguments[k]).member();
        }
        const std::vector<Members> expected = values_of(plain, arguments, false);
        const std::vector<Members> actual = values_of(low, given, true);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t r = 0; r < actual.size(); ++r)
            for (std::size_t m = 0; m < actual[r].size(); ++m) {
                double off = 0, all = 0;
                for (std::int64_t k = 0; k < actual[r][m].size(); ++k) {
                    off += std::pow(actual[r][m].at(k) - expected[r][m].at(k), 2);
                    all += std::pow(expected[r][m].at(k), 2);
                }
                ASSERT_GT(all, 0) << f.result_names[r];
                ASSERT_LE(std::sqrt(off / all), 3 * unit * std::sqrt(roundings / 3.0))
                    << f.result_names[r] << " member " << m << ", seed " << seed;
            }
    }
}

constexpr RecomputePolicy policies[] = {RecomputePolicy::none, RecomputePolicy::selective, RecomputePolicy::block};

// Of a row's two largest elements rounding may make either the maximum, or both; the gradient of what is added to all
// of them is about the same for each. Without a maximum among the elements there would be none, or no number.
TEST(LoweredStep, AMaximumHasAGradientWhereverItsElementsAreComputedAgain) {
    for (const RecomputePolicy policy : policies)
        expect_gradients(R"(
func @main(%x: f32[8,6] input "x" {batched}, %w: 3 x f32[6,6] parameter "w.{0..2}" {frozen}, %c: 3 x f32[1] parameter "c.{0..2}") -> (%loss "loss") {
  %begin = constant() {value = <f32[8,1] splat 0.0>} : f32[8,1]
  %y = repeat(%begin, %w, %c, %x) {body = "layer", carried = 1, n = 3, per_layer = 2, reverse = false} : f32[8,1]
  %loss = reduce_sum(%y) {axes = [0, 1], keep_dims = false} : f32[]
}

func @layer(%y: f32[8,1], %w: f32[6,6], %c: f32[1], %x: f32[8,6]) -> (%after) {
  %h = linear(%x, %w) : f32[8,6]
  %a = add(%h, %c) : f32[8,6]
  %e = sigmoid(%a) : f32[8,6]
  %s = sin(%e) : f32[8,6]
  %m = reduce_max(%s) {axes = [1], keep_dims = true} : f32[8,1]
  %after = add(%y, %m) : f32[8,1]
})",
                         policy, 10);
}

// One number for the forward and the backward pass, the parameter's own.
TEST(LoweredStep, AScaleInF32IsReadByAllAsItIs) {
    for (const RecomputePolicy policy : policies)
        expect_gradients(R"(
func @main(%x: f32[4,8] input "x" {batched}, %scale: f32[8] parameter "scale", %w: f32[8,8] parameter "w", %v: f32[8,8] parameter "v") -> (%loss "loss") {
  %p = linear(%x, %w) : f32[4,8]
  %t = mul(%p, %scale) : f32[4,8]
  %q = linear(%t, %v) : f32[4,8]
  %u = mul(%q, %scale) : f32[4,8]
  %loss = reduce_sum(%u) {axes = [0, 1], keep_dims = false} : f32[]
})",
                         policy, 10);
}

// A difference of numbers beyond bf16's digits.
TEST(LoweredStep, ATargetInF32IsNotRounded) {
    expect_gradients(R"(
func @main(%x: f32[4,8] input "x" {batched}, %target: f32[4,8] input "target" {batched}, %w: f32[8,8] parameter "w") -> (%loss "loss") {
  %p = linear(%x, %w) : f32[4,8]
  %far = constant() {value = <f32[4,8] splat 1000.3>} : f32[4,8]
  %t = add(%target, %far) : f32[4,8]
  %d = sub(%p, %t) : f32[4,8]
  %s = mul(%d, %d) : f32[4,8]
  %loss = reduce_sum(%s) {axes = [0, 1], keep_dims = false} : f32[]
})",
                     RecomputePolicy::none, 4);
}

}  // namespace lowered_values_test
}  // namespace thunderc
