// SPDX-License-Identifier: Apache-2.0
// Gradients of a differentiated module against central differences of its loss, all in fp64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/module.h"

namespace thunderc {

// Values for the arguments of main: inputs that are ids lie in their range (now and then the ignored index), positions
// count up, what is fed with ones is one; parameters are small, those of one dimension about 1; scalars are 1. The same
// seed gives the same values on every machine.
std::vector<Members> random_arguments(const Function& main, std::uint64_t seed);

struct GradientCheckOptions {
    std::uint64_t seed = 1;
    std::int64_t directions = 3;  // random directions through all parameters at once
    // Random elements of each parameter, every other one with a gradient that is not 0; all where it has no more.
    std::int64_t elements = 2;
    // Of differences of fourth order: truncation about step^4. Where they disagree with the gradient, smaller steps are
    // tried as well, since a loss may be steep; of these the two that agree best with each other count.
    double step = 1e-4;
};

struct GradientCheck {
    std::string what;     // "direction 0", "model.norm.weight[3]"
    double expected = 0;  // by differences
    double actual = 0;    // by the gradients
    double error = 0;     // |actual - expected| / (|actual| + |expected| + 1e-4 norm of all gradients)
    // The slopes to both sides differ (relu, max): any gradient between them is right, and `expected` is the nearest.
    bool kink = false;
};

// `module` is what differentiate gives: main(..., dloss) -> (loss, weight?, gradients of trainable parameters). Where
// it stops gradients, differences hold what passes there at its value.
// A correct gradient shows an error of 1e-8 or less: truncation of 1e-16 and cancellation of 1e-12, both of the size of
// the loss, against at least 1e-4 of the norm of all gradients.
std::vector<GradientCheck> check_gradients(const Module& module, std::span<const Members> arguments,
                                           const GradientCheckOptions& options = {});

}  // namespace thunderc
