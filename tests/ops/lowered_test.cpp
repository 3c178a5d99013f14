// SPDX-License-Identifier: Apache-2.0
// Every op's samples in a program of bf16, as it is lowered and as kernels, beside the op in fp64. A new op needs no
// new test here: its samples are the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/builder.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/fusion/fuse.h"
#include "compiler/passes/precision/lower_precision.h"
#include "sample_checks.h"

namespace thunderc::testing {
namespace lowered_test {

constexpr double unit = 0x1p-8;  // by so much of itself a bf16 is rounded at most: 8 digits, to the nearest

Module as_kernels(Module m) {
    Report report;
    return fuse(claim(std::move(m), {"reference"}, report), {}, report);
}

struct Case {
    const OpDef* def;
    const Sample* sample;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.def->name << "." << c.sample->name;
}

// What stands in forward_backward, reads floats and takes f32.
bool is_lowered(const OpDef& def, const Sample& sample) {
    static const std::set<std::string> of_the_optimizer = {"global_norm", "clip_factor"};
    if (def.level == OpLevel::structural || def.optimizer || of_the_optimizer.contains(def.name)) return false;
    // Gradients to be added to become operands behind lower_precision.
    if (def.name == "linear_backward_weight" && sample.operands.size() > 2) return false;
    bool floats = false, all = true;
    for (const SampleOperand& operand : sample.operands) {
        if (is_code(operand.type.dtype)) return false;  // made behind lower_precision
        if (operand.absent || !is_float(operand.type.dtype)) continue;
        floats = floats || operand.type.rank() > 0;
        all = all && operand.type.dtype == DType::f32;
    }
    return floats && all;
}

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const OpDef* def : all_ops())
        for (const Sample& sample : def->samples)
            if (is_lowered(*def, sample)) out.push_back({def, &sample});
    return out;
}

class Lowered : public ::testing::TestWithParam<Case> {
  protected:
    // The op alone as a step; its tensors are parameters in bf16, so that nothing is rounded before.
    static Module step() {
        const auto& [def, sample] = GetParam();
        Module m;
        m.name = "m";
        Function& f = m.functions.emplace_back();
        f.name = "forward_backward";
        std::vector<Value> operands;
        for (const SampleOperand& operand : sample->operands) {
            if (operand.absent) {
                operands.emplace_back();
                continue;
            }
            const std::string name = "x" + std::to_string(operands.size());
            operands.push_back(f.add_argument(operand.type, name));
            const bool tensor = is_float(operand.type.dtype) && operand.type.rank() > 0;
            f.argument_info.resize(f.arguments.size());
            f.argument_info.back().kind = tensor ? ArgInfo::Kind::parameter : ArgInfo::Kind::scalar;
            f.argument_info.back().names = {name};
        }
        Builder b(f);
        f.results = b.emit(def->name, operands, sample->attributes);
        for (std::size_t r = 0; r < f.results.size(); ++r) f.result_names.push_back("y" + std::to_string(r));
        m.functions.emplace_back().name = "update";
        return m;
    }
    static std::vector<Members> arguments() {
        const auto& [def, sample] = GetParam();
        std::vector<Tensor> operands = make_operands(def->name, *sample);
        std::vector<Members> out;
        for (std::size_t k = 0; k < operands.size(); ++k) {
            if (sample->operands[k].absent) continue;
            if (operands[k].floating() && operands[k].type.rank() > 0) {
                operands[k].type.dtype = DType::bf16;
                round_to_dtype(operands[k]);
                operands[k].type.dtype = DType::f32;
            }
            out.push_back({operands[k]});
        }
        return out;
    }
    static Module lowered(Module m) {
        Report report;
        return lower_precision(std::move(m), {.compute = DType::bf16, .master = false}, report);
    }
    // `roundings` of bf16, each of a number as large as `scale`, and f32's of sums of some dozen terms.
    static void expect_close(const Module& m, bool kernels) {
        std::vector<Members> given = arguments();
        const Module plain = step();
        const std::vector<Members> expected = evaluate(plain, plain.main(), std::span<const Members>(given));
        for (std::size_t k = 0; k < given.size(); ++k) given[k][0].type = m.main().type(m.main().arguments[k]);
        double scale = 1;
        int roundings = 1;
        const auto observe = [&](const Function&, const Op& op, std::span<const Members> results) {
            for (const Members& members : results)
                for (const Tensor& t : members) {
                    if (t.type.dtype != DType::bf16 || op.name == "constant") continue;
                    ++roundings;
                    for (const double x : t.f)
                        if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
                }
        };
        const std::vector<Members> actual =
            evaluate(m, m.main(), std::span<const Members>(given), {.round_to_dtype = true, .observe = observe});
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t r = 0; r < actual.size(); ++r) {
            const Tensor &a = actual[r].at(0), &e = expected[r].at(0);
            ASSERT_EQ(a.type.dims, e.type.dims);
            for (std::int64_t k = 0; k < e.size(); ++k) {
                const double x = a.at(k), y = e.at(k);
                if (!std::isfinite(y)) {
                    ASSERT_TRUE(std::isnan(y) ? std::isnan(x) : x == y) << "result " << r << " element " << k;
                    continue;
                }
                const double own = a.type.dtype == DType::bf16 ? unit * std::abs(y) : 0;
                const double inner = kernels ? unit * (roundings - 1) * scale : 0;
                ASSERT_LE(std::abs(x - y), own + inner + 2e-6 * scale)
                    << "result " << r << " element " << k << ": " << x << ", exactly " << y;
            }
        }
    }
};

TEST_P(Lowered, IsRoundedOnceWhereItIsStored) {
    expect_close(lowered(step()), false);
}

TEST_P(Lowered, IsThatAsKernelsToo) {
    expect_close(as_kernels(lowered(step())), true);
}

INSTANTIATE_TEST_SUITE_P(Op, Lowered, ::testing::ValuesIn(all_cases()), [](const auto& info) {
    std::string name = info.param.def->name + "_" + info.param.sample->name;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    return name;
});

}  // namespace lowered_test
}  // namespace thunderc::testing
