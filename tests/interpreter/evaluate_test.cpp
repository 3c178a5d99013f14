// SPDX-License-Identifier: Apache-2.0
// The fp64 evaluator and lazy constants, against numbers worked out by hand.
#include "compiler/interpreter/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

Tensor floats(Dims dims, std::vector<double> values) {
    return Tensor::floats(dims, std::move(values));
}

// x' = 2 x + w[i] + shared, and the x before it is collected.
constexpr const char* loop = R"(module "loop" values

func @main(%x: f32[2], %w: 3 x f32[2], %s: f32[]) -> (%last, %before) {
  %last, %before = repeat(%x, %w, %s) {body = "layer", carried = 1, n = 3, per_layer = 1REVERSE} : f32[2], 3 x f32[2]
}

func @layer(%x: f32[2], %w: f32[2], %s: f32[]) -> (%y, %x) {
  %double = add(%x, %x) : f32[2]
  %with_weight = add(%double, %w) : f32[2]
  %y = add(%with_weight, %s) : f32[2]
}
)";

Module loop_module(const std::string& reverse) {
    std::string text = loop;
    text.replace(text.find("REVERSE"), 7, reverse);
    Module module = parse_module(text);
    verify(module);
    return module;
}

std::vector<Members> run_loop(const Module& module) {
    std::vector<Members> arguments = {{floats({2}, {1, -1})},
                                      {floats({2}, {1, 0}), floats({2}, {10, 0}), floats({2}, {100, 0})},
                                      {floats({}, {0.5})}};
    return evaluate(module, module.main(), std::span<const Members>(arguments));
}

TEST(Evaluate, RepeatCarriesAndCollects) {
    std::vector<Members> out = run_loop(loop_module(""));
    // 1 → 2 + 1 + 0.5 = 3.5 → 7 + 10 + 0.5 = 17.5 → 35 + 100 + 0.5 = 135.5;  -1 → -1.5 → -2.5 → -4.5
    EXPECT_EQ(out[0][0].f, (std::vector<double>{135.5, -4.5}));
    ASSERT_EQ(out[1].size(), 3U);
    EXPECT_EQ(out[1][0].f, (std::vector<double>{1, -1}));
    EXPECT_EQ(out[1][1].f, (std::vector<double>{3.5, -1.5}));
    EXPECT_EQ(out[1][2].f, (std::vector<double>{17.5, -2.5}));
}

TEST(Evaluate, ReverseRepeatStartsAtTheLastLayerAndCollectsByLayer) {
    std::vector<Members> out = run_loop(loop_module(", reverse = true"));
    // 1 → 2 + 100 + 0.5 = 102.5 → 205 + 10 + 0.5 = 215.5 → 431 + 1 + 0.5 = 432.5
    EXPECT_EQ(out[0][0].f, (std::vector<double>{432.5, -4.5}));
    EXPECT_EQ(out[1][2].f, (std::vector<double>{1, -1}));
    EXPECT_EQ(out[1][1].f, (std::vector<double>{102.5, -1.5}));
    EXPECT_EQ(out[1][0].f, (std::vector<double>{215.5, -2.5}));
}

TEST(Evaluate, CallsKernelsFamiliesAndMembers) {
    Module module = parse_module(R"(module "calls" values

func @main(%a: f32[2], %b: f32[2]) -> (%second, %both) {
  %sum = call(%a, %b) {callee = "twice"} : f32[2]
  %both = family(%a, %sum) : 2 x f32[2]
  %second = member(%both) {index = 1} : f32[2]
}

func @twice(%a: f32[2], %b: f32[2]) -> (%s) {
  %t = fused(%a, %b) {kernel = "add_kernel"} : f32[2]
  %s = add(%t, %t) : f32[2]
}

func @add_kernel(%a: f32[2], %b: f32[2]) -> (%s) kind "kernel:pointwise" {
  %s = add(%a, %b) : f32[2]
}
)");
    std::vector<Members> arguments = {{floats({2}, {1, 2})}, {floats({2}, {10, 20})}};
    std::vector<Members> out = evaluate(module, module.main(), std::span<const Members>(arguments));
    EXPECT_EQ(out[0][0].f, (std::vector<double>{22, 44}));
    ASSERT_EQ(out[1].size(), 2U);
    EXPECT_EQ(out[1][0].f, (std::vector<double>{1, 2}));
    EXPECT_EQ(out[1][1].f, (std::vector<double>{22, 44}));
}

