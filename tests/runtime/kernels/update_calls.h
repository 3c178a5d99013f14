// SPDX-License-Identifier: Apache-2.0
// The runtime's calls that step parameters, on any device, and a hundred steps of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
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

// Of the vector and the matrix that trajectories are of, as programs say how a rule steps them.
inline void set_whole(std::span<ParameterSegment, 2> segments, const RuleInfo& rule) {
    if (rule.steps_tensors) segments[0].columns = vector_elements;
    if (!rule.steps_wholes()) return;
    segments[1].rows = matrix_rows;
    segments[1].columns = matrix_columns;
}
inline std::int64_t scratch_of_both() {
    const std::int64_t matrix[] = {matrix_rows, matrix_columns}, vector[] = {vector_elements};
    return std::max({matrix_scratch(matrix_rows, matrix_columns), tensor_scratch(matrix), tensor_scratch(vector)});
}

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
    set_whole(segments, *find_rule(t.rule));
    Memory<float> scratch(std::vector<float>(static_cast<std::size_t>(scratch_of_both())));
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
    set_whole(segments, *find_rule(t.rule));
    Memory<float> scratch(std::vector<float>(static_cast<std::size_t>(scratch_of_both())));
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

// A power of two in the gradient and its inverse in clip_factor are gone once they are multiplied: bit by bit, for each
// rule, whatever it makes of gradients.
template <template <typename> typename Memory>
void expect_a_scale_to_leave_nothing(const NamedUpdate& update, Stream& stream) {
    const RuleInfo& rule = *find_rule(update.rule);
    const auto stepped = [&](float scale) {
        const std::vector<double> start = trajectory_start();
        std::vector<std::unique_ptr<Memory<float>>> memory;  // the parameters, then states
        for (std::size_t k = 0; k <= rule.states.size(); ++k)
            memory.push_back(std::make_unique<Memory<float>>(k == 0 ? std::vector<float>(start.begin(), start.end())
                                                                    : std::vector<float>(start.size())));
        ParameterSegment segments[] = {{matrix_elements, matrix_elements + vector_elements, false},
                                       {0, matrix_elements, true}};
        set_whole(segments, rule);
        Memory<float> scratch(std::vector<float>(static_cast<std::size_t>(scratch_of_both())));
        for (int number = 1; number <= 3; ++number) {
            std::vector<float> gradient;
            for (const double x : trajectory_gradient(number))  // of numbers with as many digits as there are
                gradient.push_back(static_cast<float>(0.7 * x) * scale);
            Memory<float> g(gradient);
            StepScalars given;
            const auto numbers = rule.step_numbers(usual_options(rule), {0.01, 0.1, 1.0 * number});
            std::copy(numbers.begin(), numbers.end(), given.rule);
            given.clip_factor = 1 / scale;
            Memory<float> scalars(as_floats(given));
            OptimizerUpdate call{.parameters = memory[0]->data(),
                                 .gradients = g.data(),
                                 .segments = segments,
                                 .scalars = reinterpret_cast<const StepScalars*>(scalars.data()),
                                 .scratch = scratch.data()};
            for (std::size_t k = 0; k < rule.states.size(); ++k) call.states[k] = memory[1 + k]->data();
            update.call(call, stream);
        }
        std::vector<std::vector<float>> out;
        for (const auto& tensor : memory) out.push_back(tensor->values());
        return out;
    };
    const auto plain = stepped(1);
    for (const float scale : {0x1p-60F, 0x1p16F, 0x1p126F}) {
        const auto scaled = stepped(scale);
        for (std::size_t tensor = 0; tensor < plain.size(); ++tensor)
            EXPECT_EQ(scaled[tensor], plain[tensor]) << update.rule << " scaled by " << scale << ", tensor " << tensor;
    }
}

