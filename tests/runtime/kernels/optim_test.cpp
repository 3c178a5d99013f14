// SPDX-License-Identifier: Apache-2.0
// The optimizers against torch's formulas in fp64, and the norm's fixed tree.
#include <bit>
#include <numeric>

#include "check.h"
#include "device/cpu/bf16.h"
#include "device/cpu/f16.h"
#include "narrow_steps.h"
#include "optim/global_norm.h"
#include "trajectories.h"
#include "update_calls.h"

namespace thunder {
namespace optim_test {

using testing::expect_close;
using testing::random;
using testing::wide;

constexpr std::int64_t elements = 70013;
// two with decay, one without, holes between them
const std::vector<ParameterSegment> segments = {{3, 20001, true}, {20016, 20031, false}, {20032, 70000, true}};

constexpr double learning_rate = 1e-3, weight_decay = 0.1;

StepScalars scalars_of(const char* rule, const std::vector<double>& options, int step) {
    StepScalars s;
    const std::vector<double> numbers =
        find_rule(rule)->step_numbers(options, {learning_rate, weight_decay, step + 1.0});
    std::copy(numbers.begin(), numbers.end(), s.rule);
    s.step = step;
    s.clip_factor = 0.5F;
    return s;
}
StepScalars adamw_scalars(int step) {
    return scalars_of("adamw", {0.9, 0.999, 1e-8}, step);
}

template <typename T>
struct OnHost {
    explicit OnHost(std::vector<T> v) : elements(std::move(v)) {}
    T* data() { return elements.data(); }
    const std::vector<T>& values() const { return elements; }
    std::vector<T> elements;
};

TEST(Optimizers, FollowTorchForAHundredSteps) {
    Device device(2);
    Stream stream(device);
    for (const Trajectory& t : trajectories) {
        SCOPED_TRACE(t.name);
        expect_trajectory_in_f32<OnHost>(t, stream);
    }
    expect_every_rule(trajectories);
}

TEST(Optimizers, StepWholesThatLieInNarrowTypes) {
    Device device(2);
    Stream stream(device);
    expect_whole_steps_in_narrow_types<OnHost>(stream);
}

TEST(Adafactor, StepsTensorsOfAnyShape) {
    Device device(2);
    Stream stream(device);
    expect_adafactor_of_any_shape<OnHost>(stream, [](std::size_t n, unsigned seed) { return random(n, seed); });
}

// Torch iterates matrices in bf16, whose numbers are off by 2^-9 of themselves: in each step the direction is, by some
// of these, of a rate of 0.01; steps do not take them back.
TEST(Muon, IsTorchsButForBf16) {
    Device device(2);
    Stream stream(device);
    for (const Trajectory& t : rounded_trajectories) {
        SCOPED_TRACE(t.name);
        expect_trajectory_in_f32<OnHost>(t, stream, rounded_tolerance);
    }
}

// A matrix that lies the other way is stepped the other way, where the size of steps goes by the longer side; its
// neighbours are left alone. Of sizes that no tile has, in all types.
TEST(Muon, StepsATransposedMatrixAlike) {
    constexpr std::int64_t rows = 37, columns = 150, n = rows * columns, at = 19;
    Device device(2);
    Stream stream(device);
    const std::vector<double> numbers = find_rule("muon")->step_numbers({0.9, 0, 1, 0, 0.9, 0.95, 1e-8}, {0.1, 0.1, 1});
    StepScalars scalars;
    std::copy(numbers.begin(), numbers.end(), scalars.rule);
    scalars.clip_factor = 0.5F;
    const auto run = [&](std::vector<float> p, std::vector<float> m, const std::vector<float>& g, bool transposed) {
        const ParameterSegment segment[] = {{.begin = at,
                                             .end = at + n,
                                             .decay = true,
                                             .rows = transposed ? columns : rows,
                                             .columns = transposed ? rows : columns}};
        std::vector<float> scratch(static_cast<std::size_t>(matrix_scratch(rows, columns)));
        muon({.parameters = p.data(),
              .gradients = g.data(),
              .states = {m.data()},
              .segments = segment,
              .scalars = &scalars,
              .scratch = scratch.data()},
             stream);
        return p;
    };
    const auto transpose = [&](std::vector<float> x) {
        const std::vector<float> from = x;
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < columns; ++j) x[at + j * rows + i] = from[at + i * columns + j];
        return x;
    };
    const std::vector<float> p = random(n + 40, 1), m = random(n + 40, 2), g = random(n + 40, 3);
    const std::vector<float> wide_one = run(p, m, g, false),
                             tall_one = run(transpose(p), transpose(m), transpose(g), true);
    expect_close(tall_one, wide(transpose(wide_one)), 1e-5, 1, "of the transposed matrix");  // sums in another order
    double way = 0;
    for (std::int64_t i = 0; i < n + 40; ++i) {
        const auto k = static_cast<std::size_t>(i);
        EXPECT_TRUE((i >= at && i < at + n) || wide_one[k] == p[k]) << i;
        way += std::pow(static_cast<double>(wide_one[k]) - 0.99 * static_cast<double>(p[k]), 2);
    }
    // What moves it is near orthogonal: singular values from 0.7 to 1.2 of the rate, with what Muon's coefficients
    // give.
    const double rate = 0.1 * 0.2 * std::sqrt(150.0);
    EXPECT_GT(std::sqrt(way / rows), 0.7 * rate);
    EXPECT_LT(std::sqrt(way / rows), 1.2 * rate);
}

// Each rule, with the numbers of the run and of two groups behind them: bit by bit what the same call does to a group's
// segments where its numbers are the run's own, which other tests hold against torch.
TEST(Optimizers, StepGroupsByNumbersOfTheirOwn) {
    const std::vector<ParameterSegment> grouped = {{3, 201, true, 0},
                                                   {216, 900, false, 2},
                                                   {900, 17000, true, 1},
                                                   {17001, 40000, true, 2},
                                                   {40000, 40003, true, 0}};
    struct WithGroups {
        StepScalars scalars;
        double groups[2][rules::most_numbers];
    };
    Device device(2);
    Stream stream(device);
    const std::vector<float> p0 = random(elements, 1), g = random(elements, 2);
    std::vector<float> scratch(static_cast<std::size_t>(tensor_scratch(std::vector<std::int64_t>{elements})));
    for (const NamedUpdate& update : updates) {
        SCOPED_TRACE(update.rule);
        const RuleInfo& rule = *find_rule(update.rule);
        const std::size_t states = rule.states.size();
        std::vector<std::vector<double>> numbers;
        for (const double part : {1.0, 0.25, 3.0}) {
            std::vector<double> options = usual_options(rule);
            for (double& x : options) x *= part < 1 ? part : 1;
            numbers.push_back(rule.step_numbers(options, {part * learning_rate, part * weight_decay, 3}));
        }
        const auto run = [&](const StepScalars* scalars, std::span<const ParameterSegment> segments) {
            std::vector<std::vector<float>> all = {p0};
            OptimizerUpdate call{
                .gradients = g.data(), .segments = segments, .scalars = scalars, .scratch = scratch.data()};
            for (std::size_t k = 0; k < states; ++k) {
                all.push_back(random(elements, 3 + static_cast<unsigned>(k)));
                for (float& x : all.back()) x = std::abs(x);
            }
            call.parameters = all[0].data();
            for (std::size_t k = 0; k < states; ++k) call.states[k] = all[1 + k].data();
            update.call(call, stream);
            return all;
        };
        WithGroups given{};
        given.scalars.clip_factor = 0.5F;
        std::copy(numbers[0].begin(), numbers[0].end(), given.scalars.rule);
        for (std::size_t k = 0; k < 2; ++k) std::copy(numbers[1 + k].begin(), numbers[1 + k].end(), given.groups[k]);
        const auto together = run(&given.scalars, grouped);
        for (std::int32_t group = 0; group < 3; ++group) {
            StepScalars alone = given.scalars;
            const std::vector<double>& of_group = numbers[static_cast<std::size_t>(group)];
            std::copy(of_group.begin(), of_group.end(), alone.rule);
            std::vector<ParameterSegment> its;
            for (ParameterSegment segment : grouped)
                if (segment.group == group) its.push_back({segment.begin, segment.end, segment.decay});
            const auto apart = run(&alone, its);
            for (const ParameterSegment& segment : its)
                for (std::size_t tensor = 0; tensor < together.size(); ++tensor)
                    for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end);
                         ++i)
                        ASSERT_EQ(together[tensor][i], apart[tensor][i])
                            << "group " << group << ", tensor " << tensor << ", element " << i;
        }
        EXPECT_EQ(together[0][202], p0[202]);  // between segments
    }
}

