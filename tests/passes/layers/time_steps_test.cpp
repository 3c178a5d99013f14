// SPDX-License-Identifier: Apache-2.0
// What is applied again and again with one set of weights becomes a loop: time steps, and one layer N times.
#include <fmt/format.h>

#include "compiler/check/gradient_check.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/layers/outline_blocks.h"
#include "compiler/passes/layers/roll_repeats.h"
#include "tests/passes/tiny_transformer.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace time_steps_test {

// h = tanh(x_t Wx + h Wh), as a loop in Python leaves it: rows of a batch first or steps first, the last step first
// where it goes backwards.
struct Recurrence {
    int steps = 5;
    bool backwards = false, batch_first = false;

    std::string text() const {
        const std::string x = batch_first ? fmt::format("f32[2,{},3]", steps) : fmt::format("f32[{},2,3]", steps);
        const std::string seen = batch_first ? fmt::format("f32[2,{},8]", steps) : fmt::format("f32[{},2,8]", steps);
        const std::string part = batch_first ? "f32[2,1,8]" : "f32[1,2,8]", dims = part.substr(3);
        const int axis = batch_first ? 1 : 0;
        std::string ops = fmt::format("  %seen = linear(%x, %wx) : {}\n", seen), all;
        for (int k = 0; k < steps; ++k) {
            const int t = backwards ? steps - 1 - k : k;
            ops += fmt::format(R"(  %p{0} = linear(%{1}, %wh) : f32[2,8]
  %s{0} = slice(%seen) {{axis = {2}, begin = {0}, end = {3}, step = 1}} : {4}
  %r{0} = reshape(%s{0}) {{dims = [2, 8]}} : f32[2,8]
  %a{0} = add(%r{0}, %p{0}) : f32[2,8]
  %h{0} = tanh(%a{0}) : f32[2,8]
  %u{0} = reshape(%h{0}) {{dims = {5}}} : {4}
)",
                               t, k == 0 ? "start" : fmt::format("h{}", backwards ? t + 1 : t - 1), axis, t + 1, part,
                               dims);
        }
        for (int t = 0; t < steps; ++t) all += fmt::format("{}%u{}", t == 0 ? "" : ", ", t);
        return fmt::format(R"(func @main(
    %x: {} input "x",
    %start: f32[2,8] input "start",
    %wx: f32[8,3] parameter "wx",
    %wh: f32[8,8] parameter "wh") -> (%loss "loss") {{
{}  %all = concat({}) {{axis = {}}} : {}
  %squares = mul(%all, %all) : {}
  %loss = reduce_sum(%squares) {{axes = [0, 1, 2], keep_dims = false}} : f32[]
}}
)",
                           x, ops, all, axis, seen, seen);
    }
};

Module rolled(const std::string& text) {
    Report report;
    Module module = roll_repeats(outline_blocks(parsed(text), report), report);
    verify(module);
    return module;
}

std::size_t count(const Module& module, const std::string& op) {
    std::size_t n = 0;
    for (const Op& o : module.main().ops) n += o.name == op ? 1 : 0;
    return n;
}

TEST(TimeSteps, BecomeALoopOverThePartsOfOneTensor) {
    EXPECT_EQ(printed_functions(rolled(Recurrence{}.text())), R"(func @main(
    %x: f32[5,2,3] input "x",
    %start: f32[2,8] input "start",
    %wx: f32[8,3] parameter "wx",
    %wh: f32[8,8] parameter "wh") -> (%loss "loss") {
  %seen = linear(%x, %wx) : f32[5,2,8]
  %seen_1 = unstack(%seen) : 5 x f32[2,8]
  %h4, %u0 = repeat(%start, %seen_1, %wh) {body = "layer", carried = 1, n = 5, per_layer = 1, reverse = false} : f32[2,8], 5 x f32[1,2,8]
  %u0_1 = stack(%u0) : f32[5,1,2,8]
  %all = reshape(%u0_1) {dims = [5, 2, 8]} : f32[5,2,8]
  %squares = mul(%all, %all) : f32[5,2,8]
  %loss = reduce_sum(%squares) {axes = [0, 1, 2], keep_dims = false} : f32[]
}
func @layer(%h0_prev: f32[2,8], %r0: f32[2,8], %wh: f32[8,8]) -> (%h0, %u0) {
  %p0 = linear(%h0_prev, %wh) : f32[2,8]
  %a0 = add(%r0, %p0) : f32[2,8]
  %h0 = tanh(%a0) : f32[2,8]
  %u0 = reshape(%h0) {dims = [1, 2, 8]} : f32[1,2,8]
}
)");
}

