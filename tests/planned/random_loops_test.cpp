// SPDX-License-Identifier: Apache-2.0
// Loops of random shape: gradients of the loop against those of calls in a row and against differences of the loss, and
// the planned bytes against both. What goes in is drawn so that operands meet: a carried value that is also shared, one
// value in two places, one family twice, carried values that are collected, and what starts a loop may be an input, a
// parameter, a constant, a view, or something that is read again behind the loop.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compiler/check/check_plan.h"
#include "compiler/check/gradient_check.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/layers/unroll_repeats.h"
#include "tests/planned/reference_step.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace random_loops_test {

// Every value is f32[3,4], every weight f32[4,4].
class RandomProgram {
  public:
    explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

    std::string text() {
        std::vector<std::string> pool = {"x", "p"};
        std::string main;
        auto line = [&](const std::string& name, const std::string& op) {
            main += fmt::format("  %{} = {} : f32[3,4]\n", name, op);
            pool.push_back(name);
        };
        line("k", "constant() {value = <f32[3,4] splat 0.5>}");
        line("h", "linear(%x, %s)");
        line("t", "tanh(%p)");
        main += "  %wide = reshape(%h) {dims = [4,3]} : f32[4,3]\n  %turned = reshape(%t) {dims = [4,3]} : f32[4,3]\n";
        line("v", "reshape(%wide) {dims = [3,4]}");
        line("r", "transpose(%turned) {permutation = [1,0]}");
        std::string bodies;
        for (int l = 0, loops = 1 + below(2); l < loops; ++l) main += loop(l, pool, bodies);
        // A value that nothing reads would not be there: the loss reads the last ones and a few others.
        std::string sum = pool.back();
        for (int k = 0, terms = 3 + below(3); k < terms; ++k) {
            const std::string name = fmt::format("q{}", k);
            const std::string& other = k < 2 ? pool[pool.size() - 2 - static_cast<std::size_t>(k)] : pick(pool);
            main += fmt::format("  %{} = {}(%{}, %{}) : f32[3,4]\n", name, below(3) == 0 ? "mul" : "add", sum, other);
            sum = name;
        }
        main += fmt::format(
            "  %bounded = tanh(%{}) : f32[3,4]\n"
            "  %square = mul(%bounded, %bounded) : f32[3,4]\n"
            "  %loss = reduce_sum(%square) {{axes = [0, 1], keep_dims = false}} : f32[]\n",
            sum);
        return "module \"random\" values\nfunc @main(\n"
               "    %x: f32[3,4] input \"x\",\n    %p: f32[3,4] parameter \"p\",\n    %s: f32[4,4] parameter \"s\"" +
               families_ + ") -> (%loss \"loss\") {\n" + main + "}\n" + bodies;
    }

  private:
    int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
    const std::string& pick(const std::vector<std::string>& from) {
        return from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
    }

