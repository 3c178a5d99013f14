// SPDX-License-Identifier: Apache-2.0
// Losses of any number of terms, each divided by a weight of its own: loss and gradients of a step are the whole
// batch's, worked by hand, however it is cut into micro-batches and over ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compiler/check/check_plan.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "tests/planned/ranks.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace loss_terms_test {

constexpr std::int64_t rows = 2, width = 3;

double power(int term) {
    return 0.25 * term + 0.5;  // a float
}

// Term k is the mean of x * w over all elements, weighted by mask to the power of k's.
std::string means(int terms) {
    std::string ops, sum;
    for (int k = 0; k < terms; ++k) {
        ops += fmt::format(
            "  %f{0} = constant() {{value = <f32[] splat {1:.2f}>}} : f32[]\n  %p{0} = pow(%mask, %f{0}) : f32[2,3]\n"
            "  %q{0} = mul(%y, %p{0}) : f32[2,3]\n  %s{0} = reduce_sum(%q{0}) {{axes = [0, 1], keep_dims = false}} : "
            "f32[]\n  %n{0} = reduce_sum(%p{0}) {{axes = [0, 1], keep_dims = false}} : f32[]\n"
            "  %t{0} = div(%s{0}, %n{0}) : f32[]\n",
            k, power(k));
        if (k > 0) ops += fmt::format("  %a{0} = add({1}, %t{0}) : f32[]\n", k, sum);
        sum = fmt::format("%{}{}", k > 0 ? 'a' : 't', k);
    }
    return fmt::format(
        "module \"terms\" values\nfunc @main(%x: f32[2,3] input \"x\" {{batched}}, %mask: f32[2,3] input \"mask\" "
        "{{batched}}, %w: f32[3] parameter \"w\") -> ({} \"loss\") {{\n  %y = mul(%x, %w) : f32[2,3]\n{}}}\n",
        sum, ops);
}

Module planned(int terms, Mesh mesh) {
    CompileOptions options;
    options.mesh = mesh;
    std::vector<Pass> passes = pipeline(options);
    passes.erase(passes.begin(),
                 std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p.name == "add_loss"; }));
    const Module module = parse_module(means(terms));
    verify(module);
    std::vector<PassRun> runs;
    return run_passes(module, passes, runs);
}

struct Expected {
    double loss = 0, size = 0;  // size: of what adds up to the loss
    std::array<double, width> gradient{};
};

Expected by_hand(int terms, const std::vector<double>& w, const RankBatches& batches) {
    Expected out;
    for (int k = 0; k < terms; ++k) {
        double weight = 0;
        std::array<double, width> sums{};
        for (const std::vector<MicroBatch>& micro_step : batches)
            for (const MicroBatch& batch : micro_step)
                for (std::int64_t i = 0; i < rows * width; ++i) {
                    const double m = std::pow(batch.at("mask").at(i), power(k));
                    weight += m;
                    sums.at(static_cast<std::size_t>(i % width)) += batch.at("x").at(i) * m;
                }
        for (std::size_t j = 0; j < width; ++j) {
            out.gradient.at(j) += sums.at(j) / weight;
            out.loss += w[j] * sums.at(j) / weight;
            out.size += std::abs(w[j] * sums.at(j)) / weight;
        }
    }
    return out;
}

void expect_means_of_the_whole_batch(int terms, Mesh mesh) {
    SCOPED_TRACE(fmt::format("{} terms on {} x {} ranks", terms, mesh.replicas, mesh.shards));
    Module module;
    ASSERT_NO_THROW(module = planned(terms, mesh));
    ASSERT_EQ(plan_violations(module), std::vector<std::string>());
    ASSERT_EQ(loss_form(module).weights.size(), static_cast<std::size_t>(terms));

    // Two micro-steps; of the later micro-batches the weights are larger.
    std::mt19937_64 random(static_cast<std::uint64_t>(terms));
    const auto draw = [&](double from, double to) {
        Tensor t(Type::tensor(DType::f32, {rows, width}));
        for (std::int64_t i = 0; i < t.size(); ++i)
            t.set(i, static_cast<float>(from + (to - from) * static_cast<double>(random() >> 11) * 0x1p-53));
        return t;
    };
    RankBatches batches(2);
    double scale = 0.6;
    for (std::vector<MicroBatch>& micro_step : batches)
        for (std::int64_t r = 0; r < mesh.world(); ++r, scale += 0.1)
            micro_step.push_back({{"x", draw(0.5, 2)}, {"mask", draw(scale, scale + 0.2)}});
    const std::vector<double> w = {0.5, -0.25, 1.5};
    const Expected expected = by_hand(terms, w, batches);

    const auto run = [&](auto& program, const auto& step) {
        program.set("w", Tensor::floats({width}, w));
        clear_states(program);
        EXPECT_NEAR(step(), expected.loss, 2e-6 * expected.size);
    };
    // f32 after every op: mask to a power of up to 50 is off by some 50 * 2^-24 = 3e-6 where it is widest of 1, and
    // half of that cancels against its sum; a neighbour's weight changes one of 200 terms by 2%, a micro-batch's own by
    // more.
    const auto compare = [&](const Tensor& gradient) {
        for (std::size_t j = 0; j < width; ++j)
            EXPECT_NEAR(gradient.at(static_cast<std::int64_t>(j)), expected.gradient.at(j),
                        2e-6 * std::abs(expected.gradient.at(j)))
                << j;
    };
    if (mesh.world() == 1) {
        PlannedProgram program(module);
        run(program, [&] { return planned_gradients(program, {batches[0][0], batches[1][0]}).loss; });
        compare(program.get("grad.w"));
    } else {
        PlannedRanks ranks(module);
        run(ranks, [&] { return planned_gradients(ranks, batches).loss; });
        compare(ranks.get("grad.w"));
    }
}

class LossTerms : public testing::TestWithParam<int> {};

// In ten tests: all counts from 1 to 20, 110 and 200; with -DTHUNDERC_FULL=ON all to 200 (add_loss_test.cpp has what
// becomes of each of them); under sanitizers those to 9, and 200.
TEST_P(LossTerms, OfAnyNumberAreMeansOfTheWholeBatch) {
    const int first = short_form && GetParam() == 10 ? 200 : GetParam();
    for (int terms = first; terms <= 200; terms += full_form || terms <= 10 ? (short_form ? 200 : 10)
                                                   : GetParam() == 10       ? 90
                                                                            : 200)
        expect_means_of_the_whole_batch(terms, Mesh{});
}
INSTANTIATE_TEST_SUITE_P(Counts, LossTerms, testing::Range(1, 11));

TEST(LossTermsOfRanks, AreMeansOfTheWholeBatch) {
    for (const Mesh& mesh : {Mesh{2, 1}, Mesh{1, 2}, Mesh{2, 2}})
        for (int terms : short_form ? std::vector{2, 17} : std::vector{2, 16, 17, 33})
            expect_means_of_the_whole_batch(terms, mesh);
    if (!short_form) expect_means_of_the_whole_batch(200, Mesh{2, 2});
}

}  // namespace loss_terms_test
}  // namespace thunderc
