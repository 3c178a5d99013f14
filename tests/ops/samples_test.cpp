// SPDX-License-Identifier: Apache-2.0
// Runs every op's samples through every check. A new op needs no new test here: its samples are the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "compiler/ops/rules.h"
#include "sample_checks.h"

namespace thunderc::testing {
namespace samples_test {

struct Case {
    const OpDef* def;
    const Sample* sample;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.def->name << "." << c.sample->name;
}

std::vector<Case> cases() {
    std::vector<Case> out;
    for (const OpDef* def : all_ops())
        for (const Sample& sample : def->samples) out.push_back({def, &sample});
    return out;
}

class Samples : public ::testing::TestWithParam<Case> {};

TEST_P(Samples, Hold) {
    const auto& [def, sample] = GetParam();
    EXPECT_EQ(shape_problem(*def, *sample), "");
    EXPECT_EQ(text_problem(*def, *sample), "");
    EXPECT_EQ(gradient_problem(*def, *sample), "");
    EXPECT_EQ(decomposition_problem(*def, *sample), "");
    EXPECT_EQ(in_place_problem(*def, *sample), "");
    EXPECT_EQ(commutative_problem(*def, *sample), "");
}

INSTANTIATE_TEST_SUITE_P(Op, Samples, ::testing::ValuesIn(cases()), [](const auto& info) {
    std::string name = info.param.def->name + "_" + info.param.sample->name;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    return name;
});

class EveryOp : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, HasNoEmptyField) {
    EXPECT_EQ(empty_fields(*GetParam()), "");
}

TEST_P(EveryOp, IsSmoothWhereItSaysSo) {
    EXPECT_EQ(smoothness_problem(*GetParam()), "");
}

TEST_P(EveryOp, SaysWhatDoesNotFit) {
    for (const ShapeErrorSample& sample : GetParam()->errors) {
        std::string message = "nothing was wrong";
        try {
            GetParam()->infer({sample.operands, sample.attributes});
        } catch (const ShapeError& error) {
            message = error.what();
        }
        EXPECT_EQ(message, sample.message);
    }
}

INSTANTIATE_TEST_SUITE_P(Op, EveryOp, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->name; });

// ---- the checks can fail --------------------------------------------------------------------------------------------

TEST(SampleChecks, FindAnEmptyField) {
    OpDef def = op_def("mul");
    def.source.clear();
    def.samples.clear();
    EXPECT_EQ(empty_fields(def), "source, samples, a sample with a differentiable operand");
}

TEST(SampleChecks, FindAKinkThatNobodyMentioned) {
    for (const char* name : {"abs", "relu", "max", "reduce_max", "clip"}) {
        OpDef def = op_def(name);
        def.kinks.clear();
        EXPECT_EQ(empty_fields(def), "kinks, or why it is smooth");
        if (def.name == "clip") {  // its bounds are not at 0 or 1
            def.samples = {{"at", {f32({4}), f32_of({}, {0}, false)}, {}}};
        }
        def.smooth = "it is not";
        EXPECT_NE(smoothness_problem(def), "") << name;
    }
}

TEST(SampleChecks, FindAWrongGradient) {
    OpDef def = op_def("mul");
    def.vjp = [](const VjpInput& in) {
        return VjpResult{in.b.mul(in.cotangent(), in.operand(0)), in.b.mul(in.cotangent(), in.operand(0))};
    };
    EXPECT_NE(gradient_problem(def, def.samples[0]), "");
}

TEST(SampleChecks, FindAMissingGradient) {
    OpDef def = op_def("mul");
    def.vjp = [](const VjpInput&) { return VjpResult{Value{}, Value{}}; };
    EXPECT_NE(gradient_problem(def, def.samples[0]), "");
}

TEST(SampleChecks, FindAGradientOfAnotherShape) {
    OpDef def = op_def("add");
    def.vjp = [](const VjpInput& in) { return VjpResult{in.cotangent(), in.cotangent()}; };
    EXPECT_EQ(gradient_problem(def, def.samples[1]),
              "the cotangent of operand 1 of add is f32[3,5], the operand f32[5]");
}

TEST(SampleChecks, FindAWrongShapeRule) {
    OpDef def = op_def("neg");
    def.infer = [](const InferInput&) { return std::vector<Type>{Type::tensor(DType::f32, {5, 3})}; };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type>) {
        return std::vector<Tensor>{x[0]};
    };
    EXPECT_EQ(shape_problem(def, def.samples[0]), "result 0 is f32[3,5], the shape rule says f32[5,3]");
}

TEST(SampleChecks, FindAFalseClaimOfInPlace) {
    OpDef def = op_def("transpose");
    def.in_place = {{0, 0}};
    Sample square{"square", {f32({2, 2})}, {{"permutation", Dims{1, 0}}}};
    EXPECT_NE(in_place_problem(def, square), "");
}

TEST(SampleChecks, FindAFalseClaimOfCommuting) {
    OpDef def = op_def("sub");
    def.commutative = true;
    EXPECT_NE(commutative_problem(def, def.samples[0]), "");
}

TEST(SampleChecks, FindAWrongDecomposition) {
    OpDef def = op_def("softplus");
    EXPECT_EQ(decomposition_problem(def, def.samples[0]), "");
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type>) {
        return std::vector<Tensor>{x[0]};
    };
    EXPECT_NE(decomposition_problem(def, def.samples[0]), "");
}

}  // namespace samples_test
}  // namespace thunderc::testing
