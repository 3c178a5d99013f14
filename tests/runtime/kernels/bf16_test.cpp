// SPDX-License-Identifier: Apache-2.0
// Calls on bf16: each against the same call on the same numbers in f32, which other tests hold against fp64. What is
// stored as bf16 is rounded once, to nearest: by up to 2^-8 of itself.
#include "device/cpu/bf16.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "check.h"
#include "device/api.h"
#include "device/cpu/activations.h"
#include "device/cpu/products.h"
#include "optim/global_norm.h"
#include "optim/rounding.h"
#include "support/error.h"
#include "support/philox.h"
#include "update_calls.h"

namespace thunder {
namespace bf16_test {

using testing::random;

std::vector<bf16> rounded(const std::vector<float>& v) {
    std::vector<bf16> out;
    for (const float x : v) out.push_back(to_bf16(x));
    return out;
}

std::vector<float> widened(const std::vector<bf16>& v) {
    std::vector<float> out;
    for (const bf16 x : v) out.push_back(to_float(x));
    return out;
}

// Random numbers that bf16 holds, in both types.
struct Both {
    std::vector<bf16> low;
    std::vector<float> high;
    Both(std::int64_t n, unsigned seed, float scale = 1.0F)
        : low(rounded(random(n, seed, scale))), high(widened(low)) {}
};

// `sums`: of what was added up, whose order may differ.
void expect_rounded(const std::vector<bf16>& got, const std::vector<float>& expected, double sums, const char* what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const auto e = static_cast<double>(expected[i]);
        ASSERT_LE(std::abs(static_cast<double>(to_float(got[i])) - e), 0x1p-8 * 1.0001 * std::abs(e) + 1e-6 * sums)
            << what << " at " << i;
    }
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, double sums, const char* what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6 * sums) << what << " at " << i;
}

TEST(Bf16, IsRoundedToNearestAndTiesToEven) {
    // every bf16 is itself; between it and the next one the nearer is taken, at the middle the even one
    for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
        const float x = to_float(bf16{static_cast<std::uint16_t>(bits)});
        EXPECT_EQ(bits_of(to_bf16(x)), bits);
        EXPECT_EQ(bits_of(to_bf16(-x)), bits | 0x8000U);
        const auto between = [bits](std::uint32_t low) { return math::float_of((bits << 16U) | low); };
        EXPECT_EQ(bits_of(to_bf16(between(0x7fff))), bits);
        EXPECT_EQ(bits_of(to_bf16(between(0x8001))), bits + 1);
        EXPECT_EQ(bits_of(to_bf16(between(0x8000))), bits + bits % 2);
    }
    EXPECT_EQ(bits_of(to_bf16(INFINITY)), 0x7f80);
    EXPECT_EQ(bits_of(to_bf16(-INFINITY)), 0xff80);
    EXPECT_EQ(bits_of(to_bf16(3.4028235e38F)), 0x7f80);  // the largest float is nearer to 2^128
    for (const std::uint32_t nan : {0x7fc00000U, 0x7f800001U, 0xffffffffU})
        EXPECT_TRUE(std::isnan(to_float(to_bf16(math::float_of(nan)))));
}

struct Shape {
    std::int64_t rows, in, out;
};
constexpr Shape shapes[] = {{1, 1, 1}, {3, 5, 17}, {33, 64, 48}, {40, 129, 24}, {64, 1600, 40}};

