// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace recompute_test {

// Products of several sizes with activations between; what backward reads lies in memory in part alone.
constexpr const char* chain = R"(
func @main(
    %x: f32[16,8] input "x" {batched},
    %y: f32[16,4] input "y" {batched},
    %w1: f32[8,32] parameter "w1",
    %w2: f32[32,16] parameter "w2",
    %w3: f32[16,4] parameter "w3") -> (%loss "loss") {
  %h1 = matmul(%x, %w1) {transpose_a = false, transpose_b = false} : f32[16,32]
  %a1 = tanh(%h1) : f32[16,32]
  %b1 = exp(%a1) : f32[16,32]
  %h2 = matmul(%b1, %w2) {transpose_a = false, transpose_b = false} : f32[16,16]
  %a2 = sigmoid(%h2) : f32[16,16]
  %h3 = matmul(%a2, %w3) {transpose_a = false, transpose_b = false} : f32[16,4]
  %d = sub(%h3, %y) : f32[16,4]
  %s = mul(%d, %d) : f32[16,4]
  %loss = reduce_sum(%s) {axes = [0, 1], keep_dims = false} : f32[]
}
)";

// A second for each MFLOP and for each megabyte: products cost more than what is between them.
double seconds_of(const Function& f, const Op& op) {
    const OpDef& def = op_def(op.name);
    double bytes = 0;
    for (Value v : op.operands)
        if (v) bytes += static_cast<double>(f.type(v).bytes());
    for (Value v : op.results) bytes += static_cast<double>(f.type(v).bytes());
    return 1e-6 * (def.flops ? def.flops(op, f) : bytes);
}

struct Split {
    double bytes = 0, seconds = 0;  // saved; computed again, as far as it is paid for
    std::size_t saved = 0;
    std::vector<double> steps;
    double least = 0;  // of bytes and seconds at the price, over every set of ops that could be computed again
};

bool in_memory(const Function& f, Value v) {
    for (const Op& op : f.ops) {
        const bool reads = std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end();
        if (reads && op_def(op.name).recompute == Recompute::expensive) return true;
        if (reads && is_view(op) && in_memory(f, op.results[0])) return true;
    }
    return false;
}

// By trying: each subset of the ops of the forward pass that may be computed again, with all that it needs saved.
double least_by_trying(const SplitPoint& split, double price) {
    const Function& f = split.function;
    std::vector<std::size_t> free;  // constants and views are at hand in any case
    for (std::size_t k = 0; k < split.forward_ops; ++k) free.push_back(k);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t set = 0; set < std::size_t{1} << free.size(); ++set) {
        Mask needed = split.needed, made(f.values.size(), false);
        double cost = 0;
        for (std::size_t k = free.size(); k-- > 0;) {
            if ((set >> k & 1) == 0) continue;
            const Op& op = f.ops[free[k]];
            made[op.results[0].index] = true;
            for (Value v : op.operands) needed[v.index] = true;
            const bool paid =
                !is_view(op) && (op_def(op.name).recompute == Recompute::expensive || in_memory(f, op.results[0]));
            if (paid) cost += price * seconds_of(f, op);
        }
        for (std::size_t k = 0; k < split.forward_ops; ++k)
            if (const Value v = f.ops[k].results[0]; needed[v.index] && !made[v.index])
                cost += static_cast<double>(f.type(v).bytes());
        least = std::min(least, cost);
    }
    return least;
}

Split split_at(const char* text, double price, bool tries = false) {
    Split out;
    Report report;
    DifferentiateOptions options;
    options.keeping.policy = RecomputePolicy::priced;
    options.keeping.price = price;
    options.keeping.seconds = seconds_of;
    options.keeping.on_split = [&](const SplitPoint& split, const Mask& saved, std::span<const std::size_t> again) {
        for (std::uint32_t v = 0; v < saved.size(); ++v)
            if (saved[v] && !split.available[v]) {
                out.bytes += static_cast<double>(split.function.type(Value{v}).bytes());
                ++out.saved;
            }
        out.seconds = seconds_again(split, options.keeping, again);
        out.steps = price_steps(split, options.keeping);
        if (tries) out.least = least_by_trying(split, price);
    };
    const Module module = differentiate(parsed(text), options, report);
    verify(module);
    // What is computed again has the same bits in the evaluator, at any price.
    const Module plain = differentiate(parsed(text), {}, report);
    const std::vector<Members> arguments = random_arguments(plain.main(), 5);
    expect_same_bits(evaluate(module, module.main(), std::span<const Members>(arguments)),
                     evaluate(plain, plain.main(), std::span<const Members>(arguments)));
    return out;
}

