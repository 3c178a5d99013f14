// SPDX-License-Identifier: Apache-2.0
// What the losses and norms of a program's steps may be off by, from those of its reference.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace thunderc {

// Of one step.
struct StepNumbers {
    double loss = 0, norm = 0;  // the norm of the gradient before it is clipped
};
using Steps = std::vector<StepNumbers>;

// What a program does that does not do as the reference.
struct Departure {
    std::size_t step = 0;
    std::string what;  // "loss 5.2, the reference's 4.1: off by 1.1 where 0.003 is allowed"
};

// Plain rounding is no departure, and it grows from step to step with what the optimizer makes of it. How much it is
// the reference itself shows: it is run again from parameters that are each rounded as the program's products round,
// and what that moves is what to expect of a program that rounds, three times as much what is allowed, as in a
// program's own test (templates/tests/gradients_test.cpp). That is a sample of a few roundings, so the largest of
// `draws` counts, and of the steps so far. Sums in f32 in another order, which every program has, are the least.
class StepBounds {
  public:
    static constexpr int draws = 6;
    static constexpr double moves_allowed = 3, least_loss = 1e-5, least_norm = 1e-4;

    // With a tolerance, a relative one, that alone is what a program may be off by.
    StepBounds(Steps reference, std::optional<double> tolerance);

    // The reference's steps from rounded parameters.
    void add_moved(const Steps& moved);
    // The first step that is off; one that a program does not have is.
    std::optional<Departure> departure(const Steps& steps) const;

  private:
    Steps reference_;
    std::optional<double> tolerance_;
    Steps moves_;
};

}  // namespace thunderc