TEST(Bf16, LinearForwardRoundsOnce) {
    Device device(2);
    Stream stream(device);
    for (const Shape& s : shapes) {
        const Both x(s.rows * s.in, 1), w(s.out * s.in, 2), bias(s.out, 3), residual(s.rows * s.out, 4);
        const auto n = static_cast<std::size_t>(s.rows * s.out);
        const double sums = 8 * std::sqrt(static_cast<double>(s.in));
        for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::silu}) {
            for (const bool adds : {false, true}) {
                std::vector<float> y(n);
                std::vector<bf16> low(n);
                LinearForward call{.x = x.high.data(),
                                   .weight = w.high.data(),
                                   .activation = activation,
                                   .rows = s.rows,
                                   .in = s.in,
                                   .out = s.out};
                call.y = y.data();
                if (adds) call.bias = bias.high.data(), call.residual = residual.high.data();
                linear_forward(call, stream);
                call.y = low.data(), call.x = x.low.data(), call.weight = w.low.data();
                if (adds) call.bias = bias.low.data(), call.residual = residual.low.data();
                linear_forward(call, stream);
                expect_rounded(low, y, sums, "y");
                if (!adds) continue;
                low = residual.low;  // the residual in the place of y
                call.residual = low.data(), call.y = low.data();
                linear_forward(call, stream);
                expect_rounded(low, y, sums, "y over the residual");
            }
        }
        std::vector<float> y(n), pre(n);
        std::vector<bf16> low(n), low_pre(n);
        linear_forward({.y = y.data(),
                        .x = x.high.data(),
                        .weight = w.high.data(),
                        .pre_activation = pre.data(),
                        .rows = s.rows,
                        .in = s.in,
                        .out = s.out},
                       stream);
        linear_forward({.y = low.data(),
                        .x = x.low.data(),
                        .weight = w.low.data(),
                        .activation = Activation::gelu,
                        .pre_activation = low_pre.data(),
                        .rows = s.rows,
                        .in = s.in,
                        .out = s.out},
                       stream);
        expect_rounded(low_pre, pre, sums, "pre_activation");
        std::vector<float> again = widened(low_pre);
        for (float& v : again) v = math::gelu(v);  // of what is kept
        expect_rounded(low, again, 0, "y of what is kept");
    }
}

TEST(Bf16, LinearBackwardGivesGradientsOfEitherType) {
    Device device(2);
    Stream stream(device);
    for (const Shape& s : shapes) {
        const Both x(s.rows * s.in, 1), w(s.out * s.in, 2), dy(s.rows * s.out, 3), residual(s.rows * s.in, 4),
            before(s.out * s.in, 5);
        std::vector<float> dx(static_cast<std::size_t>(s.rows * s.in));
        std::vector<bf16> low_dx(dx.size());
        LinearBackwardInput input{.dx = dx.data(),
                                  .dy = dy.high.data(),
                                  .weight = w.high.data(),
                                  .residual = residual.high.data(),
                                  .rows = s.rows,
                                  .in = s.in,
                                  .out = s.out};
        linear_backward_input(input, stream);
        input.dx = low_dx.data(), input.dy = dy.low.data(), input.weight = w.low.data();
        input.residual = residual.low.data();
        linear_backward_input(input, stream);
        expect_rounded(low_dx, dx, 8 * std::sqrt(static_cast<double>(s.out)), "dx");

        for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
            std::vector<float> dw = before.high, f32_dw = before.high, db(static_cast<std::size_t>(s.out)), f32_db = db;
            std::vector<bf16> low_dw = before.low, low_db(db.size());
            LinearBackwardWeight call{.dweight = dw.data(),
                                      .dbias = db.data(),
                                      .dy = dy.high.data(),
                                      .x = x.high.data(),
                                      .mode = mode,
                                      .rows = s.rows,
                                      .in = s.in,
                                      .out = s.out};
            linear_backward_weight(call, stream);
            call.dweight = f32_dw.data(), call.dbias = f32_db.data(), call.dy = dy.low.data(), call.x = x.low.data();
            linear_backward_weight(call, stream);
            const double sums = 8 * std::sqrt(static_cast<double>(s.rows));
            expect_near(f32_dw, dw, sums, "dweight in f32");
            expect_near(f32_db, db, sums, "dbias in f32");
            call.dweight = low_dw.data(), call.dbias = low_db.data();
            linear_backward_weight(call, stream);
            expect_rounded(low_dw, dw, sums, "dweight in bf16");
            expect_rounded(low_db, db, sums, "dbias in bf16");
        }
    }
}

TEST(Bf16, BatchedProductsShareAMatrix) {
    Device device(2);
    Stream stream(device);
    const Both a(3 * 5 * 7, 1), b(7 * 9, 2);
    std::vector<float> c(3 * 5 * 9);
    std::vector<bf16> low(c.size());
    for (const bool transpose_b : {false, true}) {
        Matmul call{.c = c.data(),
                    .a = a.high.data(),
                    .b = b.high.data(),
                    .transpose_b = transpose_b,
                    .batch = 3,
                    .m = 5,
                    .n = 9,
                    .k = 7,
                    .stride_a = 35,
                    .stride_b = 0,
                    .stride_c = 45};
        matmul(call, stream);
        call.c = low.data(), call.a = a.low.data(), call.b = b.low.data();
        matmul(call, stream);
        expect_rounded(low, c, 20, "c");
    }
}