// Two steps of tensors of 0 to 3 dimensions, beside the formula of torch.optim.Adafactor in double: more rows than are
// added up at once, rows and columns that no block has, matrices that share what a tensor has. Each state lies apart
// from its parameter. What is between tensors stays.
template <template <typename> typename Memory, typename Random>
void expect_adafactor_of_any_shape(Stream& stream, const Random& random) {
    constexpr double eps1 = 0x1p-23, eps2 = 1e-3, update_clip = 0.5, learning_rate = 0.25, decay = 0.1, clip = 0.5;
    const RuleInfo& rule = *find_rule("adafactor");
    const std::vector<std::vector<std::int64_t>> shapes = {{}, {5}, {3, 1}, {1, 7}, {2, 600, 33}, {37, 150}, {20000}};
    std::vector<ParameterSegment> segments;
    std::int64_t end = 3, scratch_elements = 0;
    for (const std::vector<std::int64_t>& shape : shapes) {
        const auto elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
        ParameterSegment& s = segments.emplace_back(ParameterSegment{end, end + elements, shape.size() >= 2});
        s.rows = shape.size() >= 2 ? shape[shape.size() - 2] : 0;
        s.columns = shape.size() >= 2 ? shape.back() : elements;
        s.shift[0] = 1;
        s.shift[1] = 5;
        s.shift[2] = 2;
        end += elements + 6;
        scratch_elements = std::max(scratch_elements, tensor_scratch(shape));
    }
    const auto all = static_cast<std::size_t>(end + 8);
    std::vector<float> start = random(all, 1);
    Memory<float> p(start), rows(std::vector<float>(all, 0)), columns(std::vector<float>(all, 0)),
        variance(std::vector<float>(all, 0)), scratch(std::vector<float>(static_cast<std::size_t>(scratch_elements)));
    std::vector<double> expected(start.begin(), start.end()), row(all), column(all), of_vector(all);
    for (int step = 1; step <= 2; ++step) {
        const std::vector<float> gradient = random(all, 10U + static_cast<unsigned>(step));
        Memory<float> g(gradient);
        StepScalars given;
        const auto numbers = rule.step_numbers({0.8, eps1, eps2, update_clip}, {learning_rate, decay, 1.0 * step});
        std::copy(numbers.begin(), numbers.end(), given.rule);
        given.clip_factor = clip;
        Memory<float> scalars(as_floats(given));
        adafactor({.parameters = p.data(),
                   .gradients = g.data(),
                   .states = {rows.data(), columns.data(), variance.data()},
                   .segments = segments,
                   .scalars = reinterpret_cast<const StepScalars*>(scalars.data()),
                   .scratch = scratch.data()},
                  stream);
        const double part = std::pow(step, -0.8);
        for (const ParameterSegment& s : segments) {
            const auto n = static_cast<std::size_t>(s.end - s.begin), at = static_cast<std::size_t>(s.begin);
            const auto r = static_cast<std::size_t>(s.rows), c = static_cast<std::size_t>(s.columns);
            std::vector<double> x(n), estimate(n);
            double squares = 0, squares_of_x = 0;
            for (std::size_t i = 0; i < n; ++i) {
                x[i] = clip * static_cast<double>(gradient[at + i]);
                squares += expected[at + i] * expected[at + i];
            }
            for (std::size_t first = 0; r > 0 && first < n; first += r * c) {
                double mean = 0;
                double* const of_row = &row[at + first / c];
                double* const of_column = &column[at + first / r];
                for (std::size_t i = 0; i < r; ++i) {
                    double sum = 0;
                    for (std::size_t j = 0; j < c; ++j) sum += x[first + i * c + j] * x[first + i * c + j];
                    of_row[i] += part * (sum / static_cast<double>(c) - of_row[i]);
                    mean += of_row[i] / static_cast<double>(r);
                }
                for (std::size_t j = 0; j < c; ++j) {
                    double sum = 0;
                    for (std::size_t i = 0; i < r; ++i) sum += x[first + i * c + j] * x[first + i * c + j];
                    of_column[j] += part * (sum / static_cast<double>(r) - of_column[j]);
                }
                for (std::size_t k = 0; k < r * c; ++k)
                    estimate[first + k] = of_row[k / c] * of_column[k % c] / std::max(mean, eps1);
            }
            for (std::size_t i = 0; r == 0 && i < n; ++i)
                estimate[i] = of_vector[at + i] += part * (x[i] * x[i] - of_vector[at + i]);
            for (std::size_t i = 0; i < n; ++i) {
                x[i] /= std::sqrt(std::max(estimate[i], eps1 * eps1));
                squares_of_x += x[i] * x[i];
            }
            const auto rms = [&](double sum) { return std::sqrt(sum / static_cast<double>(n)); };
            const double way = std::max(eps2, rms(squares)) * std::min(learning_rate, 1 / std::sqrt(step)) /
                               std::max(1.0, rms(squares_of_x) / update_clip);
            for (std::size_t i = 0; i < n; ++i)
                expected[at + i] = expected[at + i] * (s.decay ? 1 - learning_rate * decay : 1) - way * x[i];
        }
    }
    const std::vector<float> after = p.values(), first_state = rows.values();
    // Roundings of numbers of up to some dozens: directions are of up to the root of a row's length.
    for (std::size_t i = 0; i < all; ++i) ASSERT_NEAR(after[i], expected[i], 1e-5) << i;
    EXPECT_EQ(after[0], start[0]);
    EXPECT_EQ(first_state[static_cast<std::size_t>(segments[2].begin)], 0);  // before the first of its rows
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
