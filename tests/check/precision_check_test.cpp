// SPDX-License-Identifier: Apache-2.0
// What rounding costs: ops whose error is known by hand, faults that are planted, and steps of whole models in every
// type and by every recipe of FP8.
#include "compiler/check/precision_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "compiler/check/autocast.h"
#include "compiler/check/autocast_fp8.h"
#include "compiler/frontend/frontend.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/structure.h"
#include "compiler/pipeline.h"

namespace thunderc {
namespace precision_check_test {

std::vector<OpError> errors_of(const std::string& text, const std::vector<Members>& arguments) {
    const Module module = parse_module("module \"m\" values\n" + text);
    OpWatch watch(module);
    evaluate(module, module.main(), std::span<const Members>(arguments), watch.options());
    return watch.errors();
}

Members one(const Dims& dims, const std::vector<double>& values, DType dtype = DType::bf16) {
    return {Tensor::floats(dims, values, dtype)};
}

// ---- ops by hand ----

// 1 + 2^-9 lies between two numbers of bf16, nearer to 1: the sum is off by 2^-9, which is also what one rounding
// costs.
TEST(OpErrors, OfOneRoundingIsThatRounding) {
    const std::vector<OpError> errors = errors_of(R"(
func @main(%a: bf16[4], %b: bf16[4]) -> (%y) {
  %y = add(%a, %b) : bf16[4] at "model.sum" "Sum"
})",
                                                  {one({4}, {1, 1, 1, 1}), one({4}, {0x1p-9, 0x1p-9, 0x1p-9, 0x1p-9})});
    ASSERT_EQ(errors.size(), 1U);
    const OpError& e = errors[0];
    EXPECT_EQ(e.op, "add");
    EXPECT_EQ(e.where, "model.sum");
    EXPECT_EQ(e.dtype, DType::bf16);
    EXPECT_EQ(e.calls, 1);
    EXPECT_DOUBLE_EQ(e.error, 0x1p-9 / (1 + 0x1p-9));
    EXPECT_DOUBLE_EQ(e.rounded_once, e.error);
    EXPECT_DOUBLE_EQ(e.ratio(), 1);
    EXPECT_EQ(e.excess(), 0);
    EXPECT_EQ(e.epsilon(), 0x1p-7);  // torch.finfo(torch.bfloat16).eps
}

// What only moves numbers loses none, and is not listed; nor is what counts.
TEST(OpErrors, AreOfWhatComputes) {
    const std::vector<OpError> errors = errors_of(R"(
func @main(%a: bf16[2,2], %i: i64[2]) -> (%y, %j, %z) {
  %y = transpose(%a) {permutation = [1, 0]} : bf16[2,2]
  %j = add(%i, %i) : i64[2]
  %z = neg(%a) : bf16[2,2]
})",
                                                  {one({2, 2}, {1, 2, 3, 4}), {Tensor::ints({1, 2})}});
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].op, "neg");
    EXPECT_EQ(errors[0].error, 0);
}

// Past the largest number of f16.
TEST(OpErrors, AnOverflowIsInfinite) {
    const std::vector<OpError> errors = errors_of("func @main(%a: f16[2]) -> (%y) {\n  %y = mul(%a, %a) : f16[2]\n}",
                                                  {one({2}, {3, 1000}, DType::f16)});
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_TRUE(std::isinf(errors[0].error));
    EXPECT_TRUE(std::isinf(errors[0].ratio()));
}

// -inf as a mask has it, and no number where there is none in double either, are as they are to be.
TEST(OpErrors, WhatIsNoNumberInDoubleIsNoLoss) {
    const std::vector<OpError> errors =
        errors_of("func @main(%a: bf16[3], %b: bf16[3]) -> (%y) {\n  %y = add(%a, %b) : bf16[3]\n}",
                  {one({3}, {-INFINITY, INFINITY, 1}), one({3}, {1, -INFINITY, 1})});
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].error, 0);
}