TEST(Bf16, AttentionRoundsItsResultsAlone) {
    Device device(2);
    Stream stream(device);
    const std::int64_t B = 2, T = 37, NH = 4, KVH = 2;
    for (const std::int64_t HS : {std::int64_t{8}, std::int64_t{32}}) {
        const Both q(B * T * NH * HS, 1), k(B * T * KVH * HS, 2), v(B * T * KVH * HS, 3), dout(B * T * NH * HS, 4);
        AttentionForward call{.q = q.high.data(),
                              .k = k.high.data(),
                              .v = v.high.data(),
                              .causal = true,
                              .scale = 0.3F,
                              .B = B,
                              .T = T,
                              .S = T,
                              .NH = NH,
                              .KVH = KVH,
                              .HS = HS};
        std::vector<float> out(q.high.size()), lse(static_cast<std::size_t>(B * NH * T)), low_lse = lse;
        std::vector<bf16> low_out(out.size());
        call.out = out.data(), call.lse = lse.data();
        attention_forward(call, stream);
        call.out = low_out.data(), call.lse = low_lse.data();
        call.q = q.low.data(), call.k = k.low.data(), call.v = v.low.data();
        attention_forward(call, stream);
        expect_rounded(low_out, out, 4, "out");
        expect_near(low_lse, lse, 10, "lse");

        // both from the out that is kept in bf16
        const std::vector<float> kept = widened(low_out);
        std::vector<float> dq(q.high.size()), dk(k.high.size()), dv(v.high.size());
        std::vector<bf16> low_dq(dq.size()), low_dk(dk.size()), low_dv(dv.size());
        AttentionBackward back{.dq = dq.data(),
                               .dk = dk.data(),
                               .dv = dv.data(),
                               .dout = dout.high.data(),
                               .q = q.high.data(),
                               .k = k.high.data(),
                               .v = v.high.data(),
                               .out = kept.data(),
                               .lse = lse.data(),
                               .causal = true,
                               .scale = 0.3F,
                               .B = B,
                               .T = T,
                               .S = T,
                               .NH = NH,
                               .KVH = KVH,
                               .HS = HS};
        attention_backward(back, stream);
        back.dq = low_dq.data(), back.dk = low_dk.data(), back.dv = low_dv.data(), back.dout = dout.low.data();
        back.q = q.low.data(), back.k = k.low.data(), back.v = v.low.data(), back.out = low_out.data();
        attention_backward(back, stream);
        expect_rounded(low_dq, dq, 60, "dq");
        expect_rounded(low_dk, dk, 60, "dk");
        expect_rounded(low_dv, dv, 60, "dv");
    }
}

TEST(Bf16, EmbeddingMovesRowsAndSumsInF32) {
    Device device(2);
    Stream stream(device);
    const std::int64_t rows = 500, entries = 11, width = 37;
    const Both table(entries * width, 1), dy(rows * width, 2), before(entries * width, 3);
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < rows; ++i) ids.push_back(i * i % 7);
    std::vector<bf16> y(static_cast<std::size_t>(rows * width));
    embedding_forward({.y = y.data(),
                       .weight = table.low.data(),
                       .ids = ids.data(),
                       .rows = rows,
                       .entries = entries,
                       .width = width},
                      stream);
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t c = 0; c < width; ++c)
            ASSERT_EQ(bits_of(y[static_cast<std::size_t>(i * width + c)]),
                      bits_of(table.low[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)] * width + c)]));
    for (const WriteMode mode : {WriteMode::overwrite, WriteMode::add}) {
        std::vector<float> dw = before.high, f32_dw = before.high;
        std::vector<bf16> low_dw = before.low;
        EmbeddingBackward call{.dweight = dw.data(),
                               .dy = dy.high.data(),
                               .ids = ids.data(),
                               .mode = mode,
                               .rows = rows,
                               .entries = entries,
                               .width = width};
        embedding_backward(call, stream);
        call.dweight = f32_dw.data(), call.dy = dy.low.data();
        embedding_backward(call, stream);
        EXPECT_EQ(f32_dw, dw);
        call.dweight = low_dw.data();
        embedding_backward(call, stream);
        expect_rounded(low_dw, dw, 0, "dweight");
    }
}

