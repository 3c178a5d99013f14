// SPDX-License-Identifier: Apache-2.0
// The loss that a step computes against what it is by definition, both in fp64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/passes/step/add_loss.h"

namespace thunderc {

struct LossCheck {
    std::string what;               // "mse of y", "loss, as the model has it"
    std::size_t micro_batches = 1;  // that are accumulated
    double expected = 0;            // by definition
    double actual = 0;              // by the step: what its micro-steps add up, divided as the runtime divides it
    double error = 0;               // |actual - expected| / (|actual| + |expected|); NaN where one of the two is NaN
};

// How many micro-batches a step has here: each may have another weight.
constexpr std::int64_t checked_micro_batches = 3;

// `graph` is the model as it was imported, with the framework's names and without an added loss; `composed` is what
// compose_step leaves of it. Weights and inputs are random. A loss that was added to the graph's result is compared
// with its definition over the rows of all micro-batches; the model's own with what the graph gives for all of them as
// one batch: `joined` is the graph imported with that many rows. Where there is none (null), or the loss of several
// micro-batches is not that of one large one (chosen.whole), one micro-batch is compared alone, of which a sum, its
// weight and an average tell nothing.
LossCheck check_loss(const Module& graph, const Module* joined, const ChosenLoss& chosen, const Module& composed,
                     std::uint64_t seed);

}  // namespace thunderc
