// SPDX-License-Identifier: Apache-2.0
// Steps of whole matrices and tensors that lie in narrow types: what the same step in f32, which is held against torch,
// gives of the same numbers, rounded where it is stored. Steps by elements are held against their rule in double.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "update_calls.h"  // who includes this has to_float(), to_bf16() and to_f16(), of a device

namespace thunder {

template <typename T>
float as_float(T x) {
    if constexpr (std::is_same_v<T, float>)
        return x;
    else
        return to_float(x);
}
template <typename T>
T stored_as(float x) {
    if constexpr (std::is_same_v<T, float>)
        return x;
    else if constexpr (std::is_same_v<T, bf16>)
        return to_bf16(x);
    else
        return to_f16(x);
}

inline constexpr double narrow_steps_decay = 0.025;  // what a step takes of a parameter

// Of the matrix and the vector of trajectories, in the middle of a run: parameters, narrow copies and states.
struct AfterStep {
    std::vector<float> parameters, copies;
    std::vector<std::vector<float>> states;
};

template <template <typename> typename Memory, typename P, typename G, typename S, typename C>
AfterStep step_as_stored(const NamedUpdate& update, Stream& stream) {
    const RuleInfo& rule = *find_rule(update.rule);
    const auto stored = [&]<typename T>(const std::vector<double>& values, T) {
        std::vector<T> out;
        for (const double x : values) out.push_back(stored_as<T>(static_cast<float>(x)));
        return Memory<T>(out);
    };
    const auto read = [](auto& memory) {
        std::vector<float> out;
        for (const auto x : memory.values()) out.push_back(as_float(x));
        return out;
    };
    // Numbers that each type has.
    const std::vector<double> start = trajectory_start();
    Memory<P> p = stored(start, P());
    Memory<G> g = stored(trajectory_gradient(3), G());
    Memory<C> copies = stored(std::vector<double>(start.size()), C());
    std::vector<std::unique_ptr<Memory<S>>> states;
    for (std::size_t k = 0; k < rule.states.size(); ++k) {
        std::vector<S> values;
        for (const double x : trajectory_gradient(static_cast<int>(k) + 1))
            values.push_back(stored_as<S>(static_cast<float>(std::abs(x))));
        states.push_back(std::make_unique<Memory<S>>(values));
    }
    ParameterSegment segments[] = {{matrix_elements, matrix_elements + vector_elements, false},
                                   {0, matrix_elements, true}};
    set_whole(segments, rule);
    StepScalars given;
    const std::vector<double> numbers = rule.step_numbers(usual_options(rule), {0.25, narrow_steps_decay / 0.25, 3});
    std::copy(numbers.begin(), numbers.end(), given.rule);
    given.clip_factor = 0.5F;
    Memory<float> scalars(as_floats(given)), scratch(std::vector<float>(static_cast<std::size_t>(scratch_of_both())));
    OptimizerUpdate call{.parameters = p.data(),
                         .gradients = g.data(),
                         .narrow_copies = std::is_same_v<C, float> ? Output() : Output(copies.data()),
                         .segments = segments,
                         .scalars = reinterpret_cast<const StepScalars*>(scalars.data()),
                         .scratch = scratch.data()};
    for (std::size_t k = 0; k < states.size(); ++k) call.states[k] = states[k]->data();
    update.call(call, stream);
    AfterStep out{read(p), read(copies), {}};
    for (const auto& state : states) out.states.push_back(read(*state));
    return out;
}

template <typename T>
constexpr double half_a_unit = std::is_same_v<T, float>  ? 0
                               : std::is_same_v<T, bf16> ? 0x1p-8
                                                         : 0x1p-11;

// To half a unit in the last place of what is stored, and a few roundings of f32 on the way.
template <typename T>
void expect_rounded(const std::vector<float>& got, const std::vector<float>& of, const std::string& what,
                    const std::function<double(std::size_t)>& further) {
    ASSERT_EQ(got.size(), of.size());
    for (std::size_t i = 0; i < of.size(); ++i)
        ASSERT_NEAR(got[i], of[i], 1e-6 + half_a_unit<T> * std::abs(of[i]) + further(i)) << what << " at " << i;
}

template <template <typename> typename Memory, typename P, typename G, typename S, typename C>
void expect_step_as_stored(const NamedUpdate& update, Stream& stream) {
    const AfterStep want = step_as_stored<Memory, float, float, float, float>(update, stream),
                    got = step_as_stored<Memory, P, G, S, C>(update, stream);
    const RuleInfo& rule = *find_rule(update.rule);
    const std::vector<double> start = trajectory_start();
    // A tensor goes by its states as they are stored: by the root of three numbers that are rounded, a mean of rows, a
    // row and a column. Decay is no part of that way.
    expect_rounded<P>(got.parameters, want.parameters, "parameters", [&](std::size_t i) {
        const double way = std::abs(want.parameters[i] - start[i]) + narrow_steps_decay * std::abs(start[i]);
        return rule.steps_tensors ? 1.5 * half_a_unit<S> * way : 0;
    });
    for (std::size_t i = 0; i < got.copies.size() && !std::is_same_v<C, float>; ++i)
        ASSERT_EQ(got.copies[i], as_float(stored_as<C>(got.parameters[i]))) << i;
    for (std::size_t k = 0; k < got.states.size(); ++k)
        expect_rounded<S>(got.states[k], want.states[k], rule.states[k], [](std::size_t) { return 0.0; });
}

// Each combination of types that programs have.
template <template <typename> typename Memory>
void expect_whole_steps_in_narrow_types(Stream& stream) {
    std::size_t rules = 0;
    for (const NamedUpdate& update : updates) {
        if (!find_rule(update.rule)->steps_wholes()) continue;
        SCOPED_TRACE(update.rule);
        ++rules;
        const auto with = [&]<typename C>(C) {
            expect_step_as_stored<Memory, float, float, float, C>(update, stream);
            expect_step_as_stored<Memory, float, C, float, C>(update, stream);
            expect_step_as_stored<Memory, float, float, C, C>(update, stream);
            expect_step_as_stored<Memory, float, C, C, C>(update, stream);
            expect_step_as_stored<Memory, C, float, float, float>(update, stream);
            expect_step_as_stored<Memory, C, C, float, float>(update, stream);
            expect_step_as_stored<Memory, C, float, C, float>(update, stream);
            expect_step_as_stored<Memory, C, C, C, float>(update, stream);
        };
#define THUNDER_WITH(T) with(T());
        THUNDER_NARROW_TYPES(THUNDER_WITH)
#undef THUNDER_WITH
    }
    EXPECT_GE(rules, 2U);
}

}  // namespace thunder