Module one_op(const std::string& type, const std::string& op) {
    Module module = parse_module("module \"one\" values\n\nfunc @main(%x: " + type + ") -> (%y) {\n  %y = " + op +
                                 " : " + type + "\n}\n");
    verify(module);
    return module;
}

TEST(Evaluate, RoundsEveryResultToItsTypeOnlyWhereAsked) {
    Module module = one_op("f32[1]", "mul(%x, %x)");
    double x = 1 + 0x1p-23;  // a float, whose square is none
    std::vector<Tensor> arguments = {floats({1}, {x})};
    EXPECT_EQ(evaluate(module, module.main(), std::span<const Tensor>(arguments))[0].f[0], x * x);
    EvaluateOptions options;
    options.round_to_dtype = true;
    EXPECT_EQ(evaluate(module, module.main(), std::span<const Tensor>(arguments), options)[0].f[0], 1 + 0x1p-22);
}

TEST(Evaluate, RoundsToBfloat16HalvesToEven) {
    Tensor t(Type::tensor(DType::bf16, {7}));
    // 8 bits of significand: between 1 and 2 they are 1/128 apart.
    t.f = {1 + 1 / 256.0, 1 + 3 / 256.0, 1 + 1 / 256.0 + 1e-9, -3.0, 3.4e38, 5e-41, INFINITY};
    round_to_dtype(t);
    EXPECT_EQ(t.f[0], 1.0);
    EXPECT_EQ(t.f[1], 1 + 2 / 128.0);
    EXPECT_EQ(t.f[2], 1 + 1 / 128.0);
    EXPECT_EQ(t.f[3], -3.0);
    EXPECT_EQ(t.f[4], INFINITY);  // the largest is 3.39e38
    EXPECT_EQ(t.f[5], 0x1p-133);  // the smallest is 2^-133 = 9.2e-41
    EXPECT_EQ(t.f[6], INFINITY);
}

TEST(Evaluate, SeesEveryOpWhereAsked) {
    Module module = loop_module("");
    std::string seen;
    EvaluateOptions options;
    options.observe = [&](const Function& f, const Op& op, std::span<const Members> results) {
        seen += f.name + "." + op.name + "/" + std::to_string(results.size()) + " ";
    };
    std::vector<Members> arguments = {{floats({2}, {0, 0})}, Members(3, floats({2}, {0, 0})), {floats({}, {0})}};
    evaluate(module, module.main(), std::span<const Members>(arguments), options);
    EXPECT_EQ(seen,
              "layer.add/1 layer.add/1 layer.add/1 layer.add/1 layer.add/1 layer.add/1 layer.add/1 layer.add/1 "
              "layer.add/1 main.repeat/2 ");
}

// Also what the op takes for itself, since nothing else reads it; of an operand that is absent there are no members.
TEST(Evaluate, ShowsOperandsBeforeTheOpRuns) {
    Module module = parse_module(R"(module "m" values
func @main(%x: f32[2], %w: f32[3,2]) -> (%z) {
  %y = neg(%x) : f32[2]
  %z = linear(%y, %w, _, _) : f32[3]
})");
    std::vector<std::vector<Members>> seen;
    EvaluateOptions options;
    options.before = [&](const Function&, const Op&, std::span<const Members> operands) {
        seen.emplace_back(operands.begin(), operands.end());
    };
    const std::vector<Members> arguments = {{floats({2}, {1, 2})}, {floats({3, 2}, {1, 0, 0, 1, 1, 1})}};
    evaluate(module, module.main(), std::span<const Members>(arguments), options);
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0][0], arguments[0]);
    ASSERT_EQ(seen[1].size(), 4U);
    EXPECT_EQ(seen[1][0], Members{floats({2}, {-1, -2})});
    EXPECT_EQ(seen[1][1], arguments[1]);
    EXPECT_TRUE(seen[1][2].empty() && seen[1][3].empty());
}

