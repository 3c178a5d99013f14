// SPDX-License-Identifier: Apache-2.0
// What a run keeps of its parameters for the optimizer, and where: its program says which parameters there are, its
// options how each is stepped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "optim/state_layout.h"
#include "train/arenas.h"
#include "train/options.h"
#include "train/program.h"
#include "train/world.h"

namespace thunder {

struct OptimizerStates {
    struct OfParameter {
        const ParameterSpec* parameter;
        Piece piece;  // that this rank has; perhaps nothing
        rules::Stepped stepped;
        bool coded;  // its states are codes (rules/codes.h)
        // By state: from which byte of the arena on that of the piece lies, and where the scales of codes do.
        std::array<std::int64_t, rules::most_states> begins, scales;
    };
    std::vector<OfParameter> parameters;  // those that train, in the order of the program
    std::int64_t bytes = 0;               // of the arena
};
OptimizerStates states_of(const ProgramSpec& program, const Options& options, int rank);

// Elements from one state to the next where each is laid out like what trains.
std::int64_t trained_elements(const ProgramSpec& program);

// Products read the parameters in a narrow type: as they are before the first step, from which on the optimizer writes
// them.
void make_narrow_copies(const ProgramSpec& program, const TrainingArenas& arenas, Stream& stream);

// Of what is quantised: scales of 1, and nothing known of what is to come. And nothing noted of what was quantised
// since scales were last updated: an evaluation is no part of a run.
void begin_scaling(const ProgramSpec& program, const TrainingArenas& arenas, Stream& stream);
void forget_amaxes(const ProgramSpec& program, const TrainingArenas& arenas, Stream& stream);

// The dimensions of a state of a parameter.
std::vector<std::int64_t> dims_of_state(const ProgramSpec& program, const OptimizerStates::OfParameter& of,
                                        std::size_t state);

}  // namespace thunder