TEST(Bf16, CrossEntropyIsF32ButForTheGradient) {
    Device device(2);
    Stream stream(device);
    const std::int64_t rows = 9, classes = 131;
    Both logits(rows * classes, 1, 4);
    std::vector<std::int64_t> labels = {0, 130, 7, -100, 64, 64, 3, 99, -100};
    float loss = 0, low_loss = 0;
    std::vector<float> lse(rows), low_lse(rows), d(logits.high.size());
    CrossEntropyForward forward{.loss = &loss,
                                .lse = lse.data(),
                                .logits = logits.high.data(),
                                .labels = labels.data(),
                                .rows = rows,
                                .classes = classes};
    cross_entropy_forward(forward, stream);
    forward.loss = &low_loss, forward.lse = low_lse.data(), forward.logits = logits.low.data();
    cross_entropy_forward(forward, stream);
    EXPECT_EQ(loss, low_loss);
    EXPECT_EQ(lse, low_lse);
    const float dloss = 0.125F;
    CrossEntropyBackward backward{.dlogits = d.data(),
                                  .logits = logits.high.data(),
                                  .labels = labels.data(),
                                  .lse = lse.data(),
                                  .dloss = &dloss,
                                  .rows = rows,
                                  .classes = classes};
    cross_entropy_backward(backward, stream);
    backward.dlogits = logits.low.data(), backward.logits = logits.low.data();  // in place
    cross_entropy_backward(backward, stream);
    expect_rounded(logits.low, d, 1, "dlogits");
}

const std::vector<ParameterSegment> segments = {{3, 201, true}, {216, 900, false}};

TEST(Bf16, OptimizersWriteTheBf16CopiesOfWhatTheyStep) {
    Device device(2);
    Stream stream(device);
    const std::int64_t n = 1000;
    const Both g(n, 1), start(n, 2);
    std::vector<float> scratch(static_cast<std::size_t>(tensor_scratch(std::vector<std::int64_t>{n})));
    for (const NamedUpdate& named : updates) {
        SCOPED_TRACE(named.rule);
        const RuleInfo& rule = *find_rule(named.rule);
        StepScalars s;
        const std::vector<double> numbers = rule.step_numbers(usual_options(rule), {1e-2, 0.1, 2});
        std::copy(numbers.begin(), numbers.end(), s.rule);
        s.clip_factor = 0.5F;
        std::vector<std::vector<float>> high;
        std::vector<std::vector<bf16>> low;
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            high.push_back(Both(n, 3 + static_cast<unsigned>(k), 0.1F).high);
            for (float& x : high.back()) x = std::abs(x);
            low.push_back(rounded(high.back()));
        }
        const auto step = [&](auto& p, const auto& gradients, auto& states, bf16* narrow_copies) {
            OptimizerUpdate call{.parameters = p.data(),
                                 .gradients = gradients.data(),
                                 .narrow_copies = narrow_copies == nullptr ? Output() : Output(narrow_copies),
                                 .segments = segments,
                                 .scalars = &s,
                                 .scratch = scratch.data()};
            for (std::size_t k = 0; k < states.size(); ++k) call.states[k] = states[k].data();
            named.call(call, stream);
        };
        std::vector<float> p = start.high, p2 = p;
        std::vector<std::vector<float>> first = high, second = high;
        step(p, g.high, first, nullptr);
        // masters in f32, gradients in bf16
        std::vector<bf16> narrow_copies(static_cast<std::size_t>(n), bf16{0x1234});
        step(p2, g.low, second, narrow_copies.data());
        EXPECT_NE(p, start.high);
        EXPECT_EQ(p2, p);
        EXPECT_EQ(second, first);
        std::vector<bool> stepped(static_cast<std::size_t>(n), false);
        for (const ParameterSegment& segment : segments)
            for (std::int64_t i = segment.begin; i < segment.end; ++i) stepped[static_cast<std::size_t>(i)] = true;
        for (std::size_t i = 0; i < narrow_copies.size(); ++i)
            ASSERT_EQ(bits_of(narrow_copies[i]), stepped[i] ? bits_of(to_bf16(p[i])) : 0x1234) << i;
        // everything in bf16
        std::vector<bf16> p3 = start.low;
        step(p3, g.low, low, nullptr);
        expect_rounded(p3, p, 0, "parameters");
        for (std::size_t k = 0; k < low.size(); ++k) expect_rounded(low[k], first[k], 0, rule.states[k].c_str());
    }
}

