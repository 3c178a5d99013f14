// SPDX-License-Identifier: Apache-2.0
// The runtime's own optimizers for GPUs, and the scalars of a step, on the emulated GPU: against the formulas in
// double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "device/api.h"
#include "emulation/bundled.h"
#include "optim/cuda/pieces.h"
#include "optim/global_norm.h"
#include "optim/rounding.h"
#include "runtime/kernels/coded_calls.h"
#include "runtime/kernels/narrow_steps.h"
#include "runtime/kernels/trajectories.h"
#include "runtime/kernels/update_calls.h"

namespace thunder {

// What the emulated device has of the host's calls.
PieceTable pieces_of(std::span<const ParameterSegment> segments, Stream&) {
    static std::unique_ptr<emulation::Buffer<std::int64_t>> numbers;  // of the call that runs
    const std::vector<std::int64_t> cut = cut_segments(segments);
    numbers = std::make_unique<emulation::Buffer<std::int64_t>>("pieces", cut);
    return {numbers->data(), static_cast<std::int64_t>(cut.size()) / numbers_of_piece};
}

// In place of cuBLASLt's.
void matmul(const Matmul& call, Stream&) {
    const auto* a = static_cast<const float*>(call.a.data);
    const auto* b = static_cast<const float*>(call.b.data);
    std::vector<float> c;
    for (std::int64_t i = 0; i < call.m; ++i)
        for (std::int64_t j = 0; j < call.n; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < call.k; ++k)
                sum += static_cast<double>(a[call.transpose_a ? k * call.m + i : i * call.k + k]) *
                       static_cast<double>(b[call.transpose_b ? j * call.k + k : k * call.n + j]);
            c.push_back(static_cast<float>(sum));
        }
    std::copy(c.begin(), c.end(), static_cast<float*>(call.c.data));
    emulation::Allocation::find(call.c.data)->set_written(true);
}

namespace {

// StepScalars in the memory of the emulated device, and behind them the numbers of groups.
struct ScalarsOnDevice {
    explicit ScalarsOnDevice(const StepScalars& scalars, const std::vector<double>& groups = {})
        : bytes("scalars",
                static_cast<std::int64_t>((sizeof scalars + groups.size() * sizeof(double)) / sizeof(float))) {
        std::memcpy(bytes.data(), &scalars, sizeof scalars);
        if (!groups.empty())
            std::memcpy(bytes.data() + sizeof scalars / sizeof(float), groups.data(), groups.size() * sizeof(double));
        emulation::Allocation::find(bytes.data())->set_written(true);
    }
    StepScalars* get() { return reinterpret_cast<StepScalars*>(bytes.data()); }
    Buffer<float> bytes;
};

constexpr double learning_rate = 0.01, weight_decay = 0.1, step_number = 2;

StepScalars some_scalars() {
    StepScalars s;
    s.max_grad_norm = 1;
    s.clip_factor = 0.5F;
    s.loss_weight = 8;
    return s;
}

template <typename T>
struct OnDevice : Buffer<T> {
    explicit OnDevice(const std::vector<T>& values) : Buffer<T>("memory", values) {}
};

const ParameterSegment segments[] = {{0, 37, true}, {64, 20000, false, 1}, {20003, 20010, true, 2}};

// f32: a few roundings of numbers of size 1; what is stored as bf16 is rounded once more, by up to 2^-8 of itself, f16
// by 2^-11, or by 2^-25 where it is less than 2^-14.
template <typename T>
constexpr double rounding = std::is_same_v<T, float>  ? 1e-6
                            : std::is_same_v<T, bf16> ? 0x1.001p-8
                                                      : 0x1.001p-11;
template <typename T>
constexpr double size = std::is_same_v<T, float> ? 1 : 1e-6 / rounding<T>;

template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
    std::vector<double> out;
    for (const T x : values) out.push_back(static_cast<double>(wide(x)));
    return out;
}

// Narrow copies are the parameters of `p`, rounded.
template <typename C, typename P>
void expect_narrow_copies(Buffer<C>& narrow_copies, Buffer<P>& p, const std::vector<float>& before) {
    const std::vector<C> got = narrow_copies.values();
    const std::vector<P> stored = p.values();
    std::size_t next = 0;
    for (const ParameterSegment& segment : segments) {
        for (; next < static_cast<std::size_t>(segment.begin); ++next)
            ASSERT_EQ(wide(got[next]), wide(narrow_to<C>(before[next]))) << "written between segments at " << next;
        for (; next < static_cast<std::size_t>(segment.end); ++next)
            ASSERT_EQ(wide(got[next]), wide(narrow_to<C>(wide(stored[next])))) << "at " << next;
    }
}