TEST(Evaluate, RefusesArgumentsOfAnotherType) {
    Module module = one_op("f32[2]", "neg(%x)");
    std::vector<Tensor> arguments = {floats({3}, {1, 2, 3})};
    try {
        evaluate(module, module.main(), std::span<const Tensor>(arguments));
        FAIL() << "nothing was thrown";
    } catch (const InternalError& error) {
        EXPECT_STREQ(error.what(), "a value of another type is given for %x of @main, which is f32[2]; it is f32[3]");
    }
}

TEST(Evaluate, IntegersAreExact) {
    Module module = one_op("i64[2]", "mul(%x, %x)");
    Tensor x = Tensor::ints({3037000499, -3037000499});
    std::vector<Tensor> arguments = {x};
    EXPECT_EQ(evaluate(module, module.main(), std::span<const Tensor>(arguments))[0].i,
              (std::vector<std::int64_t>{9223372030926249001, 9223372030926249001}));
}

// The operand of an op is moved where it dies; one that is used twice, or is an argument, stays whole.
TEST(Evaluate, LeavesArgumentsAndLiveValuesAlone) {
    Module module = parse_module(R"(module "reuse" values

func @main(%x: f32[4]) -> (%y, %z) {
  %r = reshape(%x) {dims = [2, 2]} : f32[2,2]
  %y = add(%r, %r) : f32[2,2]
  %s = reshape(%r) {dims = [4]} : f32[4]
  %z = add(%s, %x) : f32[4]
}
)");
    std::vector<Tensor> arguments = {floats({4}, {1, 2, 3, 4})};
    std::vector<Tensor> out = evaluate(module, module.main(), std::span<const Tensor>(arguments));
    EXPECT_EQ(out[0].f, (std::vector<double>{2, 4, 6, 8}));
    EXPECT_EQ(out[1].f, (std::vector<double>{2, 4, 6, 8}));
    EXPECT_EQ(arguments[0].f, (std::vector<double>{1, 2, 3, 4}));
}

// ---- constants ------------------------------------------------------------------------------------------------------

TEST(ConstantValue, CausalMask) {
    Type square = Type::tensor(DType::i64, {3, 3});
    ConstPtr row = ConstExpr::affine(square, 0, {1, 0}), column = ConstExpr::affine(square, 0, {0, 1});
    ConstPtr allowed = ConstExpr::elementwise(Type::tensor(DType::boolean, {3, 3}), "le", {column, row});
    Type floats_type = Type::tensor(DType::f32, {3, 3});
    ConstPtr mask =
        ConstExpr::select(allowed, ConstExpr::splat(floats_type, 0), ConstExpr::splat(floats_type, -INFINITY));
    Tensor dense = materialize(*mask);
    EXPECT_EQ(dense.type, floats_type);
    for (std::int64_t r = 0; r < 3; ++r)
        for (std::int64_t c = 0; c < 3; ++c) {
            double expected = c <= r ? 0 : -INFINITY;
            EXPECT_EQ(dense.at(r * 3 + c), expected);
            EXPECT_EQ(element(*mask, std::vector<std::int64_t>{r, c}), expected);
        }
}

TEST(ConstantValue, DenseAndArithmetic) {
    ConstPtr table = ConstExpr::dense(Tensor::ints({7, -7, 5}));
    ConstPtr two = ConstExpr::splat(table->type, 2);
    ConstPtr half = ConstExpr::elementwise(table->type, "div", {table, two});
    EXPECT_EQ(materialize(*half).i, (std::vector<std::int64_t>{3, -3, 2}));
    for (std::int64_t k = 0; k < 3; ++k)
        EXPECT_EQ(element(*half, std::vector<std::int64_t>{k}),
                  (std::vector<double>{3, -3, 2})[static_cast<std::size_t>(k)]);
    ConstPtr cast =
        ConstExpr::elementwise(Type::tensor(DType::boolean, {3}), "cast",
                               {ConstExpr::elementwise(table->type, "add", {table, ConstExpr::splat(table->type, 7)})});
    EXPECT_EQ(materialize(*cast).i, (std::vector<std::int64_t>{1, 0, 1}));
    EXPECT_EQ(element(*cast, std::vector<std::int64_t>{1}), 0);
}

}  // namespace
}  // namespace thunderc
