// SPDX-License-Identifier: Apache-2.0
// Where each state of the optimizer lies in its arena, in a program that is being planned: runtime-lib/optim/
// state_layout.h says it, and programs ask there as well.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/planned/parameter_places.h"

namespace thunderc::planning {

// In bytes, by the first name of a state: "first_moment.model.norm.weight".
struct StatePlace {
    std::int64_t offset = 0, layer_stride = 0;
};
struct StatePlaces {
    std::map<std::string, StatePlace> by_name;
    std::int64_t bytes = 0;  // of the arena
};

// Of a training step.
StatePlaces place_states(const Module& module, const ParameterPlaces& parameters);

}  // namespace thunderc::planning