struct BundledOptimizers : Bundled {
    template <typename P, typename G, typename S, typename C = bf16>
    void check(const NamedUpdate& update, bool with_narrow_copy) {
        SCOPED_TRACE(update.rule);
        const RuleInfo& rule = *find_rule(update.rule);
        StepScalars given = some_scalars();
        std::vector<std::vector<double>> numbers;  // of the run, and of two groups
        std::vector<double> behind;
        for (const double part : {1.0, 0.5, 2.0}) {
            numbers.push_back(
                rule.step_numbers(usual_options(rule), {part * learning_rate, part * weight_decay, step_number}));
            behind.insert(behind.end(), numbers.back().begin(), numbers.back().end());
            behind.resize(numbers.size() * rules::most_numbers);
        }
        std::copy(numbers[0].begin(), numbers[0].end(), given.rule);
        ScalarsOnDevice scalars(given, {behind.begin() + rules::most_numbers, behind.end()});
        const std::vector<P> p0 = stored<P>(random(20032));
        const std::vector<G> g0 = stored<G>(random(20032));
        const std::vector<float> old = random(20032);
        Buffer<P> p("p", p0);
        Buffer<G> g("g", g0);
        Buffer<C> narrow_copies("narrow_copies", stored<C>(old));
        std::vector<std::unique_ptr<Buffer<S>>> states;
        std::vector<std::vector<double>> expected;
        OptimizerUpdate call{.parameters = p.data(),
                             .gradients = g.data(),
                             .narrow_copies = with_narrow_copy ? Output(narrow_copies.data()) : Output(),
                             .segments = segments,
                             .scalars = scalars.get()};
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            std::vector<float> values = random(20032);
            for (float& x : values) x = std::abs(x);
            const std::vector<S> state = stored<S>(values);
            states.push_back(std::make_unique<Buffer<S>>(rule.states[k], state));
            expected.push_back(widened(state));
            call.states[k] = states.back()->data();
        }
        update.call(call, stream);
        const std::vector<P> after = p.values();
        std::vector<double> p1 = widened(p0);
        for (const ParameterSegment& segment : segments) {
            for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end); ++i) {
                // Where a rule asks for a sign, rounding may be all that decides: what lies between the parameters of
                // gradients a little to both sides is right. Of other rules that is next to nothing.
                double least = HUGE_VAL, most = -HUGE_VAL, s[rules::most_states];
                for (const double beside : {1 - 1e-6, 1 + 1e-6, 1.0}) {
                    double x = static_cast<double>(wide(p0[i]));
                    for (std::size_t k = 0; k < states.size(); ++k) s[k] = expected[k][i];
                    rule.element(x, beside * 0.5 * static_cast<double>(wide(g0[i])), s,
                                 numbers[static_cast<std::size_t>(segment.group)], segment.decay);
                    least = std::min(least, x);
                    most = std::max(most, x);
                }
                p1[i] = std::clamp(static_cast<double>(wide(after[i])), least, most);
                for (std::size_t k = 0; k < states.size(); ++k) expected[k][i] = s[k];
            }
        }
        expect_close(after, p1, rounding<P>, size<P>, "p");
        for (std::size_t k = 0; k < states.size(); ++k)
            expect_close(states[k]->values(), expected[k], rounding<S>, size<S>, rule.states[k]);
        if (with_narrow_copy) expect_narrow_copies(narrow_copies, p, old);
    }

    template <typename T>
    void check_norm(const std::vector<float>& gradients) {
        ScalarsOnDevice scalars(some_scalars());
        const std::vector<T> g0 = stored<T>(gradients);
        Buffer<T> g("g", g0);
        global_norm(scalars.get(), g.data(), static_cast<std::int64_t>(g0.size()), stream);
        double sum = 0;
        for (const T x : g0) sum += static_cast<double>(wide(x)) * static_cast<double>(wide(x));
        EXPECT_NEAR(scalars.get()->grad_norm, std::sqrt(sum), 1e-6 * std::sqrt(sum));
        EXPECT_NEAR(scalars.get()->clip_factor, std::min(1.0, 1 / (std::sqrt(sum) + 1e-6)), 1e-6);
    }
};

TEST_F(BundledOptimizers, FollowTorchForAHundredSteps) {
    for (const Trajectory& t : trajectories) {
        SCOPED_TRACE(t.name);
        expect_trajectory_in_f32<OnDevice>(t, stream);
    }
    expect_every_rule(trajectories);
}

