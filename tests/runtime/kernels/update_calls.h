// SPDX-License-Identifier: Apache-2.0
// The runtime's calls that step parameters, on any device, and a hundred steps of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "optim/average.h"
#include "optim/global_norm.h"
#include "optim/loss_scale.h"
#include "optim/matrix_scratch.h"
#include "optim/update.h"
#include "scaled_trajectories.h"
#include "trajectory.h"

namespace thunder {

using UpdateCall = void (*)(const OptimizerUpdate&, Stream&);
struct NamedUpdate {
    std::string rule;
    UpdateCall call;
};
#define THUNDER_NAMED_UPDATE(name, Rule) {#name, name},
inline const std::vector<NamedUpdate> updates = {THUNDER_RULES(THUNDER_NAMED_UPDATE)};
#undef THUNDER_NAMED_UPDATE

inline UpdateCall update_of(const std::string& rule) {
    return std::find_if(updates.begin(), updates.end(), [&](const NamedUpdate& u) { return u.rule == rule; })->call;
}

// In f32 each step rounds parameters of up to 2 once or twice, by up to 2^-24 of themselves, and what moves them, which
// is a hundredth of that: a hundred steps.
inline constexpr double trajectory_tolerance = 100 * 2 * 0x1p-24;

// Where directions, of elements of at most 1, pass through bf16, which rounds them by up to 2^-9 of themselves a few
// times: a hundred steps at a rate of 0.01.
inline constexpr double rounded_tolerance = 100 * 0.01 * 0x1p-8;

// `Memory<float>(values)` is memory of the device, with data() and values().
template <template <typename> typename Memory>
void expect_trajectory_in_f32(const Trajectory& t, Stream& stream, double tolerance = trajectory_tolerance) {
    const std::vector<double> start = trajectory_start();
    Memory<float> p(std::vector<float>(start.begin(), start.end()));
    std::vector<std::unique_ptr<Memory<float>>> states;
    for (std::size_t k = 0; k < find_rule(t.rule)->states.size(); ++k)
        states.push_back(std::make_unique<Memory<float>>(std::vector<float>(start.size())));
    // What is stepped as a whole comes last.
    ParameterSegment segments[] = {{matrix_elements, matrix_elements + vector_elements, t.decay_all},
                                   {0, matrix_elements, true}};
    Memory<float> scratch(std::vector<float>(static_cast<std::size_t>(matrix_scratch(matrix_rows, matrix_columns))));
    if (find_rule(t.rule)->steps_matrices()) {
        segments[1].rows = matrix_rows;
        segments[1].columns = matrix_columns;
    }
    expect_trajectory(t, tolerance, [&](int number, const std::vector<double>& gradient) {
        Memory<float> g(std::vector<float>(gradient.begin(), gradient.end()));
        StepScalars given;
        const std::vector<double> numbers = t.numbers(number);
        std::copy(numbers.begin(), numbers.end(), given.rule);
        given.clip_factor = static_cast<float>(clip_factor_of(t, gradient));
        std::vector<float> bits(sizeof given / sizeof(float));
        std::memcpy(bits.data(), &given, sizeof given);
        Memory<float> scalars(bits);
        OptimizerUpdate call{.parameters = p.data(),
                             .gradients = g.data(),
                             .segments = segments,
                             .scalars = reinterpret_cast<const StepScalars*>(scalars.data()),
                             .scratch = scratch.data()};
        for (std::size_t k = 0; k < states.size(); ++k) call.states[k] = states[k]->data();
        update_of(t.rule)(call, stream);
        const std::vector<float> after = p.values();
        return std::vector<double>(after.begin(), after.end());
    });
}

// As bytes of memory of the device, which `Memory` has of floats.
template <typename Struct>
std::vector<float> as_floats(const Struct& of, std::size_t behind = 0) {
    static_assert(sizeof of % sizeof(float) == 0);
    std::vector<float> out(sizeof of / sizeof(float) + behind);
    std::memcpy(out.data(), &of, sizeof of);
    return out;
}
template <typename Struct>
Struct from_floats(const std::vector<float>& from) {
    Struct out;
    std::memcpy(static_cast<void*>(&out), from.data(), sizeof out);
    return out;
}

// What torch.amp.GradScaler does around a rule, by the calls that a program makes, whose host does not know what became
// of the step before. Scale and skipped steps are torch's exactly. A second group has numbers of its own, the same.
template <template <typename> typename Memory>
void expect_scaled_trajectory_in_f32(const Trajectory& t, Stream& stream) {
    const std::vector<double> start = trajectory_start();
    Memory<float> p(std::vector<float>(start.begin(), start.end()));
    std::vector<std::unique_ptr<Memory<float>>> states;
    for (std::size_t k = 0; k < find_rule(t.rule)->states.size(); ++k)
        states.push_back(std::make_unique<Memory<float>>(std::vector<float>(start.size())));
    ParameterSegment segments[] = {{matrix_elements, matrix_elements + vector_elements, t.decay_all, 1},
                                   {0, matrix_elements, true}};
    Memory<float> scratch(std::vector<float>(static_cast<std::size_t>(matrix_scratch(matrix_rows, matrix_columns))));
    if (find_rule(t.rule)->steps_matrices()) {
        segments[1].rows = matrix_rows;
        segments[1].columns = matrix_columns;
    }
    LossScale first;
    first.scale = scales_of_steps.at(0);
    Memory<float> lasting(as_floats(first));
    auto* const scale = reinterpret_cast<LossScale*>(lasting.data());
    std::int64_t skipped = 0, skipped_before = 0;  // up to the last step, and to the one before it
    std::size_t next = 0;
    for (int number = 1; number <= static_cast<int>(scales_of_steps.size()); ++number) {
        SCOPED_TRACE(number);
        StepScalars given;
        given.dloss = 0.25F;
        given.max_grad_norm = t.max_grad_norm;
        std::vector<double> after_skip(2 * rules::most_numbers);
        const std::vector<double> taken = t.numbers(number - static_cast<int>(skipped_before)),
                                  not_taken = t.numbers(number - static_cast<int>(skipped_before) - (number > 1));
        std::vector<float> bits = as_floats(given, 2 * rules::most_numbers);
        for (const int group : {0, 1}) {
            std::memcpy(reinterpret_cast<std::byte*>(bits.data()) + offsetof(StepScalars, rule) +
                            static_cast<std::size_t>(numbers_of_group(group)) * sizeof(double),
                        taken.data(), taken.size() * sizeof(double));
            std::copy(not_taken.begin(), not_taken.end(), after_skip.begin() + group * rules::most_numbers);
        }
        Memory<float> on_device(bits);
        Memory<double> numbers_after_skip(after_skip);
        auto* const scalars = reinterpret_cast<StepScalars*>(on_device.data());
        scale_loss({scalars, scale, numbers_after_skip.data(), 1}, stream);
        const StepScalars scaled = from_floats<StepScalars>(on_device.values());
        ASSERT_EQ(scaled.loss_scale, scales_of_steps[static_cast<std::size_t>(number - 1)]);
        ASSERT_EQ(scaled.dloss, 0.25F * scaled.loss_scale);

        std::vector<float> gradient;
        for (const double x : trajectory_gradient(number))
            gradient.push_back(static_cast<float>(x) * scaled.loss_scale);
        const auto broken = broken_elements.find(number);
        if (broken != broken_elements.end())
            gradient[static_cast<std::size_t>(number % 2 == 1 ? (number - 1) % matrix_elements
                                                              : matrix_elements + (number - 1) % vector_elements)] =
                broken->second;
        Memory<float> g(gradient);
        const std::vector<float> before = p.values();
        global_norm(scalars, g.data(), static_cast<std::int64_t>(gradient.size()), stream);
        OptimizerUpdate call{.parameters = p.data(),
                             .gradients = g.data(),
                             .segments = segments,
                             .scalars = scalars,
                             .scratch = scratch.data()};
        for (std::size_t k = 0; k < states.size(); ++k) call.states[k] = states[k]->data();
        std::vector<std::vector<float>> states_before;
        for (const auto& state : states) states_before.push_back(state->values());
        update_of(t.rule)(call, stream);
        next_loss_scale({scalars, scale, scaled_interval, 0.25F}, stream);
        const LossScale now = from_floats<LossScale>(lasting.values());
        const bool skips = broken != broken_elements.end();
        skipped_before = skipped;
        skipped += skips ? 1 : 0;
        ASSERT_EQ(now.skipped, skipped);
        ASSERT_EQ(now.last_skipped, skips ? 1 : 0);
        ASSERT_EQ(now.average_part, skips ? 0.0F : number == 2 ? 1.0F : 0.25F);  // the first step is skipped
        if (skips) {
            ASSERT_EQ(p.values(), before);
            for (std::size_t k = 0; k < states.size(); ++k) ASSERT_EQ(states[k]->values(), states_before[k]);
        }
        if (t.points.at(next).step != number) continue;
        const std::vector<double>& expected = t.points[next++].parameters;
        const std::vector<float> after = p.values();
        for (std::size_t k = 0; k < expected.size(); ++k) ASSERT_NEAR(after[k], expected[k], trajectory_tolerance) << k;
    }
    EXPECT_EQ(next, t.points.size());
}

// Each step rounds a number below 1 here, and another one in torch; what was rounded in the steps before counts for
// less with each.
template <template <typename> typename Memory>
void expect_average_in_f32(const AverageTrajectory& t, Stream& stream) {
    const ParameterSegment segments[] = {{0, matrix_elements + vector_elements, true}};
    Memory<float> average(std::vector<float>(matrix_elements + vector_elements));
    expect_trajectory(t, trajectory_steps * 0x1p-24, [&](int number, const std::vector<double>& now) {
        Memory<float> p(std::vector<float>(now.begin(), now.end()));
        average_parameters({.averages = average.data(),
                            .parameters = p.data(),
                            .part = number == 1 ? 1 : static_cast<float>(1 - t.decay),
                            .segments = segments},
                           stream);
        const std::vector<float> after = average.values();
        return std::vector<double>(after.begin(), after.end());
    });
}

}  // namespace thunder