TEST(TimeSteps, TheLastFirstIsALoopBackwards) {
    const Module module = rolled(Recurrence{.backwards = true}.text());
    for (const Op& op : module.main().ops) EXPECT_EQ(op.attributes.boolean("reverse", false), op.name == "repeat");
    EXPECT_EQ(count(module, "repeat"), 1u);
    EXPECT_EQ(count(module, "stack"), 1u);
    EXPECT_EQ(count(module, "concat") + count(module, "member") + count(module, "family"), 0u);
}

// Values, and gradients against those of the steps written out.
TEST(TimeSteps, MeanTheSame) {
    for (int steps : {4, 5, 6, 9})
        for (bool backwards : {false, true})
            for (bool batch_first : {false, true}) {
                SCOPED_TRACE(fmt::format("{} {} {}", steps, backwards, batch_first));
                const std::string text = Recurrence{steps, backwards, batch_first}.text();
                Report report;
                const Module flat = differentiate(parsed(text), {}, report);
                const Module loop = differentiate(rolled(text), {}, report);
                verify(loop);
                EXPECT_EQ(count(rolled(text), "repeat"), 1u);
                const NamedArguments arguments(flat.main(), 3);
                const auto expected = named_results(flat, arguments), actual = named_results(loop, arguments);
                ASSERT_EQ(expected.size(), actual.size());
                // fp64; sums over the steps run in another order.
                for (const auto& [name, tensor] : expected)
                    for (std::int64_t k = 0; k < tensor.size(); ++k)
                        EXPECT_NEAR(actual.at(name).at(k), tensor.at(k), 1e-12) << name;
            }
}

// The first step's products with a state of zeros are of parameters alone: it is a step like the others all the same.
TEST(TimeSteps, AStateOfZerosBeginsTheLoop) {
    std::string ops = "  %start = constant() {value = <f32[2,4] splat 0.0>} : f32[2,4]\n";
    for (int k = 0; k < 5; ++k)
        ops += fmt::format(R"(  %x{0} = slice(%x) {{axis = 0, begin = {0}, end = {1}, step = 1}} : f32[1,2,4]
  %p{0} = linear(%{2}, %w) : f32[2,8]
  %g{0} = slice(%p{0}) {{axis = 1, begin = 0, end = 4, step = 1}} : f32[2,4]
  %f{0} = slice(%p{0}) {{axis = 1, begin = 4, end = 8, step = 1}} : f32[2,4]
  %r{0} = reshape(%x{0}) {{dims = [2, 4]}} : f32[2,4]
  %a{0} = add(%r{0}, %g{0}) : f32[2,4]
  %m{0} = mul(%f{0}, %a{0}) : f32[2,4]
  %h{0} = tanh(%m{0}) : f32[2,4]
)",
                           k, k + 1, k == 0 ? "start" : fmt::format("h{}", k - 1));
    const Module module =
        rolled("func @main(%x: f32[5,2,4] input \"x\", %w: f32[8,4] parameter \"w\") -> (%h4 \"h\") {\n" + ops + "}\n");
    EXPECT_EQ(count(module, "linear"), 0u);
    for (const Op& op : module.main().ops)
        if (op.name == "repeat") {
            EXPECT_EQ(op.attributes.integer("n"), 5);
        }
    EXPECT_EQ(count(module, "repeat"), 1u);
}

// One layer, four times and more; three times it stays.
TEST(TimeSteps, ALayerThatIsAppliedAgainIsALoop) {
    for (int times : {3, 4, 7}) {
        std::string ops;
        for (int k = 0; k < times; ++k)
            ops += fmt::format(
                "  %a{0} = linear(%{1}, %w, %b) : f32[2,4]\n  %b{0} = tanh(%a{0}) : f32[2,4]\n"
                "  %c{0} = exp(%b{0}) : f32[2,4]\n  %y{0} = add(%c{0}, %{1}) : f32[2,4]\n",
                k, k == 0 ? "x" : fmt::format("y{}", k - 1));
        const std::string text = fmt::format(
            "func @main(%x: f32[2,4] input \"x\", %w: f32[4,4] parameter \"w\", %b: f32[4] parameter \"b\") -> (%y{} "
            "\"y\") {{\n{}}}\n",
            times - 1, ops);
        const Module module = rolled(text);
        EXPECT_EQ(count(module, "repeat"), times == 3 ? 0u : 1u) << times;
        if (times == 3)
            EXPECT_EQ(printed_functions(module), printed_functions(parsed(text)));
        else
            EXPECT_EQ(module.main().ops.size(), 1u);
    }
}