TEST(AdamW, FollowsTorchOverSeveralSteps) {
    Device device(2);
    Stream stream(device);
    std::vector<float> p = random(elements, 1), m(elements), v(elements);
    std::vector<double> ep = wide(p), em(elements), ev(elements);
    for (int step = 0; step < 4; ++step) {
        const std::vector<float> g = random(elements, 10U + static_cast<unsigned>(step));
        const StepScalars s = adamw_scalars(step);
        adamw({.parameters = p.data(),
               .gradients = g.data(),
               .states = {m.data(), v.data()},
               .segments = segments,
               .scalars = &s},
              stream);
        for (const ParameterSegment& segment : segments) {
            for (std::int64_t j = segment.begin; j < segment.end; ++j) {
                const auto i = static_cast<std::size_t>(j);
                const double gradient = 0.5 * static_cast<double>(g[i]);
                if (segment.decay) ep[i] *= 1 - learning_rate * weight_decay;
                em[i] = 0.9 * em[i] + 0.1 * gradient;
                ev[i] = 0.999 * ev[i] + 0.001 * gradient * gradient;
                ep[i] -= learning_rate / (1 - std::pow(0.9, step + 1)) * em[i] /
                         (std::sqrt(ev[i]) / std::sqrt(1 - std::pow(0.999, step + 1)) + 1e-8);
            }
        }
    }
    // a few roundings of terms whose size is the third number; what lies between segments is untouched
    expect_close(p, ep, 5e-7, 0.01, "p");
    expect_close(m, em, 5e-7, 0.1, "m");
    expect_close(v, ev, 5e-7, 0.0001, "v");
}