    std::string loop(int number, std::vector<std::string>& pool, std::string& bodies) {
        const int n = 2 + below(3), carried = 1 + below(2), per_layer = 1 + below(2), shared = below(4);
        const bool one_family = per_layer == 2 && below(3) == 0, reverse = below(4) == 0;
        std::string operands, arguments;
        std::vector<std::string> values, weights;
        auto take = [&](const std::string& operand, const std::string& argument, const std::string& type) {
            operands += fmt::format("{}%{}", operands.empty() ? "" : ", ", operand);
            arguments += fmt::format("{}%{}: {}", arguments.empty() ? "" : ", ", argument, type);
        };
        std::string initial;
        for (int c = 0; c < carried; ++c) {
            if (c == 0 || below(3) != 0) initial = pick(pool);
            values.push_back(fmt::format("c{}", c));
            take(initial, values.back(), "f32[3,4]");
        }
        for (int w = 0; w < per_layer; ++w) {
            weights.push_back(fmt::format("w{}", w));
            const std::string family = fmt::format("f{}_{}", number, one_family ? 0 : w);
            take(family, weights.back(), "f32[4,4]");
            if (w == 0 || !one_family)
                families_ +=
                    fmt::format(",\n    %{}: {} x f32[4,4] parameter \"{}.{{0..{}}}\"", family, n, family, n - 1);
        }
        for (int s = 0; s < shared; ++s) {
            if (below(4) == 0) {
                weights.push_back(fmt::format("s{}", s));
                take("s", weights.back(), "f32[4,4]");
                continue;
            }
            values.push_back(fmt::format("s{}", s));
            take(below(2) == 0 ? initial : pick(pool), values.back(), "f32[3,4]");
        }
        std::string ops;
        for (int k = 0, count = 3 + below(4); k < count; ++k) {
            const std::string name = fmt::format("b{}", k);
            switch (k < 2 ? k : below(4)) {
                case 0:
                    ops += fmt::format("  %{} = linear(%{}, %{}) : f32[3,4]\n", name, pick(values), pick(weights));
                    break;
                case 1: ops += fmt::format("  %{} = tanh(%{}) : f32[3,4]\n", name, values.back()); break;
                case 2:  // bounded, so that layers do not make f32's errors grow
                    ops += fmt::format("  %{0}p = mul(%{1}, %{2}) : f32[3,4]\n  %{0} = tanh(%{0}p) : f32[3,4]\n", name,
                                       values.back(), pick(values));
                    break;
                default: ops += fmt::format("  %{} = add(%{}, %{}) : f32[3,4]\n", name, values.back(), pick(values));
            }
            values.push_back(name);
        }
        std::string body_results, results, types;
        auto give = [&](const std::string& inner, const std::string& outer, const std::string& type) {
            body_results += fmt::format("{}%{}", body_results.empty() ? "" : ", ", inner);
            results += fmt::format("{}%{}", results.empty() ? "" : ", ", outer);
            types += (types.empty() ? "" : ", ") + type;
        };
        std::vector<std::string> after;
        for (int c = 0; c < carried; ++c) {
            after.push_back(fmt::format("y{}_{}", number, c));
            // Mostly what the body computes; now and then an argument as it came, or the other carried value.
            give(c == 0 || below(3) == 0 ? values.back() : pick(values), after.back(), "f32[3,4]");
        }
        std::string members;
        for (int k = 0, collected = below(3); k < collected; ++k) {
            const std::string family = fmt::format("g{}_{}", number, k);
            give(below(3) == 0 ? "c0" : pick(values), family, fmt::format("{} x f32[3,4]", n));
            const int index = below(n);
            after.push_back(fmt::format("m{}_{}", number, k));
            members += fmt::format("  %{} = member(%{}) {{index = {}}} : f32[3,4]\n", after.back(), family, index);
        }
        pool.insert(pool.end(), after.rbegin(), after.rend());
        bodies += fmt::format("func @layer{}({}) -> ({}) {{\n{}}}\n", number, arguments, body_results, ops);
        return fmt::format(
                   "  {} = repeat({}) {{body = \"layer{}\", carried = {}, n = {}, per_layer = {}, reverse = {}}} : "
                   "{}\n",
                   results, operands, number, carried, n, per_layer, reverse, types) +
               members;
    }

    std::mt19937_64 random_;
    std::string families_;
};

Module differentiated(Module module, RecomputePolicy policy) {
    Report report;
    DifferentiateOptions options;
    options.keeping.policy = policy;
    module = differentiate(std::move(module), options, report);
    verify(module);
    return module;
}

class RandomLoops : public ::testing::TestWithParam<int> {};