// With what is stored in all types, in pieces that are aligned and in others: against the rule in double, which
// tests/training holds against torch.
TEST_F(BundledOptimizers, FollowTheirRules) {
    for (const NamedUpdate& w : updates) {
        if (find_rule(w.rule)->steps_tensors) continue;  // AdafactorOfAnyShape
        check<float, float, float>(w, false);
        const auto with = [&]<typename C>(const C&) {
            check<float, float, float, C>(w, true);
            check<float, C, float, C>(w, true);
            check<float, float, C, C>(w, true);
            check<float, C, C, C>(w, true);
            check<C, float, float, C>(w, false);
            check<C, C, float, C>(w, false);
            check<C, float, C, C>(w, false);
            check<C, C, C, C>(w, false);
        };
        with(bf16());
        with(f16());
    }
}

TEST_F(BundledOptimizers, ScaleTheLossAsTorchDoes) {
    for (const Trajectory& t : scaled_trajectories) {
        SCOPED_TRACE(t.name);
        expect_scaled_trajectory_in_f32<OnDevice>(t, stream);
    }
    expect_every_rule(scaled_trajectories);
}

TEST_F(BundledOptimizers, AreLeftNothingOfAScale) {
    for (const NamedUpdate& update : updates) expect_a_scale_to_leave_nothing<OnDevice>(update, stream);
}

// Squares of these overflow a float, and the gradient is finite: the step is taken. One that is not is found wherever
// it lies, in whole groups of eight and in what is left.
TEST_F(BundledOptimizers, FindWhatIsNotFinite) {
    const auto check = [&]<typename T>(const T&) {
        StepScalars given = some_scalars();
        given.loss_scale = 0x1p16F;
        given.max_grad_norm = 0;
        const std::vector<T> large = stored<T>(std::vector<float>(16391, 0x1p120F));
        {
            ScalarsOnDevice scalars(given);
            Buffer<T> g("g", large);
            global_norm(scalars.get(), g.data(), 16391, stream);
            EXPECT_EQ(scalars.get()->clip_factor, 0x1p-16F);
            EXPECT_NEAR(scalars.get()->grad_norm, 0x1p104 * std::sqrt(16391.0), 0x1p92);
        }
        for (const std::size_t at : {0, 9, 16383, 16384, 16390})
            for (const float broken : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
                std::vector<T> bad = large;
                bad[at] = stored<T>(std::vector<float>{broken})[0];
                ScalarsOnDevice scalars(given);
                Buffer<T> g("g", bad);
                global_norm(scalars.get(), g.data(), 16391, stream);
                EXPECT_LT(scalars.get()->clip_factor, 0) << at;
            }
    };
    check(float());
    check(bf16());
}

// A norm of 3 sqrt(16391) = 384.08, with what the loss was scaled by and without.
TEST_F(BundledOptimizers, LeaveOutWhatIsAboveTheLimit) {
    Buffer<float> g("g", std::vector<float>(16391, 3));
    const auto taken = [&](float loss_scale, double most, float loss = 3) {
        StepScalars given = some_scalars();
        given.loss_scale = loss_scale;
        given.max_grad_norm = 0;
        given.most_grad_norm = most;
        given.loss_sum = loss;
        ScalarsOnDevice scalars(given);
        global_norm(scalars.get(), g.data(), 16391, stream);
        return scalars.get()->clip_factor >= 0;
    };
    EXPECT_TRUE(taken(1, 0));
    EXPECT_TRUE(taken(1, 384.09));
    EXPECT_FALSE(taken(1, 384.07));
    EXPECT_TRUE(taken(4, 96.03));
    EXPECT_FALSE(taken(4, 96.01));
    EXPECT_TRUE(taken(0, 1)) << "no step is skipped where none may be";
    // A loss that is no number, where that is looked at.
    for (const float loss : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
        EXPECT_FALSE(taken(1, HUGE_VAL, loss));
        EXPECT_TRUE(taken(1, 0, loss));
        EXPECT_TRUE(taken(0, HUGE_VAL, loss));
    }
    EXPECT_TRUE(taken(1, HUGE_VAL, 3e38F));
}

TEST_F(BundledOptimizers, StepMatricesAsTorchDoes) {
    for (const Trajectory& t : rounded_trajectories) {
        SCOPED_TRACE(t.name);
        expect_trajectory_in_f32<OnDevice>(t, stream, rounded_tolerance);
    }
}