// ---- what must stay -------------------------------------------------------------------------------------------------

TEST(TimeSteps, ThreeStay) {
    const std::string text = Recurrence{.steps = 3}.text();
    EXPECT_EQ(printed_functions(rolled(text)), printed_functions(parsed(text)));
}

// Each step reads a piece of what the step before gave: nothing is taken apart ahead of the loop.
TEST(TimeSteps, PiecesOfWhatAStepGivesAreTheStepsOwn) {
    std::string ops;
    for (int k = 0; k < 4; ++k)
        ops += fmt::format(
            "  %a{0} = linear(%{1}, %w) : f32[2,4]\n"
            "  %s{0} = slice(%a{0}) {{axis = 1, begin = {0}, end = {2}, step = 1}} : f32[2,1]\n"
            "  %t{0} = tanh(%s{0}) : f32[2,1]\n  %y{0} = add(%a{0}, %t{0}) : f32[2,4]\n",
            k, k == 0 ? "x" : fmt::format("y{}", k - 1), k + 1);
    const std::string text =
        "func @main(%x: f32[2,4] input \"x\", %w: f32[4,4] parameter \"w\") -> (%y3 \"y\") {\n" + ops + "}\n";
    EXPECT_EQ(printed_functions(rolled(text)), printed_functions(parsed(text)));
}

// All steps read pieces of what the first one makes: the loop begins behind it, or there is none.
TEST(TimeSteps, WhatTheFirstStepMakesIsNothingThatAllShare) {
    std::string ops;
    for (int k = 0; k < 7; ++k) {
        ops += fmt::format("  %a{0} = linear(%{1}, %w) : f32[2,4]\n", k, k == 0 ? "x" : fmt::format("h{}", k - 1));
        if (k == 0) ops += "  %q = linear(%a0, %v) : f32[2,16]\n";
        for (int j = 0; j < 4 && k == 0; ++j)
            ops += fmt::format("  %s{0} = slice(%q) {{axis = 1, begin = {1}, end = {2}, step = 1}} : f32[2,4]\n", j,
                               4 * j, 4 * j + 4);
        for (int j = 0; j < 4; ++j)
            ops += fmt::format("  %b{0}_{1} = mul(%{2}, %s{1}) : f32[2,4]\n", k, j,
                               j == 0 ? fmt::format("a{}", k) : fmt::format("b{}_{}", k, j - 1));
        ops += fmt::format("  %h{0} = tanh(%b{0}_3) : f32[2,4]\n", k);
    }
    const std::string text =
        "func @main(%x: f32[2,4] input \"x\", %w: f32[4,4] parameter \"w\", %v: f32[16,4] parameter \"v\") -> (%h6 "
        "\"h\") {\n" +
        ops + "}\n";
    const Module flat = parsed(text);
    const NamedArguments arguments(flat.main(), 3);
    EXPECT_EQ(named_results(rolled(text), arguments), named_results(flat, arguments));
}

// Heads that layers take apart are no steps, and stand in the layers.
TEST(TimeSteps, PiecesWithinLayersStayInThem) {
    std::string arguments = "%x: f32[2,8] input \"x\"", ops;
    for (int k = 0; k < 3; ++k) {
        arguments += fmt::format(", %w{0}: f32[8,8] parameter \"w.{0}\"", k);
        ops += fmt::format("  %a{0} = linear(%{1}, %w{0}) : f32[2,8]\n", k, k == 0 ? "x" : fmt::format("y{}", k - 1));
        for (int h = 0; h < 4; ++h)
            ops += fmt::format(
                "  %s{0}_{1} = slice(%a{0}) {{axis = 1, begin = {2}, end = {3}, step = 1}} : f32[2,2]\n"
                "  %t{0}_{1} = {4}(%s{0}_{1}) : f32[2,2]\n",
                k, h, 2 * h, 2 * h + 2, h == 0 ? "tanh" : "exp");
        ops += fmt::format("  %y{0} = concat(%t{0}_0, %t{0}_1, %t{0}_2, %t{0}_3) {{axis = 1}} : f32[2,8]\n", k);
    }
    const Module module = rolled("func @main(" + arguments + ") -> (%y2 \"y\") {\n" + ops + "}\n");
    EXPECT_EQ(module.main().ops.size(), 1u);
    ASSERT_EQ(module.functions.size(), 2u);
    EXPECT_EQ(module.functions[1].ops.size(), 10u);
}

}  // namespace time_steps_test
}  // namespace thunderc