// The cut is as cheap as the cheapest of all sets, at any price.
TEST(Recompute, NoSetIsCheaper) {
    std::vector<double> prices = {0, 1, 1e12};
    for (const double step : split_at(chain, 0).steps)
        for (const double beside : {0.5, 0.95, 1.0, 1.05, 2.0}) prices.push_back(beside * step);
    for (const double price : prices) {
        const Split split = split_at(chain, price, true);
        EXPECT_NEAR(split.bytes + price * split.seconds, split.least, 1e-9 * (split.least + 1)) << price;
    }
}

// Between two steps the set is the same, behind each one other; more is kept and less computed again as a byte gets
// cheaper.
TEST(Recompute, StepsAreWhereTheSetChanges) {
    const std::vector<double> steps = split_at(chain, 0).steps;
    ASSERT_GE(steps.size(), 3U);
    for (std::size_t k = 0; k < steps.size(); ++k) {
        const double next = k + 1 < steps.size() ? steps[k + 1] : 2 * steps[k];
        const Split below = split_at(chain, steps[k] * 0.999), above = split_at(chain, steps[k] * 1.001),
                    end = split_at(chain, next * (k + 1 < steps.size() ? 0.999 : 1));
        EXPECT_GT(above.bytes, below.bytes) << steps[k];
        EXPECT_LT(above.seconds, below.seconds) << steps[k];
        EXPECT_EQ(above.bytes, end.bytes) << steps[k];
        EXPECT_EQ(above.seconds, end.seconds) << steps[k];
    }
}

// At no price is what only kernels read worth a byte more than what they read it from: the product's result behind
// tanh, and tanh behind exp, which products do not read.
TEST(Recompute, WhatKernelsReadIsComputedInThem) {
    const Split dear = split_at(chain, 1e12);
    EXPECT_EQ(dear.seconds, 0);
    EXPECT_EQ(dear.saved, 4U);  // %b1 and %a2, which products read; of %h1 and %a1, and of %h3 and %d, one
    EXPECT_EQ(dear.bytes, 4 * (2 * 16 * 32 + 16 * 16 + 16 * 4));
}

// Where it is computed again none of its results is kept: what it consists of, which would give the rest, has the
// scores.
TEST(Recompute, AttentionIsKeptWholeOrNotAtAll) {
    constexpr const char* attention = R"(
func @main(
    %x: f32[2,8,16] input "x" {batched},
    %w: f32[16,16] parameter "w") -> (%loss "loss") {
  %l = linear(%x, %w) : f32[2,8,16]
  %q = reshape(%l) {dims = [2, 8, 2, 8]} : f32[2,8,2,8]
  %out, %lse = sdpa(%q, %q, %q) {causal = true, scale = 0.35355339059327373} : f32[2,8,2,8], f32[2,2,8]
  %s = mul(%out, %out) : f32[2,8,2,8]
  %loss = reduce_sum(%s) {axes = [0, 1, 2, 3], keep_dims = false} : f32[]
}
)";
    constexpr double lse = 4 * 2 * 2 * 8, out = 4 * 2 * 8 * 16;
    for (double price = 1; price < 1e12; price *= 3) {
        const double bytes = split_at(attention, price).bytes;
        // Of the product, attention or both.
        EXPECT_TRUE(bytes == 0 || bytes == out || bytes == out + lse || bytes == 2 * out + lse)
            << price << ": " << bytes;
    }
    EXPECT_EQ(split_at(attention, 0).bytes, 0);
    EXPECT_EQ(split_at(attention, 1e12).bytes, 2 * out + lse);
}

}  // namespace recompute_test
}  // namespace thunderc