TEST(AdamW, SameBitsAtAnyThreadCount) {
    const std::vector<float> p0 = random(elements, 1), g = random(elements, 2);
    const StepScalars s = adamw_scalars(0);
    testing::expect_same_bits_at_any_thread_count([&](Stream& stream) {
        std::vector<float> p = p0, m(elements), v(elements);
        for (int i = 0; i < 2; ++i) {
            adamw({.parameters = p.data(),
                   .gradients = g.data(),
                   .states = {m.data(), v.data()},
                   .segments = segments,
                   .scalars = &s},
                  stream);
        }
        return p;
    });
}

TEST(Sgd, FollowsTorchWithAndWithoutMomentum) {
    Device device(2);
    Stream stream(device);
    for (const bool momentum : {false, true}) {
        std::vector<float> p = random(elements, 1), b(elements);
        std::vector<double> ep = wide(p), eb(elements);
        for (int step = 0; step < 3; ++step) {
            const std::vector<float> g = random(elements, 10U + static_cast<unsigned>(step));
            const StepScalars s = momentum ? scalars_of("sgd", {0.9, 0}, step) : scalars_of("plain_sgd", {}, step);
            const OptimizerUpdate call{.parameters = p.data(),
                                       .gradients = g.data(),
                                       .states = {momentum ? b.data() : nullptr},
                                       .segments = segments,
                                       .scalars = &s};
            momentum ? sgd(call, stream) : plain_sgd(call, stream);
            for (const ParameterSegment& segment : segments) {
                for (std::int64_t j = segment.begin; j < segment.end; ++j) {
                    const auto i = static_cast<std::size_t>(j);
                    const double gradient = 0.5 * static_cast<double>(g[i]) + (segment.decay ? 0.1 * ep[i] : 0.0);
                    eb[i] = step == 0 ? gradient : 0.9 * eb[i] + gradient;
                    ep[i] -= 1e-3 * (momentum ? eb[i] : gradient);
                }
            }
        }
        expect_close(p, ep, 5e-7, 0.01, "p");
        if (momentum) expect_close(b, eb, 3e-7, 1.0, "buffer");
    }
}

TEST(LossScale, IsTorchsAroundEachRule) {
    Device device(2);
    Stream stream(device);
    for (const Trajectory& t : scaled_trajectories) {
        SCOPED_TRACE(t.name);
        expect_scaled_trajectory_in_f32<OnHost>(t, stream);
    }
    expect_every_rule(scaled_trajectories);
}

TEST(LossScale, LeavesNothingInAStepOfAnyRule) {
    Device device(2);
    Stream stream(device);
    for (const NamedUpdate& update : updates) expect_a_scale_to_leave_nothing<OnHost>(update, stream);
}

// By powers of two, to where floats end; the gradient alone decides whether a step is taken, not what squares are.
TEST(LossScale, DividesWithoutAnError) {
    Device device(2);
    Stream stream(device);
    for (const double limit : {0.0, 1e-3, 1e3}) {
        StepScalars plain;
        plain.max_grad_norm = limit;
        const std::vector<float> g = random(elements, 3, 0.01F);
        global_norm(&plain, g.data(), elements, stream);
        for (const float scale : {0x1p-20F, 0.5F, 1.0F, 0x1p16F, 0x1p100F}) {
            std::vector<float> scaled;
            for (const float x : g) scaled.push_back(x * scale);
            StepScalars s = plain;
            s.loss_scale = scale;
            global_norm(&s, scaled.data(), elements, stream);
            EXPECT_EQ(s.grad_norm, plain.grad_norm) << scale;
            EXPECT_EQ(s.clip_factor * scale, plain.clip_factor) << scale;
            for (const float broken : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
                std::vector<float> bad = scaled;
                bad[static_cast<std::size_t>(elements - 1)] = broken;
                global_norm(&s, bad.data(), elements, stream);
                EXPECT_LT(s.clip_factor, 0) << scale;
            }
        }
    }
    const std::vector<float> largest(1000, std::numeric_limits<float>::max());
    StepScalars s;
    s.loss_scale = 0x1p16F;
    global_norm(&s, largest.data(), 1000, stream);
    EXPECT_EQ(s.clip_factor, 0x1p-16F);
}

