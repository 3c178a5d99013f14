// SPDX-License-Identifier: Apache-2.0
// The runtime's calls that step parameters, on any device, and a hundred steps of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "optim/average.h"
#include "optim/matrix_scratch.h"
#include "optim/update.h"
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