// A kernel that adds up 64 numbers in f32, and one in bf16, where a sum of 1 no longer sees what is below 2^-9 of it.
TEST(OpErrors, ASumInTheNarrowTypeIsTheWorst) {
    std::string narrow, wide;
    for (int k = 0; k < 64; ++k) {
        const std::string before = k == 0 ? "" : std::to_string(k - 1), now = std::to_string(k);
        for (auto [text, type] : {std::pair{&narrow, "bf16"}, {&wide, "f32"}}) {
            *text += "  %p" + now + " = slice(%x) {axis = 0, begin = " + now + ", end = " + std::to_string(k + 1) +
                     ", step = 1} : bf16[1]\n  %c" + now + " = cast(%p" + now + ") {dtype = " + type + "} : " + type +
                     "[1]\n";
            *text += k == 0 ? "  %s0 = neg(%c0) : " + std::string(type) + "[1]\n"
                            : "  %s" + now + " = sub(%s" + before + ", %c" + now + ") : " + type + "[1]\n";
        }
    }
    const std::string module = R"(
func @main(%x: bf16[64]) -> (%y, %z) {
  %y = fused(%x) {kernel = "sum_in_bf16"} : bf16[1] at "norm" "Norm"
  %z = fused(%x) {kernel = "sum_in_f32"} : bf16[1] at "norm" "Norm"
}

func @sum_in_bf16(%x: bf16[64]) -> (%s63) kind "kernel:pointwise" {
)" + narrow + R"(}

func @sum_in_f32(%x: bf16[64]) -> (%y) kind "kernel:pointwise" {
)" + wide + R"(  %y = cast(%s63) {dtype = bf16} : bf16[1]
}
)";
    std::vector<double> x(64, 0x1p-9);
    x[0] = 1;
    const std::vector<OpError> errors = errors_of(module, {one({64}, x)});
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_EQ(errors[0].op, "sum_in_bf16");
    EXPECT_NEAR(errors[0].error, 63 * 0x1p-9 / (1 + 63 * 0x1p-9), 1e-15);  // all but the first are lost
    EXPECT_EQ(errors[1].op, "sum_in_f32");
    EXPECT_LE(errors[1].ratio(), 1);
}

// The calls of all layers are one row, of an error over all of their elements.
TEST(OpErrors, LayersAreOneRow) {
    const std::vector<OpError> errors =
        errors_of(R"(
func @main(%a: bf16[1], %w: 3 x bf16[1]) -> (%y) {
  %y = repeat(%a, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = false} : bf16[1]
}

func @layer(%a: bf16[1], %w: bf16[1]) -> (%y) {
  %y = add(%a, %w) : bf16[1] at "layers.{0..2}" "Layer"
})",
                  {one({1}, {1}),
                   {Tensor::floats({1}, {0x1p-9}, DType::bf16), Tensor::floats({1}, {1 + 0x1p-7}, DType::bf16),
                    Tensor::floats({1}, {0x1p-9}, DType::bf16)}});
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].where, "layers.{0..2}");
    EXPECT_EQ(errors[0].calls, 3);
    // 1 + 2^-9 is 1; 1 and 1 + 2^-7 lie half way between 2 and 2 + 2^-6, of which 2 is even; 2 + 2^-9 is 2.
    const double off = 0x1p-18 + 0x1p-14 + 0x1p-18;
    const double all = std::pow(1 + 0x1p-9, 2) + std::pow(2 + 0x1p-7, 2) + std::pow(2 + 0x1p-9, 2);
    EXPECT_DOUBLE_EQ(errors[0].error, std::sqrt(off / all));
}

// ---- whole steps ----

struct Steps {
    Module composed, program, yardstick;
    DType low = DType::bf16;
};

Steps steps_of(const std::string& model, CompileOptions options) {
    Steps out;
    out.low = parse_dtype(options.dtype).value();
    const auto compiled = [&](const CompileOptions& o, const std::string& last, const PassOptions& how) {
        std::vector<Pass> passes = pipeline(o);
        while (passes.back().name != last) passes.pop_back();
        std::vector<PassRun> runs;
        return run_passes(import_model(FIXTURES "/" + model, o), passes, runs, how);
    };
    PassOptions keep;
    keep.after = [&](const Module& m, const PassRun& pass) {
        if (pass.name == "simplify_step") out.composed = m;
    };
    out.program = compiled(options, "name_results", keep);
    CompileOptions plain = options;
    plain.roll = false;
    plain.fp8.clear();
    PassOptions without;
    without.disabled = passes_beyond_pytorch();
    out.yardstick = autocast_step(compiled(plain, "forget_statistics", without), out.low, plain.optimizer);
    if (!options.fp8.empty())
        out.yardstick =
            quantise_like_pytorch(std::move(out.yardstick), fp8_modules(out.program), options.fp8_wgrad == "fp8");
    return out;
}

PrecisionReport report_of(const Steps& s, std::int64_t batches = 2) {
    return compare_precision(s.composed, s.program, s.yardstick, s.low, 1, batches);
}

CompileOptions llama(const std::string& dtype, const std::string& fp8 = "") {
    CompileOptions out;
    out.loss = "cross-entropy";
    out.dtype = dtype;
    out.fp8 = fp8;
    return out;
}