// A number goes to one of the two beside it, and so often to the upper one that the mean is the number: 65536 elements
// are rounded up by chance p in p +- 5 sqrt(p (1 - p) / 65536) of the cases, but for one of 3 million such tests.
TEST(StochasticRounding, IsTheNumberOnAverage) {
    constexpr std::int64_t elements = 65536;
    const std::uint64_t of_step = rounding_of_step(7, 3);
    for (const float x : {1.0F, 1.001F, -1.001F, 3.14159F, 1e-30F, -0.00390625F, 1e-40F, 0.0F}) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), cut = bits & 0xFFFF;
        const double chance = static_cast<double>(cut) / 65536;
        std::int64_t up = 0;
        for (std::int64_t i = 0; i < elements; ++i) {
            const std::uint32_t got =
                rounded_at_random(bits, rounding_bits(of_step, 11, static_cast<std::uint64_t>(i)));
            ASSERT_TRUE(got == bits >> 16 || (cut != 0 && got == (bits >> 16) + 1)) << x;
            up += got == bits >> 16 ? 0 : 1;
        }
        EXPECT_NEAR(static_cast<double>(up) / elements, chance, 5 * std::sqrt(chance * (1 - chance) / elements)) << x;
    }
    for (const float x : {HUGE_VALF, -HUGE_VALF, NAN}) {
        const std::uint16_t got = rounded_at_random(std::bit_cast<std::uint32_t>(x), 0xFFFF);
        const float back = to_float(bf16{got});
        EXPECT_TRUE(std::isnan(x) ? std::isnan(back) : back == x) << x;
    }
    // A NaN whose mark lies in what is cut off stays one.
    EXPECT_TRUE(std::isnan(to_float(bf16{rounded_at_random(0x7F800001, 0)})));
}

// The 16 bits that decide are as likely 0 as 1 each, and those of neighbours, of other steps and of other tensors have
// nothing to do with one another.
TEST(StochasticRounding, BitsAreIndependent) {
    constexpr std::int64_t elements = 65536;
    const auto bits_of = [&](std::uint64_t of_step, std::uint64_t tensor) {
        std::vector<std::uint32_t> out;
        for (std::uint64_t i = 0; i < elements; ++i) out.push_back(rounding_bits(of_step, tensor, i));
        return out;
    };
    const std::uint64_t first = rounding_of_step(0, 0);
    const std::vector<std::uint32_t> a = bits_of(first, hash_text("w"));
    std::vector<std::uint32_t> shifted(a.begin() + 1, a.end());
    shifted.push_back(a[0]);
    const std::vector<std::uint32_t> others[] = {shifted, bits_of(rounding_of_step(0, 1), hash_text("w")),
                                                 bits_of(rounding_of_step(1, 0), hash_text("w")),
                                                 bits_of(first, hash_text("v"))};
    const double bound = 5 * std::sqrt(0.25 / elements);
    for (int bit = 0; bit < 16; ++bit) {
        const auto share = [&](auto&& is_set) {
            std::int64_t count = 0;
            for (std::size_t i = 0; i < elements; ++i) count += is_set(i) >> bit & 1;
            return static_cast<double>(count) / elements;
        };
        EXPECT_NEAR(share([&](std::size_t i) { return a[i]; }), 0.5, bound) << bit;
        for (const auto& b : others) EXPECT_NEAR(share([&](std::size_t i) { return a[i] ^ b[i]; }), 0.5, bound) << bit;
    }
}

// Steps of a hundredth of a unit in the last place: to the nearest nothing moves; at random a thousand steps of 4096
// elements move by their sum, on average. Each moves by 0 or a whole unit, so that the mean of all strays by
// unit sqrt(0.01 * 1000 / 4096): 5 of these are the bound.
TEST(StochasticRounding, SmallStepsAreNotLost) {
    constexpr std::int64_t n = 4096;
    Device device(2);
    Stream stream(device);
    const double unit = 0x1p-7;  // of numbers from 1 to 2
    const std::vector<float> g(n, 1);
    for (const bool at_random : {false, true}) {
        std::vector<bf16> p(n, to_bf16(1.5F));
        for (std::int64_t step = 0; step < 1000; ++step) {
            StepScalars s;
            const std::vector<double> numbers = find_rule("plain_sgd")->step_numbers({}, {-0.01 * unit, 0, 1});
            std::copy(numbers.begin(), numbers.end(), s.rule);
            s.rounding = at_random ? rounding_of_step(1, step) : 0;
            const ParameterSegment all[] = {{0, n, true, 0, 5, 0}};
            plain_sgd({.parameters = p.data(), .gradients = g.data(), .segments = all, .scalars = &s}, stream);
        }
        double mean = 0;
        for (const bf16 x : p) mean += to_float(x) / static_cast<double>(n);
        if (at_random)
            EXPECT_NEAR(mean, 1.5 + 10 * unit, 5 * unit * std::sqrt(0.01 * 1000 / n));
        else
            EXPECT_EQ(mean, 1.5);
    }
}

