// SPDX-License-Identifier: Apache-2.0
// Products of one input, as a module for each head gives them: however many there are, they are one product, planned
// soundly, and their gradients are the evaluator's.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/check/check_plan.h"
#include "compiler/check/gradient_check.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "tests/planned/reference_step.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace siblings_test {

// tanh of `count` products side by side, the k-th of 1 + k % 3 outputs.
std::string heads(int count, bool bias) {
    std::string arguments = "    %x: f32[3,4] input \"x\"", products, operands;
    int width = 0;
    for (int k = 0; k < count; ++k) {
        const int out = 1 + k % 3;
        width += out;
        arguments += fmt::format(",\n    %w{0}: f32[{1},4] parameter \"heads.{0}.weight\"", k, out);
        if (bias) arguments += fmt::format(",\n    %b{0}: f32[{1}] parameter \"heads.{0}.bias\"", k, out);
        products += fmt::format("  %y{0} = linear(%x, %w{0}{1}) : f32[3,{2}] at \"heads.{0}\" \"Linear\"\n", k,
                                bias ? fmt::format(", %b{}", k) : "", out);
        operands += fmt::format("{}%y{}", k == 0 ? "" : ", ", k);
    }
    return fmt::format(
        "module \"heads\" values\nfunc @main(\n{}) -> (%loss \"loss\") {{\n{}  %all = concat({}) {{axis = 1}} : "
        "f32[3,{}]\n  %t = tanh(%all) : f32[3,{}]\n  %s = mul(%t, %t) : f32[3,{}]\n"
        "  %loss = reduce_sum(%s) {{axes = [0, 1], keep_dims = false}} : f32[]\n}}\n",
        arguments, products, operands, width, width, width);
}

void expect_sound(int count, bool bias) {
    SCOPED_TRACE(fmt::format("{} products {} bias", count, bias ? "with" : "without"));
    const Module module = parse_module(heads(count, bias));
    verify(module);
    std::vector<Pass> passes = pipeline({});
    passes.erase(passes.begin(), std::find_if(passes.begin(), passes.end(),
                                              [](const Pass& p) { return p.name == "freeze_parameters"; }));
    std::vector<PassRun> runs;
    Module planned;
    ASSERT_NO_THROW(planned = run_passes(module, passes, runs));
    ASSERT_EQ(plan_violations(planned), std::vector<std::string>());
    const auto products = [&](const std::string& name) {
        const std::vector<Op>& ops = planned.find("forward_backward")->ops;
        return std::count_if(ops.begin(), ops.end(), [&](const Op& op) { return op.name == name; });
    };
    EXPECT_EQ(products("linear"), 1);
    EXPECT_EQ(products("linear_backward_weight"), 1);

    Report report;
    const Module plain = differentiate(module, {}, report);
    const std::vector<Members> arguments = random_arguments(plain.main(), 5);
    const std::vector<Members> expected = evaluate(plain, plain.main(), std::span<const Members>(arguments));
    PlannedProgram program(planned);
    MicroBatch batch;
    for (std::size_t k = 0; k + 1 < plain.main().arguments.size(); ++k) {  // the last is dloss
        const std::string& name = plain.main().argument_info[k].names[0];
        if (name == "x")
            batch[name] = arguments[k][0];
        else
            program.set(name, arguments[k][0]);
    }
    // Two micro-batches: gradients are overwritten, then added to.
    const PlannedStep step = planned_gradients(program, {batch, batch});
    EXPECT_NEAR(step.loss, expected[0][0].at(0), 1e-5 * (1 + std::abs(expected[0][0].at(0))));
    std::size_t result = 1;
    for (std::size_t k = 0; k < plain.main().arguments.size(); ++k) {
        const ArgInfo& info = plain.main().argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter) continue;
        // f32 after every op, sums of three rows, against fp64: some ten roundings of 2^-24.
        EXPECT_LE(largest_difference(program.get("grad." + info.names[0]), expected[result][0]),
                  1e-6 * (1 + largest(expected[result][0])))
            << info.names[0];
        ++result;
    }
}

class Siblings : public testing::TestWithParam<int> {};

// Odd counts have a bias.
TEST_P(Siblings, OfAnyNumberAreOneProduct) {
    for (const int count : counts_of(GetParam())) expect_sound(count, count % 2 == 1 || count >= 190);
}
INSTANTIATE_TEST_SUITE_P(Counts, Siblings, testing::Range(1, 11));

}  // namespace siblings_test
}  // namespace thunderc
