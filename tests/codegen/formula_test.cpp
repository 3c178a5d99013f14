// SPDX-License-Identifier: Apache-2.0
// The formulas in kernels' comments: which axes a sum goes along, what is read as a transpose, which functions have a
// name; and what must not be called by one.
#include "codegen/kernels/formula.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/host/kernel_table.h"
#include "codegen/kernels/composites.h"
#include "codegen/symbols.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/parse.h"

namespace thunderc {
namespace formula_test {

using Lines = std::vector<std::string>;

KernelDescription described(const std::string& text) {
    return describe_kernel(parse_module("module \"m\" values\n\n" + text).main());
}

Lines formula(const std::string& text) {
    const KernelDescription kernel = described(text);
    Lines inputs, outputs;
    for (const KernelOperand& operand : kernel.inputs) inputs.push_back(operand.name);
    for (const KernelOperand& operand : kernel.outputs) outputs.push_back(operand.name);
    return kernel_formula(kernel, inputs, outputs);
}

// ---- axes ----

TEST(Formula, SumsSayAlongWhat) {
    const auto sum = [](const char* op, const char* axes, const char* type) {
        return formula(
            fmt::format("func @f(%x: f32[40,60]) -> (%y) {{\n  %e = exp(%x) : f32[40,60]\n"
                        "  %y = {}(%e) {{axes = {}, keep_dims = false}} : {}\n}}\n",
                        op, axes, type));
    };
    EXPECT_EQ(sum("reduce_sum", "[1]", "f32[40]"), Lines{"y = row_sum(exp(x))"});
    EXPECT_EQ(sum("reduce_sum", "[0]", "f32[60]"), Lines{"y = column_sum(exp(x))"});
    EXPECT_EQ(sum("reduce_max", "[1]", "f32[40]"), Lines{"y = row_max(exp(x))"});
    // Of all there is.
    EXPECT_EQ(sum("reduce_sum", "[0, 1]", "f32[]"), Lines{"y = sum(exp(x))"});
}

constexpr const char* norm = R"(module "m" values

func @main(%ids: i64[2,8] input "ids" {batched, entries = 8}, %table: f32[8,8] parameter "embed") -> (%y "y", %z "z", %w "w") {
  %x = embedding(%table, %ids) : f32[2,8,8]
  %y = fused(%x) {kernel = "centre"} : f32[2,8,8]
  %z = fused(%x) {kernel = "total"} : f32[8]
  %w = fused(%x) {kernel = "scores"} : f32[2,8,1]
}

func @centre(%x: f32[2,8,8]) -> (%y) kind "kernel:row_reduction" {
  %reduce_sum = reduce_sum(%x) {axes = [2], keep_dims = true} : f32[2,8,1]
  %count = constant() {value = <f32[] splat 8>} : f32[]
  %mean = div(%reduce_sum, %count) : f32[2,8,1]
  %y = sub(%x, %mean) : f32[2,8,8]
}

func @total(%x: f32[2,8,8]) -> (%z) kind "kernel:column_reduction" {
  %z = reduce_sum(%x) {axes = [0, 1], keep_dims = false} : f32[8]
}

func @scores(%x: f32[2,8,8]) -> (%w) kind "kernel:row_reduction" {
  %e = exp(%x) : f32[2,8,8]
  %w = reduce_sum(%e) {axes = [2], keep_dims = true} : f32[2,8,1]
}
)";

// T = C = 8: an axis has the name that it has by construction, not that of its number.
TEST(Formula, AxesHaveTheNamesOfSizes) {
    const Module module = parse_module(norm);
    const Symbols symbols(module);
    const auto lines = [&](const Symbols* names, std::size_t kernel) {
        KernelTable table(module, names);
        for (const Op& op : module.main().ops)
            if (op.name == "fused") table.use(module.main(), op);
        return table.all().at(kernel).formula;
    };
    EXPECT_EQ(lines(&symbols, 0), Lines{"y = x - mean_C(x)"});
    EXPECT_EQ(lines(&symbols, 1), Lines{"z = sum_{B,T}(x)"});
    EXPECT_EQ(lines(&symbols, 2), Lines{"w = sum_C(exp(x))"});
    EXPECT_EQ(lines(nullptr, 0), Lines{"y = x - row_mean(x)"});
    EXPECT_EQ(lines(nullptr, 1), Lines{"z = column_sum(x)"});
}

// ---- transposes ----

TEST(Formula, TransposesAreSeen) {
    EXPECT_EQ(formula("func @f(%x: f32[4,6], %w: f32[6,4]) -> (%y) {\n"
                      "  %t = transpose(%x) {permutation = [1, 0]} : f32[6,4]\n"
                      "  %y = mul(%t, %w) : f32[6,4]\n}\n"),
              Lines{"y = xᵀ * w"});
    EXPECT_EQ(formula("func @f(%x: f32[2,4,6,8], %w: f32[2,6,4,8]) -> (%y) {\n"
                      "  %t = transpose(%x) {permutation = [0, 2, 1, 3]} : f32[2,6,4,8]\n"
                      "  %y = mul(%t, %w) : f32[2,6,4,8]\n}\n"),
              Lines{"y = transpose(x, 0, 2, 1, 3) * w"});
}

// What is spread over rows or columns is none, nor is what is only cut in another way.
TEST(Formula, BroadcastsAndReshapesAreNoTransposes) {
    EXPECT_EQ(formula("func @f(%x: f32[4,6], %r: f32[4,1], %c: f32[6]) -> (%y) {\n"
                      "  %a = mul(%x, %r) : f32[4,6]\n  %y = mul(%a, %c) : f32[4,6]\n}\n"),
              Lines{"y = x * r * c"});
    EXPECT_EQ(formula("func @f(%x: f32[4,6], %w: f32[2,2,6]) -> (%y) {\n"
                      "  %t = reshape(%x) {dims = [2, 2, 6]} : f32[2,2,6]\n  %y = mul(%t, %w) : f32[2,2,6]\n}\n"),
              Lines{"y = x * w"});
    // A vector and a matrix of one column are turned by nothing.
    EXPECT_EQ(formula("func @f(%x: f32[1,6], %w: f32[6,1]) -> (%y) {\n"
                      "  %t = transpose(%x) {permutation = [1, 0]} : f32[6,1]\n  %y = mul(%t, %w) : f32[6,1]\n}\n"),
              Lines{"y = x * w"});
}

// A number for each row of what is read along its columns is a column itself.
TEST(Formula, VectorsBesideTransposesAreColumns) {
    EXPECT_EQ(formula("func @f(%x: f32[4,6], %v: f32[6], %w: f32[6,4]) -> (%y) {\n"
                      "  %t = transpose(%x) {permutation = [1, 0]} : f32[6,4]\n"
                      "  %c = reshape(%v) {dims = [6, 1]} : f32[6,1]\n"
                      "  %a = mul(%c, %t) : f32[6,4]\n  %y = mul(%a, %w) : f32[6,4]\n}\n"),
              Lines{"y = vᵀ * xᵀ * w"});
    EXPECT_EQ(formula("func @f(%x: f32[6,4], %v: f32[6]) -> (%y) {\n"
                      "  %c = reshape(%v) {dims = [6, 1]} : f32[6,1]\n  %y = mul(%c, %x) : f32[6,4]\n}\n"),
              Lines{"y = v * x"});
}

// ---- what has a line of its own ----

// A gradient within a long expression is called by its name, as the kernel's text does; a short one is not.
TEST(Formula, GradientsHaveLines) {
    EXPECT_EQ(formula("func @f(%dy: f32[4,6], %x: f32[4,6], %y: f32[4,6], %w: f32[4,6]) -> (%dx) {\n"
                      "  %a = mul(%dy, %y) : f32[4,6]\n  %b = mul(%x, %w) : f32[4,6]\n"
                      "  %c = sin(%b) : f32[4,6]\n  %s = sub(%c, %dy) : f32[4,6]\n  %d = mul(%a, %s) : f32[4,6]\n"
                      "  %dgate = mul(%d, %x) : f32[4,6]\n  %dx = exp(%dgate) : f32[4,6]\n}\n"),
              (Lines{"dx = exp(dgate)", "where dgate = dy * y * (sin(x * w) - dy) * x"}));
    EXPECT_EQ(formula("func @f(%dy: f32[4,6], %x: f32[4,6]) -> (%dx) {\n"
                      "  %dgate = mul(%dy, %x) : f32[4,6]\n  %dx = exp(%dgate) : f32[4,6]\n}\n"),
              Lines{"dx = exp(dy * x)"});
}

// A gradient that is added to and read once more has its name in both equations.
TEST(Formula, WhatIsAddedToAndReadHasALine) {
    const Lines lines = formula(
        "func @f(%w_before: f32[8], %a: f32[8], %b: f32[8], %v: f32[8]) -> (%w, %dx) {\n"
        "  %p = mul(%a, %b) : f32[8]\n  %dgate = sin(%p) : f32[8]\n"
        "  %w = add(%w_before, %dgate) : f32[8]\n  %dx = mul(%dgate, %v) : f32[8]\n}\n");
    EXPECT_EQ(lines, (Lines{"w = w_before + dgate", "dx = dgate * v", "where dgate = sin(a * b)"}));
}

// What an earlier nest stored or defined has its name there as well; the same of other operands has not.
TEST(Formula, NestsShareDefinitions) {
    const auto of = [](const char* other) {
        return formula(
            fmt::format("func @f(%x: f32[6,10], %w: f32[6,10], %g: f32[6,10]) -> (%y, %z) {{\n"
                        "  %p = mul(%x, %w) : f32[6,10]\n  %y = sin(%p) : f32[6,10]\n"
                        "  %q = mul(%x, {}) : f32[6,10]\n  %s = sin(%q) : f32[6,10]\n  %e = exp(%s) : f32[6,10]\n"
                        "  %z = reduce_sum(%e) {{axes = [0], keep_dims = false}} : f32[10]\n}}\n",
                        other));
    };
    EXPECT_EQ(of("%w"), (Lines{"y = sin(x * w)", "z = column_sum(exp(y))"}));
    EXPECT_EQ(of("%g"), (Lines{"y = sin(x * w)", "z = column_sum(exp(sin(x * g)))"}));
    // The same vector along the rows and along the columns, and another type on the way, are other values.
    EXPECT_EQ(formula("func @f(%x: f32[6,6], %v: f32[6]) -> (%y, %z) {\n"
                      "  %c = reshape(%v) {dims = [6, 1]} : f32[6,1]\n  %p = mul(%c, %x) : f32[6,6]\n"
                      "  %y = sin(%p) : f32[6,6]\n  %q = mul(%v, %x) : f32[6,6]\n  %s = sin(%q) : f32[6,6]\n"
                      "  %e = exp(%s) : f32[6,6]\n"
                      "  %z = reduce_sum(%e) {axes = [0], keep_dims = false} : f32[6]\n}\n")
                  .back(),
              "z = column_sum(exp(sin(v * x)))");
    EXPECT_EQ(formula("func @f(%x: f32[6,10], %w: f32[6,10]) -> (%y, %z) {\n"
                      "  %i = cast(%x) {dtype = i64} : i64[6,10]\n  %r = cast(%i) {dtype = f32} : f32[6,10]\n"
                      "  %p = mul(%r, %w) : f32[6,10]\n  %y = exp(%p) : f32[6,10]\n"
                      "  %q = mul(%x, %w) : f32[6,10]\n  %e = exp(%q) : f32[6,10]\n  %s = sin(%e) : f32[6,10]\n"
                      "  %z = reduce_sum(%s) {axes = [0], keep_dims = false} : f32[10]\n}\n")
                  .back(),
              "z = column_sum(sin(exp(x * w)))");
}

// ---- functions ----

// What the op's own definition decomposes into, in a kernel of primitives.
std::string decomposed(const std::string& op, const Attributes& attributes, std::size_t operands) {
    Function f;
    f.name = "f";
    f.kind = "kernel:pointwise";
    Op composite;
    composite.name = op;
    composite.attributes = attributes;
    const char* const names[] = {"a", "b"};
    for (std::size_t k = 0; k < operands; ++k)
        composite.operands.push_back(f.add_argument(Type::tensor(DType::f32, {3, 5}), names[k]));
    Builder b(f);
    f.results = {b.op("neg", {op_def(op).decompose(b, composite)[0]})};
    f.result_names = {"y"};
    const KernelDescription kernel = describe_kernel(f);
    const Lines inputs = operands == 1 ? Lines{"a"} : Lines{"a", "b"};
    const Lines lines = kernel_formula(kernel, inputs, {"y"});
    return fmt::format("{}", fmt::join(lines, "; "));
}

TEST(Formula, FunctionsHaveTheirNames) {
    EXPECT_EQ(decomposed("softplus", {}, 1), "y = -softplus(a)");
    EXPECT_EQ(decomposed("silu", {}, 1), "y = -silu(a)");
    EXPECT_EQ(decomposed("gelu", {}, 1), "y = -gelu(a)");
    EXPECT_EQ(decomposed("gelu", {{"approximate", std::string("tanh")}}, 1), "y = -gelu_tanh(a)");
    EXPECT_EQ(decomposed("silu_backward", {}, 2), "y = -(a * silu'(b))");
    EXPECT_EQ(decomposed("gelu_backward", {}, 2), "y = -(a * gelu'(b))");
}

// Of any expression, and in whichever order its author multiplied; the local of the body has the name as well.
TEST(Formula, FunctionsOfExpressions) {
    const std::string text =
        "func @f(%x: f32[3,5], %up: f32[3,5]) -> (%y) {\n  %d = sin(%x) : f32[3,5]\n  %s = sigmoid(%d) : f32[3,5]\n"
        "  %a = mul(%s, %d) : f32[3,5]\n  %y = mul(%a, %up) : f32[3,5]\n}\n";
    EXPECT_EQ(formula(text), Lines{"y = silu(sin(x)) * up"});
}

// x * sigmoid(z), softplus with another constant, and the parts of a function are not called by its name.
TEST(Formula, WhatIsNearlyAFunctionIsWrittenOut) {
    EXPECT_EQ(formula("func @f(%x: f32[8], %z: f32[8]) -> (%y) {\n  %s = sigmoid(%z) : f32[8]\n"
                      "  %y = mul(%x, %s) : f32[8]\n}\n"),
              Lines{"y = x * sigmoid(z)"});
    const auto softplus_with = [](const char* one) {
        return formula(
            fmt::format("func @f(%x: f32[8]) -> (%y) {{\n  %one = constant() {{value = <f32[] splat {}>}} : f32[]\n"
                        "  %a = abs(%x) : f32[8]\n  %n = neg(%a) : f32[8]\n  %e = exp(%n) : f32[8]\n"
                        "  %b = add(%e, %one) : f32[8]\n  %l = log(%b) : f32[8]\n  %r = relu(%x) : f32[8]\n"
                        "  %y = add(%r, %l) : f32[8]\n}}\n",
                        one));
    };
    EXPECT_EQ(softplus_with("1"), Lines{"y = softplus(x)"});
    EXPECT_EQ(softplus_with("2"), Lines{"y = max(x, 0) + log(exp(-abs(x)) + 2)"});
}

}  // namespace formula_test
}  // namespace thunderc
