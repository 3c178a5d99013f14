// SPDX-License-Identifier: Apache-2.0
// What the compiler says of a batch's rows (OpDef::rows and the rules of batch_shares), of every op of the table,
// judged by evaluation: each sample is computed for two halves of a batch and for the whole, whichever operands have
// the rows and along whichever axis.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "compiler/analysis/batch_share.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ops/rules.h"
#include "sample_checks.h"

namespace thunderc::testing {
namespace rows_test {

using Kind = BatchShare::Kind;

constexpr int same = -1;        // in the place of an axis: the operand is the same for both halves
using Axes = std::vector<int>;  // for each operand

Tensor random_operand(const SampleOperand& operand, std::mt19937_64& engine, std::size_t turn) {
    Tensor out(operand.type);
    std::uniform_real_distribution<double> uniform(operand.low, operand.high);
    for (std::int64_t k = 0; k < out.size(); ++k) out.set(k, uniform(engine));
    // Indices and flags are turned, by whole rows, so that they stay what the op takes.
    const std::size_t count = operand.values.size();
    const auto step = static_cast<std::size_t>(operand.type.dims.size() > 1 ? operand.type.dims.back() : 1);
    for (std::size_t k = 0; k < count; ++k)
        out.set(static_cast<std::int64_t>(k), operand.values[(k + turn * step) % count]);
    return out;
}

Tensor joined(const Tensor& a, const Tensor& b, std::size_t axis) {
    Dims dims = a.type.dims;
    std::int64_t inner = dims[axis];
    for (std::size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
    dims[axis] *= 2;
    Tensor out(Type::tensor(a.type.dtype, dims));
    for (std::int64_t k = 0; k < a.size(); ++k) {
        const std::int64_t to = k / inner * 2 * inner + k % inner;
        out.set(to, a.at(k));
        out.set(to + inner, b.at(k));
    }
    return out;
}

bool close(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    // Sums of a few numbers in fp64, in another order.
    return a == b || std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

bool equal(const Tensor& a, const Tensor& b) {
    if (a.type != b.type) return false;
    for (std::int64_t k = 0; k < a.size(); ++k)
        if (!close(a.at(k), b.at(k))) return false;
    return true;
}

bool equal(const Tensor& a, const std::function<double(std::int64_t)>& expected) {
    for (std::int64_t k = 0; k < a.size(); ++k)
        if (!close(a.at(k), expected(k))) return false;
    return true;
}

// The op on arguments whose rows stand first, as those of a program's inputs do, and are put where `axes` says.
Module module_of(const OpDef& def, const Sample& sample, const Attributes& attributes, const Axes& axes, int times) {
    Module module;
    Function& f = module.functions.emplace_back();
    f.name = "main";
    std::vector<Value> operands;
    std::vector<std::pair<std::size_t, Dims>> turned;
    for (std::size_t k = 0; k < sample.operands.size(); ++k) {
        const SampleOperand& operand = sample.operands[k];
        if (operand.absent) {
            operands.emplace_back();
            continue;
        }
        Type type = operand.type;
        if (axes[k] != same) {
            type.dims[static_cast<std::size_t>(axes[k])] *= times;
            std::rotate(type.dims.begin(), type.dims.begin() + axes[k], type.dims.begin() + axes[k] + 1);
            if (axes[k] > 0) {
                Dims permutation;
                for (int d = 0; d < static_cast<int>(type.dims.size()); ++d)
                    permutation.push_back(d < axes[k] ? d + 1 : d == axes[k] ? 0 : d);
                turned.emplace_back(k, permutation);
            }
        }
        operands.push_back(f.add_argument(type, "x" + std::to_string(k)));
        f.argument_info.back().kind = ArgInfo::Kind::input;
        f.argument_info.back().batched = axes[k] != same;
    }
    Builder b(f);
    for (const auto& [k, permutation] : turned)
        operands[k] = b.op("transpose", {operands[k]}, {{"permutation", permutation}});
    f.results = b.emit(def.name, operands, attributes);
    return module;
}

// Rows first, as the function's arguments have them.
Tensor rows_first(const Tensor& t, int axis) {
    if (axis <= 0) return t;
    Dims dims = t.type.dims;
    std::rotate(dims.begin(), dims.begin() + axis, dims.begin() + axis + 1);
    std::int64_t inner = 1;
    for (std::size_t d = static_cast<std::size_t>(axis) + 1; d < t.type.dims.size(); ++d) inner *= t.type.dims[d];
    const std::int64_t extent = dims[0];
    Tensor out(Type::tensor(t.type.dtype, dims));
    for (std::int64_t k = 0; k < t.size(); ++k) {
        const std::int64_t outer = k / inner / extent, row = k / inner % extent;
        out.set(row * (t.size() / extent) + outer * inner + k % inner, t.at(k));
    }
    return out;
}

// Which operands may have the rows, and along which axes: each alone, and those that have them along one axis, counted
// from the first or from the last.
std::vector<Axes> assignments(const Sample& sample) {
    std::vector<Axes> out;
    const std::size_t count = std::min<std::size_t>(sample.operands.size(), 8);
    for (std::size_t subset = 1; subset < (std::size_t{1} << count); ++subset) {
        for (int axis = -4; axis < 4; ++axis) {
            Axes axes(sample.operands.size(), same);
            bool fits = true;
            std::int64_t extent = 0;
            for (std::size_t k = 0; k < count && fits; ++k) {
                if ((subset >> k & 1) == 0) continue;
                const SampleOperand& operand = sample.operands[k];
                const int rank = static_cast<int>(operand.type.dims.size());
                axes[k] = axis < 0 ? rank + axis : axis;
                fits = !operand.absent && axes[k] >= 0 && axes[k] < rank;
                if (!fits) break;
                const std::int64_t own = operand.type.dims[static_cast<std::size_t>(axes[k])];
                fits = own > 1 && (extent == 0 || own == extent);  // one row alone would be repeated as none is
                extent = own;
            }
            if (fits && std::find(out.begin(), out.end(), axes) == out.end()) out.push_back(axes);
        }
    }
    return out;
}

struct Findings {
    std::string wrong;             // what is said and is not so
    int judged = 0;                // how often something was said
    int split = 0, not_split = 0;  // rows first in the first operand: whether each result has its rows first, alone
    int said = 0;                  // … and whether that is known
};

void judge(const OpDef& def, const Sample& sample, const Axes& axes, Findings& out) {
    std::mt19937_64 engine(7);
    std::vector<Tensor> first, second, whole;
    for (std::size_t k = 0; k < sample.operands.size(); ++k) {
        const SampleOperand& operand = sample.operands[k];
        if (operand.absent) continue;
        const Tensor a = random_operand(operand, engine, 0);
        const Tensor b = axes[k] == same ? a : random_operand(operand, engine, 1);
        const Tensor both = axes[k] == same ? a : joined(a, b, static_cast<std::size_t>(axes[k]));
        first.push_back(rows_first(a, axes[k]));
        second.push_back(rows_first(b, axes[k]));
        whole.push_back(rows_first(both, axes[k]));
    }
    // Shapes among the attributes grow with the batch, along one axis.
    std::vector<Attributes> attributes = {sample.attributes};
    if (sample.attributes.find("dims") != nullptr)
        for (std::size_t d = 0; d < sample.attributes.integers("dims").size(); ++d) {
            Dims dims = sample.attributes.integers("dims");
            dims[d] *= 2;
            attributes.push_back(sample.attributes);
            attributes.back().set("dims", dims);
        }
    const Module half = module_of(def, sample, sample.attributes, axes, 1);
    const std::vector<BatchShare> shares = batch_shares(half.main());
    const std::vector<Tensor> a = evaluate(half, half.main(), std::span<const Tensor>(first));
    const std::vector<Tensor> b = evaluate(half, half.main(), std::span<const Tensor>(second));
    for (const Attributes& of_whole : attributes) {
        Module module;
        std::vector<Tensor> y;
        try {
            module = module_of(def, sample, of_whole, axes, 2);
            y = evaluate(module, module.main(), std::span<const Tensor>(whole));
        } catch (const std::exception&) {
            continue;  // there is no such batch: another operand has a size that does not grow
        }
        bool split = true, said = true;
        for (std::size_t r = 0; r < y.size(); ++r) {
            const BatchShare& share = shares[half.main().results[r].index];
            const auto wrong = [&](const std::string& what) {
                out.wrong += sample.name + ", rows along";
                for (int axis : axes) out.wrong += axis == same ? " _" : " " + std::to_string(axis);
                out.wrong += ": result " + std::to_string(r) + " is not " + what + "\n";
            };
            const Dims& dims = a[r].type.dims;
            const bool first_of_all = !dims.empty() && equal(y[r], joined(a[r], b[r], 0));
            split = split && first_of_all;
            said = said && share.kind == Kind::rows && !share.mixed && share.axis == 0;
            if (share.mixed || share.kind == Kind::other) continue;
            ++out.judged;
            if (share.kind == Kind::rows) {
                // With a shape that grew along another axis it is another computation.
                Dims expected = dims;
                if (share.axis < dims.size()) expected[share.axis] *= 2;
                if (y[r].type.dims != expected && &of_whole != &attributes.back()) continue;
                if (attributes.size() > 1 && y[r].type.dims != expected) continue;
                if (share.axis >= dims.size() || !equal(y[r], joined(a[r], b[r], share.axis)))
                    wrong("its rows along " + std::to_string(share.axis));
            }
            if (share.kind == Kind::same && !(equal(y[r], a[r]) && equal(y[r], b[r]))) wrong("the same");
            if (share.kind == Kind::sum && !equal(y[r], [&](auto k) { return a[r].at(k) + b[r].at(k); }))
                wrong("a sum");
            if (share.kind == Kind::mean && !equal(y[r], [&](auto k) { return (a[r].at(k) + b[r].at(k)) / 2; }))
                wrong("a mean");
        }
        if (axes.empty() || axes[0] != 0) continue;
        (split ? out.split : out.not_split) += 1;
        out.said += split && said ? 1 : 0;
    }
}

Findings judge(const OpDef& def) {
    Findings out;
    for (const Sample& sample : def.samples)
        for (const Axes& axes : assignments(sample)) judge(def, sample, axes, out);
    return out;
}

class Rows : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Rows, AreWhatIsSaidOfThem) {
    // What says nothing of values, and what steps parameters, which have no batch.
    if (GetParam()->level == OpLevel::structural || GetParam()->optimizer) return;
    const Findings found = judge(*GetParam());
    EXPECT_EQ(found.wrong, "");
    if (found.split == 0 || found.not_split > 0) return;
    EXPECT_GT(found.said, 0) << "each row of " << GetParam()->name
                             << " is made of its own in all samples: OpDef::rows is to say so";
}

INSTANTIATE_TEST_SUITE_P(Op, Rows, ::testing::ValuesIn(all_ops()), [](const auto& info) { return info.param->name; });

// The test sees what it is about: ops that keep rows, add them up and average them.
TEST(RowsOfSamples, AreJudged) {
    for (const char* name : {"mul", "binary_cross_entropy", "softplus", "linear", "sdpa", "softmax", "reduce_sum",
                             "reduce_mean", "matmul", "broadcast_to", "reshape", "cross_entropy"})
        EXPECT_GT(judge(op_def(name)).judged, 0) << name;
}

}  // namespace rows_test
}  // namespace thunderc::testing
