// SPDX-License-Identifier: Apache-2.0
// The optimizers' references, and what they decompose into, against PyTorch's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "runtime-lib/optim/state_layout.h"
#include "tests/runtime/kernels/trajectories.h"

namespace thunderc {
namespace {

using thunder::Trajectory;

// Both are fp64 with the same operations in about the same order: a few roundings of 1e-16 in each of a hundred steps.
constexpr double tolerance = 1e-13;

// The matrix and the vector, one behind the other.
std::vector<Tensor> both(const std::vector<double>& elements) {
    const auto behind = elements.begin() + thunder::matrix_elements;
    return {Tensor::floats({3, 4}, {elements.begin(), behind}),
            Tensor::floats({thunder::vector_elements}, {behind, elements.end()})};
}

// Ops are run alone, or as what they decompose into.
std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& operands, const Attributes& attributes,
                        bool decomposed) {
    Module module;
    module.functions.resize(1);
    Function& f = module.main();
    f.name = "main";
    std::vector<Value> arguments;
    for (const Tensor& t : operands) {
        arguments.push_back(f.add_value(t.type, "x"));
        f.arguments.push_back(arguments.back());
    }
    Builder b(f);
    f.results = b.emit(op, arguments, attributes);
    if (decomposed) {
        const Op whole = f.ops.back();
        f.ops.clear();
        f.results = op_def(op).decompose(b, whole);
    }
    return evaluate(module, f, std::span<const Tensor>(operands));
}

class Optimizer : public testing::TestWithParam<bool> {};

TEST_P(Optimizer, GivesTorchsNumbers) {
    const bool decomposed = GetParam();
    auto scalar = [](double x) { return Tensor::scalar(DType::f32, x); };
    for (const Trajectory& t : thunder::trajectories) {
        SCOPED_TRACE(t.name);
        std::vector<Tensor> p = both(thunder::trajectory_start());
        std::vector<Tensor> states;  // both tensors of one, then those of the next
        const thunder::RuleInfo& rule = *thunder::find_rule(t.rule);
        for (std::size_t k = 0; k < rule.states.size(); ++k)
            for (const Tensor& of : p)
                states.emplace_back(Type::tensor(
                    DType::f32,
                    thunder::dims_of_state(rule.shape_of_state(k, rule.stepped(of.type.dims.size())), of.type.dims)));
        thunder::expect_trajectory(t, tolerance, [&](int step, const std::vector<double>& gradient) {
            const std::vector<Tensor> g = both(gradient);
            const Tensor norm = run("global_norm", g, {}, decomposed).at(0);
            EXPECT_NEAR(norm.at(0), thunder::norm_of(gradient), tolerance);
            std::vector<Tensor> operands = {p[0], p[1], g[0], g[1]};
            operands.insert(operands.end(), states.begin(), states.end());
            for (const double number : t.numbers(step)) operands.push_back(scalar(number));
            operands.push_back(run("clip_factor", {norm, scalar(t.max_grad_norm)}, {}, decomposed).at(0));
            operands.push_back(Tensor::scalar(DType::boolean, t.decay_all ? 1 : 0));
            const std::vector<Tensor> out = run(t.rule, operands, {}, decomposed);
            p = {out[0], out[1]};
            states.assign(out.begin() + 2, out.begin() + 2 + static_cast<std::ptrdiff_t>(states.size()));
            std::vector<double> after = p[0].f;
            after.insert(after.end(), p[1].f.begin(), p[1].f.end());
            return after;
        });
    }
    thunder::expect_every_rule(thunder::trajectories);
}

INSTANTIATE_TEST_SUITE_P(Forms, Optimizer, testing::Values(false, true),
                         [](const auto& form) { return form.param ? "decomposed" : "whole"; });

}  // namespace
}  // namespace thunderc