// What kernels of this kind have inside becomes bf16: the cast to f32 that a norm has is missing.
void leave_out_f32(Module& program, const std::string& kernel) {
    bool found = false;
    for (Function& f : program.functions) {
        if (!f.name.starts_with(kernel)) continue;
        for (Op& op : f.ops)
            for (const Value v : op.results) {
                DType& dtype = f.info(v).type.dtype;
                if (dtype != DType::f32 || std::find(f.results.begin(), f.results.end(), v) != f.results.end())
                    continue;
                dtype = DType::bf16;
                found = true;
                if (op.name == "cast") op.attributes.set("dtype", DType::bf16);
            }
    }
    ASSERT_TRUE(found) << kernel;
}

TEST(Precision, ANormWithoutItsCastIsTheWorstRow) {
    const Steps good = steps_of("llama2/noopt.logits.onnx", llama("bf16"));
    const PrecisionReport before = report_of(good);
    for (const std::string kernel : {"rms_norm_forward", "rms_norm_backward"}) {
        Steps bad = good;
        leave_out_f32(bad.program, kernel);
        const PrecisionReport after = report_of(bad);
        EXPECT_TRUE(after.ops.front().op.starts_with(kernel)) << after.ops.front().op;
        EXPECT_GT(after.ops.front().ratio(), 1.5) << kernel;
        for (const OpError& e : before.ops) {  // none of them was
            if (!e.op.starts_with(kernel)) continue;
            EXPECT_LT(e.ratio(), 1.1) << e.op << " " << e.where;
        }
    }
}

// What the whole is off by is found whatever the reason: rounding alone would not lead so far.
TEST(Precision, AnotherProgramIsFurtherOffThanPyTorch) {
    Steps s = steps_of("llama2/noopt.logits.onnx", llama("bf16"));
    for (Function& f : s.program.functions)
        for (Op& op : f.ops)
            if (op.name == "sdpa") op.attributes.set("scale", 2 * op.attributes.number("scale"));
    EXPECT_GT(report_of(s).gradients.ratio(), 4);
}

struct Kind {
    const char* dtype;
    const char* fp8;
};

// Every type and every recipe: as near to fp64 as PyTorch's roundings leave it, or nearer, within luck (of two batches
// the loss is two numbers; all gradients are thousands). An op of a narrow type that computes in f32 inside and rounds
// what it stores loses hardly more than one rounding; the codes of delayed scaling are cut off where a tensor has grown
// since the last step.
TEST(Precision, OfEveryTypeIsThatOfPyTorch) {
    for (const auto& [dtype, fp8] : {Kind{"f32", ""},
                                     {"bf16", ""},
                                     {"f16", ""},
                                     {"bf16", "delayed"},
                                     {"bf16", "current"},
                                     {"bf16", "blockwise"},
                                     {"bf16", "mxfp8"}}) {
        const bool wide = std::string(fp8) == "mxfp8";  // blocks of 32 are too wide for the small one
        const Steps s = steps_of(wide ? "fp8/wide/dynamo.logits.onnx" : "llama2/noopt.logits.onnx", llama(dtype, fp8));
        const PrecisionReport r = report_of(s, wide ? 1 : 3);
        const std::string what = std::string(dtype) + " " + fp8;
        EXPECT_GT(r.gradients.error, 0) << what;
        EXPECT_LT(r.gradients.ratio(), 2) << what;
        EXPECT_GT(r.gradients.ratio(), 0.4) << what;
        EXPECT_LT(r.loss.ratio(), 4) << what;
        EXPECT_EQ(r.loss_scale > 1, std::string(dtype) == "f16") << what;
        for (const OpError& e : r.ops) EXPECT_LT(e.ratio(), is_narrow(e.dtype) ? 1.5 : 4) << what << " " << e.op;
        bool quantises = false;
        for (const OpError& e : r.ops) quantises = quantises || is_quantised(e.dtype);
        EXPECT_EQ(quantises, *fp8 != '\0') << what;
    }
}

TEST(Precision, SaysTheSameTwice) {
    const Steps s = steps_of("mlp/dynamo.logits.onnx", llama("bf16"));
    const PrecisionReport a = report_of(s), b = report_of(s);
    ASSERT_EQ(a.ops.size(), b.ops.size());
    for (std::size_t k = 0; k < a.ops.size(); ++k) {
        EXPECT_EQ(a.ops[k].op, b.ops[k].op);
        EXPECT_EQ(a.ops[k].error, b.ops[k].error);
    }
    EXPECT_EQ(a.gradients.error, b.gradients.error);
    EXPECT_EQ(a.loss.yardstick, b.loss.yardstick);
}

}  // namespace precision_check_test
}  // namespace thunderc