// Doubling ends where floats do, and a fixed scale stays what it is.
TEST(LossScale, EndsWhereFloatsDo) {
    Device device(1);
    Stream stream(device);
    LossScale scale;
    scale.scale = 0x1p127F;
    StepScalars taken, skipped;
    skipped.clip_factor = -1;
    skipped.grad_norm = HUGE_VALF;
    next_loss_scale({&taken, &scale, 1, 1}, stream);
    EXPECT_EQ(scale.scale, 0x1p127F);
    EXPECT_EQ(scale.good, 0);
    next_loss_scale({&skipped, &scale, 0, 1}, stream);
    EXPECT_EQ(scale.scale, 0x1p127F);
    EXPECT_EQ(scale.skipped, 1);
    next_loss_scale({&skipped, &scale, 1, 1}, stream);
    EXPECT_EQ(scale.scale, 0x1p126F);
    EXPECT_EQ(scale.skipped, 2);
    // Skipped for something else than an overflow: the scale stays, and so does what counts for the next one.
    scale.good = 3;
    skipped.grad_norm = 7;
    next_loss_scale({&skipped, &scale, 9, 1}, stream);
    EXPECT_EQ(scale.scale, 0x1p126F);
    EXPECT_EQ(scale.good, 3);
    EXPECT_EQ(scale.skipped, 3);
    EXPECT_EQ(scale.last_skipped, 1);
}

TEST(Average, IsTorchsOverAHundredSteps) {
    Device device(2);
    Stream stream(device);
    for (const AverageTrajectory& t : averages) {
        SCOPED_TRACE(t.decay);
        expect_average_in_f32<OnHost>(t, stream);
    }
}

// Of elements of all segments, in several threads, and of parameters in both types.
TEST(Average, GoesAPartOfTheWay) {
    Device device(3);
    Stream stream(device);
    const std::vector<float> before = random(elements, 1), p = random(elements, 2);
    std::vector<bf16> rounded;
    for (const float x : p) rounded.push_back(to_bf16(x));
    for (const float part : {1.0F, 0.75F, 0.5F, 0x1p-7F}) {
        std::vector<float> of_f32 = before, of_bf16 = before;
        average_parameters({of_f32.data(), p.data(), part, segments}, stream);
        average_parameters({of_bf16.data(), rounded.data(), part, segments}, stream);
        std::vector<double> wanted_f32 = wide(before), wanted_bf16 = wanted_f32;
        for (const ParameterSegment& segment : segments) {
            for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end); ++i) {
                const auto way = static_cast<double>(part);
                wanted_f32[i] += way * (static_cast<double>(p[i]) - wanted_f32[i]);
                wanted_bf16[i] += way * (static_cast<double>(to_float(rounded[i])) - wanted_bf16[i]);
                ASSERT_TRUE(part < 1 || of_f32[i] == p[i]);  // of the whole way no rounding is left
            }
        }
        // a difference, a product and a sum of numbers of size 1
        expect_close(of_f32, wanted_f32, 3e-7, 1.0, "of f32");
        expect_close(of_bf16, wanted_bf16, 3e-7, 1.0, "of bf16");
    }
}

TEST(GlobalNorm, NormAndClipFactor) {
    Device device(2);
    Stream stream(device);
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{15}, std::int64_t{16384}, elements}) {
        const std::vector<float> g = random(n, 3, 0.01F);
        double sum = 0;
        for (const float x : g) sum += static_cast<double>(x) * static_cast<double>(x);
        StepScalars s;
        for (const double limit : {0.0, 1e-3, 1e3}) {
            s.max_grad_norm = limit;
            global_norm(&s, g.data(), n, stream);
            EXPECT_NEAR(s.grad_norm, std::sqrt(sum), 1e-7 * std::sqrt(sum));  // one rounding to float
            const double factor = limit == 0 ? 1 : std::min(1.0, limit / (std::sqrt(sum) + 1e-6));
            EXPECT_NEAR(s.clip_factor, factor, 1e-7 * factor);
        }
    }
}

TEST(GlobalNorm, SameBitsAtAnyThreadCount) {
    const std::vector<float> g = random(elements, 4);
    double first = 0;
    for (const int threads : {1, 2, 3, 5}) {
        Device device(threads);
        Stream stream(device);
        double sum = 0;
        sum_of_squares(&sum, g.data(), elements, stream);
        if (threads == 1) first = sum;
        EXPECT_EQ(sum, first);
    }
}

}  // namespace optim_test
}  // namespace thunder