// What decides follows from the tensor's element, not from where in an arena it lies: a tensor whole, and in pieces at
// other places.
TEST(StochasticRounding, IsTheSameOfShards) {
    Device device(2);
    Stream stream(device);
    const std::int64_t n = 5000;
    const Both g(n, 1), start(n, 2);
    StepScalars s;
    s.rounding = rounding_of_step(3, 4);
    const std::vector<double> numbers = find_rule("plain_sgd")->step_numbers({}, {1e-2, 0.1, 1});
    std::copy(numbers.begin(), numbers.end(), s.rule);
    const auto run = [&](const std::vector<std::array<std::int64_t, 3>>& pieces) {  // of the tensor, and where
        std::vector<bf16> arena(2 * n), out(n);
        std::vector<float> gradients(2 * n);
        std::vector<ParameterSegment> segments;
        for (const auto& [begin, end, at] : pieces) {
            std::copy(start.low.begin() + begin, start.low.begin() + end, arena.begin() + at);
            std::copy(g.high.begin() + begin, g.high.begin() + end, gradients.begin() + at);
            segments.push_back({at, at + end - begin, true, 0, 77, begin});
        }
        plain_sgd({.parameters = arena.data(), .gradients = gradients.data(), .segments = segments, .scalars = &s},
                  stream);
        for (const auto& [begin, end, at] : pieces)
            std::copy(arena.begin() + at, arena.begin() + at + end - begin, out.begin() + begin);
        std::vector<std::uint16_t> bits;
        for (const bf16 x : out) bits.push_back(bits_of(x));
        return bits;
    };
    const auto whole = run({{0, n, 0}});
    EXPECT_EQ(run({{0, 1, 7}, {1, 1030, 19}, {1030, n, 3000}}), whole);
    s.rounding = 0;
    EXPECT_NE(run({{0, n, 0}}), whole);
}

TEST(Bf16, TheNormOfGradientsIsThatOfTheirValues) {
    Device device(2);
    Stream stream(device);
    const Both g(50001, 1);
    double high = 0, low = 0;
    sum_of_squares(&high, g.high.data(), 50001, stream);
    sum_of_squares(&low, g.low.data(), 50001, stream);
    EXPECT_EQ(high, low);
}

TEST(Bf16, ConvertsBothWays) {
    Device device(2);
    Stream stream(device);
    const std::vector<float> x = random(70001, 1);
    std::vector<bf16> low(x.size());
    std::vector<float> back(x.size());
    convert(low.data(), x.data(), 70001, stream);
    convert(back.data(), low.data(), 70001, stream);
    for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(bits_of(low[i]), bits_of(to_bf16(x[i])));
        ASSERT_EQ(back[i], to_float(low[i]));
    }
}

std::string refused(const char* asked) {
    try {
        native_products(DType::bf16, asked);
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

TEST(Bf16Ways, AreNamedOrRefused) {
    EXPECT_FALSE(native_products(DType::bf16, "emulated"));
    const std::string help =
        "\nhelp: set it to native or to emulated, or leave it unset: native where the CPU has instructions for bf16";
    EXPECT_EQ(refused("garbage"),
              "error: THUNDER_BF16 is 'garbage': a program multiplies bf16 natively or emulated" + help);
    EXPECT_EQ(refused(""), "error: THUNDER_BF16 is '': a program multiplies bf16 natively or emulated" + help);
}

// The library on an older CPU: in a process of its own, since it looks once.
TEST(Bf16Ways, NativeNeedsALibraryThatMultipliesBf16) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto ask = [] {
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        const std::string text = refused("native");
        std::fputs(text.c_str(), stderr);
        std::exit(text.empty() ? 0 : 1);
    };
    EXPECT_EXIT(ask(), ::testing::ExitedWithCode(1),
                "error: THUNDER_BF16 is native, and .* has no products of bf16 on this CPU\n"
                "help: leave THUNDER_BF16 unset, or set it to emulated");
}

}  // namespace bf16_test
}  // namespace thunder