TEST_F(BundledOptimizers, StepWholesThatLieInNarrowTypes) {
    expect_whole_steps_in_narrow_types<OnDevice>(stream);
}

TEST_F(BundledOptimizers, AdafactorOfAnyShape) {
    expect_adafactor_of_any_shape<OnDevice>(
        stream, [&](std::size_t n, unsigned) { return random(static_cast<std::int64_t>(n)); });
}

TEST_F(BundledOptimizers, StepStatesThatAreCodes) {
    for (const RuleInfo& rule : all_rules()) {
        if (!rule.codes_states()) continue;
        expect_coded_steps<OnDevice>(rule, stream);
        expect_coded_shards<OnDevice>(rule, stream);
        expect_coded_corners<OnDevice>(rule, stream);
    }
}

TEST_F(BundledOptimizers, AverageAsTorchDoes) {
    for (const AverageTrajectory& t : averages) {
        SCOPED_TRACE(t.decay);
        expect_average_in_f32<OnDevice>(t, stream);
    }
}

// In pieces that are aligned and in others, of parameters in both types.
TEST_F(BundledOptimizers, AverageAPartOfTheWay) {
    const auto check = [&]<typename P>(const P&, float part) {
        const std::vector<float> before = random(20032);
        const std::vector<P> p0 = stored<P>(random(20032));
        Buffer<float> average("average", before);
        Buffer<P> p("p", p0);
        average_parameters({average.data(), p.data(), part, segments}, stream);
        std::vector<double> expected = widened(before);
        for (const ParameterSegment& segment : segments)
            for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end); ++i)
                expected[i] += static_cast<double>(part) * (static_cast<double>(wide(p0[i])) - expected[i]);
        expect_close(average.values(), expected, rounding<float>, 1, "average");
    };
    for (const float part : {1.0F, 0.75F, 0x1p-7F}) {
        check(float(), part);
        check(bf16(), part);
        check(f16(), part);
    }
}

// Numbers whose step is exact, so that the two numbers beside it and what decides between them are all there is: of
// each element of a tensor the same, wherever its piece lies.
TEST_F(BundledOptimizers, RoundAtRandom) {
    const ParameterSegment pieces[] = {{1, 38, true, 0, 5, 100}, {64, 20000, false, 0, 9, 0}};
    StepScalars given;
    const std::vector<double> numbers = find_rule("plain_sgd")->step_numbers({}, {0x1p-12, 0, 1});
    std::copy(numbers.begin(), numbers.end(), given.rule);
    given.rounding = rounding_of_step(7, 2);
    ScalarsOnDevice scalars(given);
    std::vector<float> gradients;
    for (int i = 0; i < 20032; ++i) gradients.push_back(static_cast<float>(i * 37 % 251 - 125));
    const std::vector<bf16> p0 = stored<bf16>(random(20032));
    Buffer<bf16> p("p", p0);
    Buffer<float> g("g", gradients);
    plain_sgd({.parameters = p.data(), .gradients = g.data(), .segments = pieces, .scalars = scalars.get()}, stream);
    const std::vector<bf16> after = p.values();
    std::size_t up = 0;
    for (const ParameterSegment& piece : pieces)
        for (std::int64_t i = piece.begin; i < piece.end; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const float exact = wide(p0[at]) - 0x1p-12F * gradients[at];
            std::uint32_t bits = 0;
            std::memcpy(&bits, &exact, sizeof bits);
            const auto element = static_cast<std::uint64_t>(piece.first + i - piece.begin);
            ASSERT_EQ(bits_of(after[at]), rounded_at_random(bits, rounding_bits(given.rounding, piece.tensor, element)))
                << i;
            up += bits_of(after[at]) == bits >> 16 ? 0 : 1;
        }
    EXPECT_GT(up, 1000U);
    EXPECT_EQ(bits_of(after[40]), bits_of(p0[40]));  // between the pieces
}

TEST_F(BundledOptimizers, GlobalNormAndClipping) {
    for (const std::int64_t elements : {5, 16384, 50001}) {
        check_norm<float>(random(elements));
        check_norm<bf16>(random(elements));
        check_norm<f16>(random(elements));
    }
}

TEST_F(Bundled, ScalarsOfAStep) {
    ScalarsOnDevice scalars(some_scalars());
    seed_loss(scalars.get(), stream);
    EXPECT_EQ(scalars.get()->dloss, 0.125F);
}

}  // namespace
}  // namespace thunder
