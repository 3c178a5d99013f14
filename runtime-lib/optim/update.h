// SPDX-License-Identifier: Apache-2.0
// The optimizers' steps over flat arenas, one pass over memory: a function for each rule of rules/list.h.
#pragma once

#include <span>

#include "device/types.h"
#include "optim/rules/list.h"
#include "optim/segments.h"
#include "optim/step_scalars.h"

namespace thunder {

class Stream;

// Each element is stepped by the rule's element(), on clip_factor * gradient; none where the factor is negative. Arenas
// are f32 or narrow, the states alike; what is computed is f32 and rounded where it is stored.
struct OptimizerUpdate {
    Output parameters{};
    Input gradients{};
    Output states[rules::most_states]{};  // in the order of the rule's States
    Output narrow_copies{};               // the new parameters once more, for products to read; null: none
    std::span<const ParameterSegment> segments;
    const StepScalars* scalars = nullptr;  // on the device
    float* scratch = nullptr;  // of matrix_scratch() or tensor_scratch() for each that is stepped as a whole
};

// void adamw(const OptimizerUpdate& call, Stream& stream); and so on
#define THUNDER_DECLARE_UPDATE(name, Rule) void name(const OptimizerUpdate& call, Stream& stream);
THUNDER_RULES(THUNDER_DECLARE_UPDATE)
#undef THUNDER_DECLARE_UPDATE

}  // namespace thunder
