// The optimizers' references, and what they decompose into, against PyTorch's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

struct Recorded {
    const char* name;
    std::vector<double> w, b;   // after three steps
    std::vector<double> norms;  // of the gradients, before clipping
};

// python tests/training/optimizer_table.py, with torch 2.13
const Recorded table[] = {
    {"adamw matrices",
     {0.539697041949085, -0.9996254974546691, 0.2474264225324095, 2.0375520029080283, -0.0448913100701455,
      -0.7292886838158303},
     {0.9902717805757011, -1.9571955616344956},
     {2.165063509461097, 2.091650066335189, 2.3452078799117144}},
    {"adamw all, clipped",
     {0.5403778707459457, -0.9994549899649569, 0.24707511309832783, 2.037938133999909, -0.04554298139054607,
      -0.7293232133441951},
     {0.9834854115705445, -1.9446521092540543},
     {2.165063509461097, 2.091650066335189, 2.3452078799117144}},
    {"sgd momentum",
     {0.6192736875, -0.9295458125, 0.16678028124999997, 2.1472038125, -0.148213125, -0.73546428125},
     {0.963507375, -1.8109009999999999},
     {2.165063509461097, 2.091650066335189, 2.3452078799117144}},
    {"sgd plain, clipped",
     {0.5197622359992572, -0.950209474058293, 0.19702868705674056, 2.022862825230096, -0.037759603889070806,
      -0.7625579112124206},
     {0.998291824572607, -1.9429249515007427},
     {2.165063509461097, 2.091650066335189, 2.3452078799117144}},
};

// Both are fp64 with the same operations in about the same order: a few roundings of 1e-16 in each of three steps.
constexpr double tolerance = 1e-14;

Tensor gradient(int step, const Dims& dims, int salt) {
    Tensor t(Type::tensor(DType::f32, dims));
    for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, static_cast<double>((7 * k + 3 * step + salt) % 11 - 5) / 4);
    return t;
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
    for (const Recorded& expected : table) {
        SCOPED_TRACE(expected.name);
        const std::string name = expected.name;
        const bool adamw = name.starts_with("adamw"), clipped = name.ends_with("clipped"),
                   momentum = name == "sgd momentum";
        const Tensor decay_all = Tensor::scalar(DType::boolean, name == "adamw matrices" ? 0 : 1);
        std::vector<Tensor> p = {Tensor::floats({2, 3}, {0.5, -1.0, 0.25, 2.0, 0.0, -0.75}),
                                 Tensor::floats({2}, {1, -2})};
        const std::vector<Tensor> zeros = {Tensor(p[0].type), Tensor(p[1].type)};
        std::vector<Tensor> m = zeros, v = zeros;
        for (int step = 0; step < 3; ++step) {
            const std::vector<Tensor> g = {gradient(step, {2, 3}, 1), gradient(step, {2}, 5)};
            const Tensor norm = run("global_norm", g, {}, decomposed).at(0);
            EXPECT_NEAR(norm.at(0), expected.norms[static_cast<std::size_t>(step)], tolerance);
            const Tensor clip = run("clip_factor", {norm, scalar(clipped ? 1.5 : 0)}, {}, decomposed).at(0);
            std::vector<Tensor> operands = {p[0], p[1], g[0], g[1]};
            Attributes attributes;
            if (adamw) {
                operands.insert(operands.end(), {m[0], m[1], v[0], v[1], scalar(0.02), scalar(0.9), scalar(0.95),
                                                 scalar(1e-3), scalar(0.1), scalar(1 - std::pow(0.9, step + 1)),
                                                 scalar(std::sqrt(1 - std::pow(0.95, step + 1)))});
            } else {
                attributes.set("momentum", momentum);
                if (momentum) operands.insert(operands.end(), {m[0], m[1]});
                operands.push_back(scalar(0.05));
                if (momentum) operands.push_back(scalar(0.9));
                operands.push_back(scalar(0.1));
            }
            operands.push_back(clip);
            operands.push_back(decay_all);
            const std::vector<Tensor> out = run(adamw ? "adamw" : "sgd", operands, attributes, decomposed);
            p = {out[0], out[1]};
            if (adamw || momentum) m = {out[2], out[3]};
            if (adamw) v = {out[4], out[5]};
        }
        for (std::size_t k = 0; k < 6; ++k) EXPECT_NEAR(p[0].f[k], expected.w[k], tolerance) << "w " << k;
        for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(p[1].f[k], expected.b[k], tolerance) << "b " << k;
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, Optimizer, testing::Values(false, true),
                         [](const auto& form) { return form.param ? "decomposed" : "whole"; });

}  // namespace
}  // namespace thunderc