TEST_P(RandomLoops, HaveTheGradientsOfCallsInARow) {
    const std::string text = RandomProgram(static_cast<std::uint64_t>(GetParam())).text();
    SCOPED_TRACE(text);
    const Module module = parse_module(text);
    verify(module);
    Report report;
    for (RecomputePolicy policy : {RecomputePolicy::none, RecomputePolicy::block}) {
        const Module rolled = differentiated(module, policy);
        const Module unrolled = differentiated(unroll_repeats(module, report), policy);
        const std::vector<Members> arguments = random_arguments(rolled.main(), 5);
        const std::vector<Members> a = evaluate(rolled, rolled.main(), std::span<const Members>(arguments));
        const std::vector<Members> b = evaluate(unrolled, unrolled.main(), std::span<const Members>(arguments));
        const std::vector<std::string>& names = rolled.main().result_names;
        std::size_t next = 0;
        for (std::size_t r = 0; r < a.size(); ++r) {
            // A loop has a gradient for all layers where one layer has one; without the loop there may be none: zero.
            const bool both = next < b.size() && unrolled.main().result_names[next] == names[r];
            for (std::size_t m = 0; m < a[r].size(); ++m) {
                const Tensor other = both ? b[next][m] : Tensor(a[r][m].type);
                // Sums of a few dozen terms in another order, in fp64.
                EXPECT_LE(largest_difference(a[r][m], other), 1e-12 * (1 + largest(other)))
                    << names[r] << ", member " << m;
            }
            next += both ? 1 : 0;
        }
        EXPECT_EQ(next, b.size());
        GradientCheckOptions check;
        check.elements = 1;
        check.directions = 2;
        for (const GradientCheck& c : check_gradients(rolled, arguments, check))
            // Differences of a loss of about 1 in fp64 know nothing below 1e-10.
            EXPECT_TRUE(c.error < 1e-6 || std::abs(c.actual - c.expected) < 1e-10)
                << c.what << ": " << c.actual << ", by differences " << c.expected;
    }
}

TEST_P(RandomLoops, ArePlannedSoundly) {
    const std::string text = RandomProgram(static_cast<std::uint64_t>(GetParam())).text();
    SCOPED_TRACE(text);
    CompileOptions options;
    options.recompute = std::array{"none", "selective", "block"}.at(static_cast<std::size_t>(GetParam()) % 3);
    if (GetParam() % 4 == 3) options.executors = {"reference"};
    std::vector<Pass> passes = pipeline(options);
    const auto first =
        std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p.name == "differentiate"; });
    passes.erase(passes.begin(), first);
    std::vector<PassRun> runs;
    Module planned;
    ASSERT_NO_THROW(planned = run_passes(parse_module(text), passes, runs));
    EXPECT_EQ(plan_violations(planned), std::vector<std::string>());

    const Module plain = differentiated(parse_module(text), RecomputePolicy::none);
    const std::vector<Members> arguments = random_arguments(plain.main(), 5);
    const std::vector<Members> expected = evaluate(plain, plain.main(), std::span<const Members>(arguments));
    PlannedProgram program(planned);
    MicroBatch batch;
    for (std::size_t k = 0; k + 1 < plain.main().arguments.size(); ++k)  // the last is dloss
        for (std::size_t m = 0; m < arguments[k].size(); ++m) {
            const std::string& name = plain.main().argument_info[k].names[m];
            if (name == "x")
                batch[name] = arguments[k][m];
            else if (program.has(name))
                program.set(name, arguments[k][m]);
        }
    // Two micro-batches, so that gradients are overwritten and then added to: means of equals.
    const PlannedStep step = planned_gradients(program, {batch, batch});
    EXPECT_NEAR(step.loss, expected[0][0].at(0), 1e-5 * (1 + std::abs(expected[0][0].at(0))));
    std::size_t result = 1;
    for (std::size_t k = 0; k < plain.main().arguments.size(); ++k) {
        const ArgInfo& info = plain.main().argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter || !info.trainable) continue;
        for (std::size_t m = 0; m < info.names.size(); ++m)
            // f32 after every op, a few dozen of them in a row, against fp64: 100 * 2^-24.
            EXPECT_LE(largest_difference(program.get("grad." + info.names[m]), expected[result][m]),
                      6e-6 * (largest(expected[result][m]) + 1))
                << info.names[m];
        ++result;
    }
}

// Under sanitizers twelve programs: each recompute policy with each way of fusing.
INSTANTIATE_TEST_SUITE_P(Seeds, RandomLoops, ::testing::Range(0, short_form ? 12 : 60));

}  // namespace random_loops_test
}  // namespace thunderc
