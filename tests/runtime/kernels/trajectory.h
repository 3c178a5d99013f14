// SPDX-License-Identifier: Apache-2.0
// What runs of optimizers are held against: a hundred steps of torch's, in fp64, which trajectories.h has, recorded by
// scripts/record_optimizers.py. Those who run rules differ in numbers and memory; what they are given is made here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "../../../runtime-lib/optim/rules/info.h"  // who includes this has the runtime in its path, or has not

namespace thunder {

struct TrajectoryPoint {
    int step;  // from 1
    std::vector<double> parameters;
};

// Of averages, in f32, over steps after which parameters are what trajectory_gradient() says.
struct AverageTrajectory {
    double decay;
    std::vector<TrajectoryPoint> points;
};

// Of a matrix of 3 x 4 elements and, behind it, a vector of 5.
struct Trajectory {
    std::string name, rule;
    std::vector<double> options;
    double learning_rate, weight_decay;
    bool decay_all;
    double max_grad_norm;  // 0: no clipping
    std::vector<TrajectoryPoint> points;

    std::vector<double> numbers(int step) const {
        return find_rule(rule)->step_numbers(options, {learning_rate, weight_decay, static_cast<double>(step)});
    }
};

inline constexpr int matrix_rows = 3, matrix_columns = 4, matrix_elements = 12, vector_elements = 5,
                     trajectory_steps = 100;

// `of(k, salt)` for the elements of both tensors, as the script has it. All are numbers that a float has exactly.
template <typename Of>
std::vector<double> of_both(const Of& of) {
    std::vector<double> out;
    for (int k = 0; k < matrix_elements; ++k) out.push_back(of(k, 'w'));
    for (int k = 0; k < vector_elements; ++k) out.push_back(of(k, 'b'));
    return out;
}
inline std::vector<double> trajectory_start() {
    return of_both([](int k, int salt) { return ((5 * k + salt) % 13 - 6) / 8.0; });
}
// Of a step from 1 on.
inline std::vector<double> trajectory_gradient(int step) {
    return of_both(
        [&](int k, int salt) { return ((37 * k + 53 * (step - 1) + 19 * salt) * (step + 6) % 101 - 50) / 64.0; });
}
inline double norm_of(const std::vector<double>& gradient) {
    double sum = 0;
    for (const double g : gradient) sum += g * g;
    return std::sqrt(sum);
}
inline double clip_factor_of(const Trajectory& t, const std::vector<double>& gradient) {
    return t.max_grad_norm == 0 ? 1 : std::min(1.0, t.max_grad_norm / (norm_of(gradient) + 1e-6));
}

// step(number from 1, gradient) gives the parameters after it.
template <typename AnyTrajectory, typename Step>
void expect_trajectory(const AnyTrajectory& t, double tolerance, const Step& step) {
    std::size_t next = 0;
    for (int number = 1; number <= trajectory_steps; ++number) {
        const std::vector<double> parameters = step(number, trajectory_gradient(number));
        if (t.points.at(next).step != number) continue;
        const std::vector<double>& expected = t.points[next++].parameters;
        ASSERT_EQ(parameters.size(), expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k)
            ASSERT_NEAR(parameters[k], expected[k], tolerance) << "element " << k << " after step " << number;
    }
    EXPECT_EQ(next, t.points.size());
}

// A rule that is on the list has been recorded.
inline void expect_every_rule(const std::vector<Trajectory>& trajectories) {
    std::set<std::string> recorded, listed;
    for (const Trajectory& t : trajectories) recorded.insert(t.rule);
    for (const RuleInfo& rule : all_rules()) listed.insert(rule.name);
    EXPECT_EQ(recorded, listed);
}

}  // namespace thunder
